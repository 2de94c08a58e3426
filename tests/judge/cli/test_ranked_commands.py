"""What the command line says of ranked runs: as lines from bodies, and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from judge.cli.admin import release_line
from judge.cli.render import closing_lines, stage_line, verdict_line
from judge.model import JobState, Mode, Verdict
from judge.wire import (
    BoardBody,
    OutcomeBody,
    ProgressBody,
    RankedBoardBody,
    RankedBody,
    SpeedupBody,
    SubmissionBody,
)
from tests.judge.api.conftest import ROOT, Judge, Person, contest_text, running, until
from tests.judge.cli.test_render import submission
from tests.ranked_runs import Made, outcome

CLAIM = SpeedupBody(
    speedup=15.6123,
    low=15.2,
    high=16.0,
    confidence=0.99,
    baseline="plain torch",
    workload="topk v1, 4 secret cases",
    axis="time per call, geometric mean of 4 cases",
    device="cpu",
    pairs=12,
    at_least=False,
)


def ended(**changes: object) -> SubmissionBody:
    done = {"mode": Mode.RANKED, "state": JobState.DONE, "verdict": Verdict.ACCEPTED, "place": None}
    return submission(**{**done, "ranked": RankedBody(claim=CLAIM, runs=[]), **changes})


def test_the_verdict_of_a_ranked_run_carries_its_whole_claim() -> None:
    assert verdict_line(ended()) == (
        "accepted: 15.61x as fast as plain torch (99 % interval 15.20 - 16.00), 12 box pairs, cpu"
    )
    assert "4 secret cases" in closing_lines(ended())[0]
    least = RankedBody(claim=CLAIM.model_copy(update={"at_least": True}), runs=[])
    assert verdict_line(ended(ranked=least)).startswith("accepted: at least 15.61x")
    refused = ended(verdict=Verdict.UNSTABLE_TIMING, ranked=RankedBody(claim=None, runs=[]))
    assert verdict_line(refused) == "unstable timing"


def test_a_confirmation_run_is_told_queued_and_running() -> None:
    waiting = submission(mode=Mode.RANKED, confirming=True, attempt=1)
    assert stage_line(waiting) == (
        "a confirmation run is queued: place 2 in the cpu queue, about 12 s"
    )
    steps = ProgressBody(stage="timing", done=3, total=8)
    busy = waiting.model_copy(update={"state": JobState.RUNNING, "progress": steps})
    assert stage_line(busy) == "a confirmation run is running: timing 3/8"


def test_an_organizer_is_told_what_a_release_came_to() -> None:
    assert release_line(ended(id=7)) == "submission 7 released"
    assert "still held: odd" in release_line(ended(held=True, hold="odd"))
    waiting = ended(state=JobState.QUEUED, verdict=None, ranked=None, confirming=True)
    assert "must confirm it" in release_line(waiting)


def test_a_held_submission_says_why() -> None:
    assert "held for an organizer: too fast." in closing_lines(ended(held=True, hold="too fast."))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(tmp_path_factory.mktemp("judge"), contest_text()) as judge:
        yield judge


def command(judge: Judge, person: Person, *words: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGE_", "XDG_"))}
    who = ("--server", judge.url, "--token", person.token)
    return subprocess.Popen(
        [sys.executable, "-m", "judge.cli", *words, *who],
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(judge: Judge, person: Person, *words: str) -> str:
    out, err = command(judge, person, *words).communicate(timeout=60)
    assert out, err
    return out


def run_once(judge: Judge, job_id: int, made: Made) -> None:
    lease = judge.claim(job_id)
    cases = tuple(case["name"] for case in lease["cases"] if case["stage"] == "timing")
    body = OutcomeBody.of(outcome(job_id, replace(made, cases=cases), lease["attempt"]))
    judge.runner.http.post(
        f"/runner/jobs/{job_id}/outcome", json=body.model_dump(mode="json")
    ).raise_for_status()


@pytest.mark.slow
def test_a_ranked_submission_from_hand_in_to_board(judge: Judge, tmp_path: Path) -> None:
    ada = judge.newcomer("Ada")
    assert "Ranked:" not in said(judge, ada, "board"), "practice alone before the first entry"
    kernel = tmp_path / "topk.py"
    kernel.write_text("def custom_kernel(data):\n    return data[-1]\n")
    words = ("submit", str(kernel), "--problem", "topk", "--mode", "ranked")
    process = command(judge, ada, *words)

    def newest() -> dict[str, object] | None:
        listed = ada.http.get("/submissions").json()["submissions"]
        return listed[0] if listed else None

    until(lambda: newest() is not None)
    body = newest()
    assert body is not None
    number, job_id = int(str(body["id"])), int(str(body["job_id"]))
    run_once(judge, job_id, Made(3.0))
    status = said(judge, ada, "status", str(number))
    assert "a confirmation run is queued" in status
    assert "3.0" not in said(judge, ada, "show", str(number))
    run_once(judge, job_id, Made(2.0))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "a confirmation run is" in err
    (line,) = [line for line in out.splitlines() if line.startswith("accepted")]
    assert line.endswith(", 12 box pairs, cpu")
    assert "as fast as plain torch (99 % interval " in line
    assert "\x1b" not in out + err

    shown = said(judge, ada, "show", str(number))
    rows = [line.split()[:5] for line in shown.splitlines() if " of 2 " in line]
    assert [row[3] for row in rows] == ["before", "candidate", "guard"] * 2
    assert shown.count("counts") == 1
    assert "secret-timing" not in shown
    assert "secret-timing-1" in said(judge, judge.organizer, "show", str(number))

    both = said(judge, ada, "board", "topk")
    assert both.index("Ranked:") < both.index("Practice, not ranked")
    assert [line.split()[:2] for line in both.splitlines() if "Ada" in line] == [["1", "Ada"]]
    ranked = RankedBoardBody.model_validate_json(
        said(judge, ada, "board", "topk", "--mode", "ranked", "--json")
    )
    assert [entry.submission_ids for entry in ranked.entries] == [[number]]
    practice = said(judge, ada, "board", "topk", "--mode", "benchmark", "--json")
    assert BoardBody.model_validate_json(practice).entries == []
    assert len(json.loads(said(judge, ada, "board", "topk", "--json"))) == 2
    told = SubmissionBody.model_validate_json(said(judge, ada, "show", str(number), "--json"))
    assert told.ranked is not None
    assert told.ranked.claim is not None
