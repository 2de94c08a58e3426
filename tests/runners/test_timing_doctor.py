"""`judge doctor --timing` through real boxes, with little time."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live import children_of

TWO_CORES = "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]); "

ENDING_S = 10.0


@pytest.mark.parametrize("words", [["--neighbour"], ["--seconds", "5"]])
def test_options_of_timing_are_refused_without_it(words: Sequence[str]) -> None:
    told = subprocess.run(_doctor(*words), capture_output=True, text=True, timeout=60)
    assert told.returncode == 2
    assert "--timing" in told.stderr


@pytest.mark.box
@pytest.mark.slow
def test_a_second_runner_is_refused_where_there_are_no_cores_for_it(tmp_path: Path) -> None:
    words = _doctor("--timing", "--neighbour", "--state-dir", str(tmp_path), before=TWO_CORES)
    told = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert told.returncode == 2
    assert "4 in all" in told.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.box
@pytest.mark.slow
def test_a_machine_is_measured_and_its_figures_kept(tmp_path: Path) -> None:
    told = subprocess.run(
        _doctor("--timing", "--seconds", "0.2", "--json", "--state-dir", str(tmp_path)),
        capture_output=True,
        timeout=250,
    )
    assert told.returncode == 0, told.stderr.decode()
    body = json.loads(told.stdout)
    figures = body["figures"]
    assert 0 < figures["round_trip_median_us"] <= figures["round_trip_p99_us"]
    assert 0 < figures["box_from_pool_s"] < figures["box_start_warm_s"]
    assert figures["aa_sd_0.2s_pct"] > 0
    assert len(body["series"]) == 3
    assert all(len(series["values"]) >= 8 for series in body["series"])
    assert {finding["subject"] for finding in body["findings"]} >= {"allocator", "steal", "copy"}
    (allocator,) = (f for f in body["findings"] if f["subject"] == "allocator")
    assert allocator["level"] == "ok"
    kept = json.loads((tmp_path / "doctor-timing.json").read_text())
    assert kept == {"at": body["at"], "figures": figures}


@pytest.mark.box
@pytest.mark.slow
def test_an_interrupted_measuring_keeps_nothing_and_leaves_no_box(tmp_path: Path) -> None:
    with subprocess.Popen(
        _doctor("--timing", "--state-dir", str(tmp_path)),
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background have it ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as doctor:
        assert doctor.stderr is not None
        for line in doctor.stderr:
            if "against its copy" in line:  # boxes stand ready, and one of the null kernel's runs
                break
        boxes = [os.pidfd_open(pid) for pid in _descendants(doctor.pid)]
        doctor.send_signal(signal.SIGINT)
        said = doctor.stderr.read()
        assert doctor.wait(60) == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    assert boxes
    for box in boxes:
        ended, _, _ = select.select([box], [], [], ENDING_S)
        os.close(box)
        assert ended


def _doctor(*words: str, before: str = "") -> list[str]:
    return [sys.executable, "-c", f"{before}from judge.cli import main; main()", "doctor", *words]


def _descendants(pid: int) -> list[int]:
    below = children_of(pid)
    return below + [deeper for child in below for deeper in _descendants(child)]
