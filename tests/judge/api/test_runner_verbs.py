"""Promises to runners: a lease, a fresh key, one outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from judge.wire import LeaseBody
from tests.judge.api.conftest import KERNEL, until


def attempt_of(judge, submission: int) -> dict:
    return judge.organizer.http.get(f"/submissions/{submission}").json()


def test_a_lease_holds_all_that_a_runner_needs(judge):
    author = judge.newcomer()
    taken = author.submit(mode="benchmark")
    lease = judge.claim(taken["job_id"])
    job = LeaseBody.model_validate(lease).to_model()
    assert (job.id, job.attempt, job.main) == (taken["job_id"], 1, "topk.py")
    assert [file.content for file in job.files] == [KERNEL]
    assert any(case.secret for case in job.cases)
    assert len(job.key) == 16
    assert (lease["lease_s"], lease["heartbeat_s"]) == (15.0, 3.0)


def test_a_test_job_carries_no_secret_case(judge):
    lease = judge.claim(judge.newcomer().submit(mode="test")["job_id"])
    assert not any(case["secret"] for case in lease["cases"])


def test_every_attempt_gets_a_fresh_key(judge):
    first = judge.claim(judge.newcomer().submit()["job_id"])
    assert judge.finish(first, verdict="judge error").status_code == 200
    second = judge.claim(first["job_id"])
    assert second["attempt"] == 2
    assert second["key_hex"] != first["key_hex"]


def test_secret_cases_are_drawn_once_and_stay(own_judge):
    def secret(judge):
        lease = judge.claim(judge.newcomer().submit(mode="benchmark")["job_id"])
        return [case for case in lease["cases"] if case["secret"]]

    with own_judge() as judge:
        first = secret(judge)
    with own_judge() as judge:
        assert secret(judge) == first


def test_a_job_that_is_leased_is_nobody_elses(judge):
    taken = judge.newcomer().submit()
    judge.claim(taken["job_id"], "r1")
    digests = {p.id: p.digest for p in judge.app.parts.opened.problems.values()}
    body = {"runner": "r2", "problem_digests": digests, "isolation": "full"}
    other = judge.new_runner("r2")
    answer = other.http.post(f"/runner/jobs/{taken['job_id']}/claim", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "job_leased")


@pytest.mark.parametrize("digests", [{}, {"topk": "0" * 64}])
def test_a_runner_with_other_problem_files_gets_no_job_and_a_remedy(judge, digests):
    taken = judge.newcomer().submit()
    body = {"runner": "r1", "problem_digests": digests, "isolation": "full"}
    answer = judge.runner.http.post(f"/runner/jobs/{taken['job_id']}/claim", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "problem_differs")
    assert "problem folder" in answer.json()["detail"]
    assert attempt_of(judge, taken["submission_id"])["attempt"] == 0


def test_a_second_outcome_is_refused_and_kept_as_an_event(judge):
    lease = judge.claim(judge.newcomer().submit()["job_id"])
    assert judge.finish(lease).status_code == 200
    late = judge.finish(lease, verdict="wrong answer")
    assert late.status_code == 409
    assert late.json()["code"] == "job_final"
    assert attempt_of(judge, lease["submission_id"])["verdict"] == "accepted"
    history = judge.organizer.http.get("/admin/events", params={"limit": 1000}).json()
    refused = [e for e in history if e["subject"].get("job") == lease["job_id"]]
    assert any("refused" in e["kind"] for e in refused), [e["kind"] for e in refused]


def test_an_outcome_of_an_older_attempt_does_not_count(judge):
    first = judge.claim(judge.newcomer().submit()["job_id"])
    judge.finish(first, verdict="judge error")
    second = judge.claim(first["job_id"])
    assert judge.finish(first, verdict="wrong answer").json()["code"] == "stale_attempt"
    assert judge.finish(second).status_code == 200
    assert attempt_of(judge, first["submission_id"])["verdict"] == "accepted"


def test_the_third_judge_error_ends_the_job_held_for_an_organizer(judge):
    taken = judge.newcomer().submit()
    for _ in range(3):
        judge.finish(judge.claim(taken["job_id"]), verdict="judge error")
    body = attempt_of(judge, taken["submission_id"])
    assert (body["state"], body["verdict"], body["held"]) == ("done", "judge error", True)


def test_a_cancelled_job_stops_its_runner(judge):
    author = judge.newcomer()
    taken = author.submit()
    judge.claim(taken["job_id"])
    beat = {"attempt": 1, "progress": {"stage": "test"}}
    address = f"/runner/jobs/{taken['job_id']}/heartbeat"
    assert judge.runner.http.post(address, json=beat).json() == {"stop": False, "lease_s": 15.0}
    cancelled = author.http.post(f"/submissions/{taken['submission_id']}/cancel")
    assert cancelled.json()["state"] == "cancelled"
    assert judge.runner.http.post(address, json=beat).json()["stop"] is True
    again = author.http.post(f"/submissions/{taken['submission_id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "job_final")


def test_a_lost_runner_costs_a_retry_and_nothing_else(own_judge):
    with own_judge() as judge:
        taken = judge.newcomer().submit()
        judge.claim(taken["job_id"])
        judge.clock.ahead += timedelta(seconds=16)
        until(lambda: attempt_of(judge, taken["submission_id"])["state"] == "queued")
        assert judge.finish(judge.claim(taken["job_id"])).status_code == 200
        body = attempt_of(judge, taken["submission_id"])
        assert (body["attempt"], body["verdict"]) == (2, "accepted")


def test_a_runner_of_one_device_cannot_touch_anothers_jobs(own_judge):
    text = """
