"""What a machine's facts mean for measuring: the causes of noise, each with its remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from runners.doctor import Finding, Level
from runners.timing.machine import Cores

STEAL: Final = 0.001
LOAD: Final = 0.02
DRIFT: Final = 0.02
SWITCHES_PER_S: Final = 20.0
WAITED: Final = 0.001
FAULTS_PER_ROUND: Final = 1.0
BIAS: Final = 0.01
RESOLVES: Final = 0.01
"""What ranked runs are asked to tell apart in 60 s of measuring: one per cent."""

LONG_S: Final = 60


@dataclass(frozen=True, slots=True)
class BoxMemory:
    """How a box treats freed memory.

    differing: variables of its environment that are not as the judge set them. faults_per_round:
    page faults of taking and freeing a large buffer once more; None where that was not seen.
    """

    differing: tuple[str, ...]
    faults_per_round: float | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a machine while it measured; shares are of 1.

    freezer: whether boxes can be frozen. load: by core, the largest share that others used while
    measuring rested. bias: mean log ratio of a kernel over its copy, its 95 % interval's half-width;
    None where it was not measured. resolves: by seconds of measuring, the smallest difference told.
    """

    cores: Cores
    freezer: bool
    memory: BoxMemory
    steal: float
    load: Mapping[int, float]
    drift: float
    switches_per_s: float
    waited: float | None
    bias: tuple[float, float] | None
    resolves: Mapping[int, float]


def causes(seen: Seen) -> tuple[Finding, ...]:
    """Everything that was looked at, the good included, in the order to read it."""
    return tuple(_causes(seen))


def _causes(seen: Seen) -> Iterator[Finding]:
    yield _cores(seen.cores)
    yield _freezer(seen.freezer)
    yield _allocator(seen.memory)
    yield _governor(seen.cores)
    yield _drift(seen)
    yield _virtual(seen.cores)
    yield _steal(seen)
    yield _neighbours(seen)
    if seen.bias is not None:
        yield _bias(*seen.bias)
    if LONG_S in seen.resolves:
        yield _resolution(seen.resolves[LONG_S])


def _cores(cores: Cores) -> Finding:
    subject = "cores"
    if cores.evaluator == cores.box:
        if len(cores.usable) == 1:
            return Finding(
                subject,
                Level.REDUCED,
                "one core: evaluator and boxes take turns on it, so every time holds switches",
                "give the runner two cores or more",
            )
        return Finding(
            subject,
            Level.REDUCED,
            f"evaluator and boxes share core {cores.box}",
            "start the runner with different --evaluator-core and --box-core",
        )
    both = f"evaluator on core {cores.evaluator}, boxes on core {cores.box}"
    if cores.box in cores.siblings:
        return Finding(
            subject,
            Level.REDUCED,
            f"{both}: two threads of one physical core, so the spinning evaluator slows the kernel",
            "choose cores that are not siblings (lscpu -e) by --evaluator-core and --box-core,"
            " or switch SMT off (echo off > /sys/devices/system/cpu/smt/control)",
        )
    return Finding(subject, Level.OK, f"{both}, not siblings")


def _freezer(freezer: bool) -> Finding:
    if freezer:
        return Finding("freezer", Level.OK, "one box is frozen while the other is timed")
    return Finding(
        "freezer",
        Level.REDUCED,
        "boxes cannot be frozen: two arms cannot take turns, and ranked runs are refused here",
        "start the runner as root, or delegate a cgroup2 tree to it"
        " (systemd-run --user --scope -p Delegate=yes)",
    )


def _allocator(memory: BoxMemory) -> Finding:
    subject = "allocator"
    if memory.differing:
        return Finding(
            subject,
            Level.REDUCED,
            f"boxes do not see the judge's {', '.join(memory.differing)}:"
            " freed memory goes back to the kernel, and processes of one code differ by per cents",
            "let nothing between runner and box change the environment"
            " (a wrapper around bwrap, LD_PRELOAD in /etc/ld.so.preload)",
        )
    faults = memory.faults_per_round
    if faults is not None and faults > FAULTS_PER_ROUND:
        return Finding(
            subject,
            Level.REDUCED,
            f"taking a freed buffer again costs {faults:.0f} page faults in a box, although the"
            " judge's malloc settings are set there: its C library does not heed them",
            "run Python and torch on glibc, without another allocator (/etc/ld.so.preload)",
        )
    return Finding(subject, Level.OK, "boxes keep freed memory: malloc's settings are in force")


