"""What the doctor prints, keeps and refuses about timing."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge.cli.talk import Exit
from runners.doctor import Finding, Level, exit_of
from runners.timing import kernel
from runners.timing.causes import BoxMemory
from runners.timing.machine import read_cores
from runners.timing.measure import Costs, Starts
from runners.timing.neighbour import Arm, Beside, load, neighbour_finding, why_not
from runners.timing.report import Measured, figures, table, whole, write_file
from runners.timing.resolution import Series

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALUES = (0.002, -0.001, 0.0, 0.001, -0.002, 0.001, 0.0, -0.001)
FOUND = Measured(
    Costs(
        round_trip_ns=(500,) * 98 + (3_000,) * 2,
        null_call_ns=(30_000,) * 100,
        starts=Starts(2.5, (1.1, 1.3), (0.001,)),
        memory=BoxMemory((), 0.0),
    ),
    tuple(Series(s, s, 10, VALUES) for s in (1.0, 5.0, 20.0)),
)
QUIET = Arm(VALUES, (10.0, 10.001) * 4)


def test_figures_are_plain_numbers_whose_names_end_in_their_unit() -> None:
    told = figures(FOUND)
    assert told["round_trip_median_us"] == 0.5
    assert told["round_trip_p99_us"] == 3.0
    assert told["box_start_warm_s"] == 1.2
    assert told["aa_sd_20s_pct"] == pytest.approx(0.13, abs=0.01)
    assert {"resolves_in_20s_pct", "resolves_in_60s_pct"} < set(told)
    assert all(name.rsplit("_")[-1] in {"us", "s", "pct"} for name in told)


def test_the_table_names_every_asked_figure() -> None:
    text = "\n".join(table(FOUND))
    for words in ("round trip", "null call", "cold", "warm", "pool", "after 1 s", "after 5 s"):
        assert words in text
    assert "after 20 s of measuring" in text
    assert "8 boxes per arm" in text
    assert "in 60 s of measuring" in text


def test_a_machine_without_a_freezer_gets_the_figures_that_there_are() -> None:
    told = figures(replace(FOUND, series=()))
    assert "null_call_median_us" in told
    assert not any(name.startswith(("aa_", "resolves_")) for name in told)
    assert "copy" not in "\n".join(table(replace(FOUND, series=())))


def test_json_holds_figures_findings_and_the_pairs_behind_them() -> None:
    told = json.loads(json.dumps(whole(FOUND, [Finding("steal", Level.OK, "none")], AT)))
    assert set(told) == {"at", "figures", "findings", "series"}
    assert told["at"] == "2026-01-02T03:04:05+00:00"
    assert told["findings"] == [{"subject": "steal", "level": "ok", "fact": "none", "remedy": ""}]
    assert told["series"][2]["values"] == list(VALUES)


def test_the_file_for_the_runner_holds_the_time_and_the_figures(tmp_path: Path) -> None:
    path = write_file(tmp_path / "state", FOUND, AT)
    assert path == tmp_path / "state" / "doctor-timing.json"
    assert json.loads(path.read_text()) == {"at": AT.isoformat(), "figures": dict(figures(FOUND))}
    write_file(tmp_path / "state", replace(FOUND, series=()), AT)
    assert list(path.parent.iterdir()) == [path]
    assert "aa_sd_20s_pct" not in path.read_text()


@pytest.mark.parametrize(
    ("level", "ended"),
    [
        (Level.OK, Exit.ACCEPTED),
        (Level.REDUCED, Exit.ACCEPTED),
        (Level.MISSING, Exit.NOT_ACCEPTED),
    ],
)
def test_only_what_is_missing_makes_the_doctor_fail(level: Level, ended: Exit) -> None:
    assert exit_of([Finding("x", Level.OK, ""), Finding("y", level, "")]) is ended


def test_a_probe_that_sees_other_settings_is_told() -> None:
    printed = json.dumps({"environment": {"A": "1", "OWN": "x"}, "faults": 40}).encode()
    assert kernel.memory_of(printed, {"A": "1", "B": "2"}) == BoxMemory(("B",), 2.0)
    assert kernel.memory_of(printed, {"A": "0"}).differing == ("A",)


@pytest.mark.parametrize(
    ("usable", "evaluator", "box", "refused"),
    [
        ({0, 1}, 0, 1, True),
        ({0, 1, 2}, 0, 1, True),
        ({0, 1, 2, 3}, 0, 0, True),
        ({0, 1, 2, 3}, 0, 1, False),
    ],
)
def test_a_second_runner_needs_two_cores_of_its_own(
    usable: set[int], evaluator: int, box: int, refused: bool
) -> None:
    said = why_not(read_cores(evaluator, box, usable))
    assert bool(said) is refused
    assert not refused or f"may use {len(usable)}" in said


def test_a_neighbour_that_moves_nothing_is_fine() -> None:
    assert neighbour_finding(Beside((2, 3), QUIET, QUIET)).level is Level.OK


def test_a_neighbour_that_slows_both_arms_alike_is_fine() -> None:
    slower = Arm(VALUES, tuple(log + math.log(1.3) for log in QUIET.log_ns))
    found = neighbour_finding(Beside((2, 3), QUIET, slower))
    assert found.level is Level.OK
    assert "+30.00%" in found.fact


@pytest.mark.parametrize("values", [tuple(v + 0.03 for v in VALUES), tuple(5 * v for v in VALUES)])
def test_a_neighbour_that_moves_or_widens_the_ratio_is_told(values: tuple[float, ...]) -> None:
    found = neighbour_finding(Beside((2, 3), QUIET, Arm(values, QUIET.log_ns)))
    assert found.level is Level.REDUCED
    assert "one runner" in found.remedy


def test_load_runs_only_meanwhile() -> None:
    core = min(os.sched_getaffinity(0))
    before = _children()
    with load([core]):
        assert _children() == before + 1
    assert _children() == before


def _children() -> int:
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