title = "Two devices"
problems = ["topk"]
devices = ["cpu", "other"]
opens = 2026-01-01T00:00:00Z
closes = 2036-01-01T00:00:00Z
"""
    with own_judge(text) as judge:
        taken = judge.newcomer().submit()
        lease = judge.claim(taken["job_id"])
        asked = {"role": "runner", "label": "elsewhere", "device": "other"}
        made = judge.organizer.http.post("/tokens", json=asked).json()
        stranger = judge.as_token(made["token"])
        beat = {"attempt": 1, "progress": {"stage": "test"}}
        answer = stranger.http.post(f"/runner/jobs/{taken['job_id']}/heartbeat", json=beat)
        assert (answer.status_code, answer.json()["code"]) == (403, "device_mismatch")
        judge.runner = stranger
        assert judge.finish(lease).status_code == 403


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job_id": 1 << 40}, "the address about job"),
        ({"verdict": "splendid"}, "verdict"),
        ({"log": "x" * 300_000}, '"log"'),
        ({"attempt": "first"}, '"attempt"'),
        ({"measurements": [{"case": "a"}]}, "measurements.0"),
    ],
)
def test_an_outcome_that_does_not_fit_is_named_and_changes_nothing(judge, change, words):
    lease = judge.claim(judge.newcomer().submit()["job_id"])
    answer = judge.finish(lease, **change)
    assert 400 <= answer.status_code < 500
    assert words in answer.json()["detail"]
    assert attempt_of(judge, lease["submission_id"])["state"] == "running"


def test_errors_that_are_no_numbers_can_be_told(judge):
    lease = judge.claim(judge.newcomer().submit()["job_id"])
    result = {
        "case": lease["cases"][0]["name"],
        "stage": "test",
        "secret": False,
        "verdict": "wrong answer",
        "values": {},
        "max_abs_error": float("inf"),
        "max_rel_error": float("nan"),
    }
    outcome = {"job_id": lease["job_id"], "attempt": 1, "verdict": "wrong answer", "message": ""}
    # As Python writes them: `Infinity` and `NaN`, which strict JSON does not know.
    text = json.dumps({**outcome, "results": [result]})
    answer = judge.runner.http.post(
        f"/runner/jobs/{lease['job_id']}/outcome",
        content=text,
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    shown = judge.organizer.http.get(f"/submissions/{lease['submission_id']}")
    assert shown.status_code == 200
    (told,) = shown.json()["outcome"]["results"]
    assert (told["max_abs_error"], told["max_rel_error"]) == ("inf", "nan")


def test_a_large_body_is_not_read_from_somebody_without_a_runners_token(judge):
    author = judge.newcomer()
    answer = author.http.post(
        "/runner/jobs/1/outcome",
        content=b"x" * 1_000_000,
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "role_forbidden")


def test_a_job_whose_problem_version_is_closed_ends_instead_of_waiting_for_good(own_judge):
    with own_judge() as judge:
        taken = judge.newcomer().submit()
        problems = judge.app.parts.opened.problems
        problems["topk"] = replace(problems["topk"], version=2)
        digests = {p.id: p.digest for p in problems.values()}
        body = {"runner": "r1", "problem_digests": digests, "isolation": "full"}
        answer = judge.runner.http.post(f"/runner/jobs/{taken['job_id']}/claim", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "problem_closed")
        ended = attempt_of(judge, taken["submission_id"])
        assert (ended["state"], ended["verdict"], ended["held"]) == ("done", "judge error", True)
        assert "hand in again" in ended["outcome"]["message"]