def _governor(cores: Cores) -> Finding:
    subject = "governor"
    slow = {core: name for core, name in cores.governors.items() if name != "performance"}
    if slow:
        told = ", ".join(f"core {core}: {name}" for core, name in sorted(slow.items()))
        return Finding(
            subject,
            Level.REDUCED,
            f"the CPU frequency follows the load ({told})",
            "cpupower frequency-set --governor performance",
        )
    if not cores.governors:
        return Finding(subject, Level.OK, "the kernel sets no CPU frequency here")
    return Finding(subject, Level.OK, "performance")


def _drift(seen: Seen) -> Finding:
    subject = "frequency"
    turbo = {True: ", turbo is on", False: ", turbo is off", None: ""}[seen.cores.turbo]
    fact = f"one loop took up to {seen.drift:.1%} longer at one time than at another{turbo}"
    if seen.drift <= DRIFT:
        return Finding(subject, Level.OK, fact)
    if seen.cores.turbo:
        remedy = (
            "switch turbo off (echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, elsewhere"
            " echo 0 > /sys/devices/system/cpu/cpufreq/boost)"
        )
    elif seen.cores.virtual:
        remedy = "the host sets the frequency: ask for dedicated cores of fixed frequency"
    else:
        remedy = "look for heat or a power limit (turbostat), and fix the frequency"
    return Finding(subject, Level.REDUCED, fact, remedy)


def _virtual(cores: Cores) -> Finding:
    if cores.virtual:
        return Finding(
            "virtual machine",
            Level.OK,
            "yes: the hypervisor may move or stop the cores; steal and frequency tell if it does",
        )
    return Finding("virtual machine", Level.OK, "no hypervisor is seen")


def _steal(seen: Seen) -> Finding:
    fact = f"the hypervisor took {seen.steal:.2%} of both cores' time for others"
    if seen.steal <= STEAL:
        return Finding("steal", Level.OK, fact)
    return Finding(
        "steal",
        Level.REDUCED,
        fact,
        "use a host whose cores are not shared (dedicated or pinned vCPUs)",
    )


def _neighbours(seen: Seen) -> Finding:
    subject = "neighbours"
    loads = ", ".join(f"core {core}: {share:.1%}" for core, share in sorted(seen.load.items()))
    waited = "" if seen.waited is None else f", and waited for it {seen.waited:.2%} of the time"
    fact = (
        f"others used {loads or 'nothing'}; the evaluator was taken off its core"
        f" {seen.switches_per_s:.1f} times a second{waited}"
    )
    is_quiet = (
        all(share <= LOAD for share in seen.load.values())
        and seen.switches_per_s <= SWITCHES_PER_S
        and (seen.waited is None or seen.waited <= WAITED)
    )
    if is_quiet:
        return Finding(subject, Level.OK, fact)
    cores = ",".join(str(core) for core in sorted({seen.cores.evaluator, seen.cores.box}))
    return Finding(
        subject,
        Level.REDUCED,
        fact,
        f"end what else runs there, or keep it off cores {cores}"
        f" (boot with isolcpus={cores}, or AllowedCPUs= of systemd's slices)",
    )


def _bias(mean: float, half_width: float) -> Finding:
    fact = f"a kernel against its copy: {mean:+.2%}, within {half_width:.2%}"
    if abs(mean) <= BIAS or abs(mean) <= half_width:
        return Finding("copy", Level.OK, fact)
    return Finding(
        "copy",
        Level.REDUCED,
        f"{fact}: one arm is favoured, and ranked runs would be void",
        "mend the causes above; if none is left, report this output",
    )


def _resolution(smallest: float) -> Finding:
    fact = f"a difference of {smallest:.2%} is told in {LONG_S} s of measuring"
    if smallest <= RESOLVES:
        return Finding("resolution", Level.OK, fact)
    return Finding(
        "resolution",
        Level.REDUCED,
        f"{fact}: entries that are closer share a band, and many will be unstable",
        "mend the causes above, or rank on a quieter machine",
    )
