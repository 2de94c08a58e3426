"""What the doctor makes of facts about timing, real and made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runners.doctor import Finding, Level
from runners.timing.causes import BoxMemory, Seen, causes
from runners.timing.machine import (
    Cores,
    CoreTime,
    Disturbance,
    core_times,
    cores_of_list,
    is_virtual,
    read_cores,
    turbo_of,
    waited_ns,
)

CORES = Cores(
    evaluator=0,
    box=1,
    usable=frozenset({0, 1}),
    siblings=frozenset({0}),
    governors={0: "performance", 1: "performance"},
    turbo=False,
    virtual=False,
)
QUIET = Seen(
    cores=CORES,
    freezer=True,
    memory=BoxMemory((), 0.0),
    steal=0.0,
    load={0: 0.001, 1: 0.0},
    drift=0.004,
    switches_per_s=1.5,
    waited=0.0001,
    bias=(0.001, 0.002),
    resolves={20: 0.006, 60: 0.003},
)
SHARED = replace(CORES, box=0)


def faults(seen: Seen) -> list[Finding]:
    return [finding for finding in causes(seen) if finding.level is not Level.OK]


def test_a_quiet_machine_has_no_faults_and_every_cause_is_told() -> None:
    assert faults(QUIET) == []
    assert {finding.subject for finding in causes(QUIET)} == {
        *("cores", "freezer", "allocator", "governor", "frequency", "virtual machine"),
        *("steal", "neighbours", "copy", "resolution"),
    }


@pytest.mark.parametrize(
    ("seen", "subject", "fact", "remedy"),
    [
        (
            replace(QUIET, cores=replace(SHARED, usable=frozenset({0}))),
            *("cores", "one core", "two cores"),
        ),
        (replace(QUIET, cores=SHARED), "cores", "share core 0", "--box-core"),
        (
            replace(QUIET, cores=replace(CORES, siblings=frozenset({0, 1}))),
            *("cores", "one physical core", "smt/control"),
        ),
        (replace(QUIET, freezer=False), "freezer", "refused", "as root"),
        (
            replace(QUIET, memory=BoxMemory(("MALLOC_MMAP_THRESHOLD_",), 0.0)),
            *("allocator", "MALLOC_MMAP_THRESHOLD_", "ld.so.preload"),
        ),
        (
            replace(QUIET, memory=BoxMemory((), 2048.0)),
            *("allocator", "2048 page faults", "glibc"),
        ),
        (
            replace(QUIET, cores=replace(CORES, governors={0: "performance", 1: "powersave"})),
            *("governor", "core 1: powersave", "cpupower"),
        ),
        (
            replace(QUIET, drift=0.12, cores=replace(CORES, turbo=True)),
            *("frequency", "12.0%", "no_turbo"),
        ),
        (
            replace(QUIET, drift=0.12, cores=replace(CORES, virtual=True)),
            *("frequency", "12.0%", "dedicated cores"),
        ),
        (replace(QUIET, drift=0.12), "frequency", "12.0%", "turbostat"),
        (replace(QUIET, steal=0.031), "steal", "3.10%", "not shared"),
        (replace(QUIET, load={0: 0.0, 1: 0.3}), "neighbours", "core 1: 30.0%", "isolcpus=0,1"),
        (replace(QUIET, switches_per_s=300.0), "neighbours", "300.0 times", "AllowedCPUs"),
        (replace(QUIET, waited=0.02), "neighbours", "2.00%", "AllowedCPUs"),
        (replace(QUIET, bias=(0.02, 0.003)), "copy", "+2.00%", "causes above"),
        (replace(QUIET, resolves={60: 0.018}), "resolution", "1.80%", "quieter machine"),
    ],
)
def test_every_cause_of_noise_is_told_with_its_remedy(
    seen: Seen, subject: str, fact: str, remedy: str
) -> None:
    (found,) = faults(seen)
    assert found.subject == subject
    assert fact in found.fact
    assert remedy in found.remedy


def test_a_difference_from_the_copy_within_its_interval_is_no_fault() -> None:
    assert faults(replace(QUIET, bias=(0.02, 0.03))) == []


def test_what_could_not_be_measured_is_not_judged() -> None:
    subjects = {f.subject for f in causes(replace(QUIET, bias=None, resolves={}, waited=None))}
    assert subjects.isdisjoint({"copy", "resolution"})


def test_a_virtual_machine_is_a_fact_and_no_fault() -> None:
    seen = replace(QUIET, cores=replace(CORES, virtual=True, governors={}, turbo=None))
    assert faults(seen) == []


def test_the_cores_lines_of_proc_stat_are_read_and_the_rest_left() -> None:
    stat = "cpu  9 9 9 9\ncpu0 10 1 20 300 5 2 3 7 40 0\ncpu12 1 2 3 4 5\nintr 1 2\n"
    assert core_times(stat) == {0: CoreTime(36, 7, 348), 12: CoreTime(6, 0, 15)}


def test_time_that_passed_on_a_core_is_told_kind_by_kind() -> None:
    assert CoreTime(36, 7, 348).since(CoreTime(30, 4, 300)) == CoreTime(6, 3, 48)


@pytest.mark.parametrize(
    ("text", "cores"), [("0\n", {0}), ("0,4-6", {0, 4, 5, 6}), ("2-3,8", {2, 3, 8}), ("\n", set())]
)
def test_lists_of_cores_are_read_as_sysfs_writes_them(text: str, cores: set[int]) -> None:
    assert cores_of_list(text) == cores


@pytest.mark.parametrize(
    ("no_turbo", "boost", "on"),
    [("0", None, True), ("1", None, False), (None, "1", True), (None, "0", False)],
)
def test_turbo_is_read_from_either_driver(
    no_turbo: str | None, boost: str | None, on: bool
) -> None:
    assert turbo_of(no_turbo, boost) is on


def test_turbo_is_unknown_where_the_kernel_is_silent() -> None:
    assert turbo_of(None, None) is None


def test_a_hypervisor_is_seen_by_the_processors_flag_alone() -> None:
    assert is_virtual("model name\t: x\nflags\t\t: fpu hypervisor sse\n")
    assert not is_virtual("model name\t: hypervisor\nflags\t\t: fpu sse\n")


def test_waiting_is_the_second_number_of_schedstat() -> None:
    assert waited_ns("1000 25 7\n") == 25


def test_drift_compares_looks_at_one_core_never_two_cores() -> None:
    disturbance = Disturbance((0, 1))
    disturbance.spins_ns = {0: [100, 110, 105], 1: [200, 204]}
    assert disturbance.drift == pytest.approx(0.10)


def test_shares_are_of_what_was_watched() -> None:
    disturbance = Disturbance((0,), watched_ns=2_000_000_000, stolen=3, whole=300, switches=8)
    disturbance.waited_ns = 20_000_000
    assert disturbance.steal == 0.01
    assert disturbance.switches_per_s == 4
    assert disturbance.waited == 0.01


def test_nothing_watched_tells_no_disturbance() -> None:
    disturbance = Disturbance((0,))
    assert (disturbance.steal, disturbance.drift, disturbance.switches_per_s) == (0, 0, 0)
    assert disturbance.waited is None


def test_this_machines_cores_can_be_read() -> None:
    cores = read_cores(0, 0, usable={0})
    assert 0 in cores.siblings
    assert cores.usable == {0}
