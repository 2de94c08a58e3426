"""Promises about runners: a token is one runner's, an attempt is its claimer's, quarantine holds."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.judge.api.conftest import Judge, until


def digests(judge: Judge) -> dict[str, str]:
    return {p.id: p.digest for p in judge.app.parts.opened.problems.values()}


def claim(judge, who, job_id, name, isolation="full"):
    body = {"runner": name, "problem_digests": digests(judge), "isolation": isolation}
    return who.http.post(f"/runner/jobs/{job_id}/claim", json=body)


def runner(judge, name):
    return next(r for r in judge.connect().get("/runners").json() if r["name"] == name)


def codes(answer):
    return answer.status_code, answer.json()["code"]


def failing(judge, submissions, name, who):
    """The runner hands in a judge error for as many submissions."""
    kept, judge.runner = judge.runner, who
    for _ in range(submissions):
        taken = judge.newcomer().submit()
        judge.finish(judge.claim(taken["job_id"], name), verdict="judge error")
        judge.organizer.http.post(f"/submissions/{taken['submission_id']}/cancel")
    judge.runner = kept


def test_everybody_sees_what_a_runner_said_and_no_token(judge):
    doctor = {"at": "2026-11-30T12:00:00Z", "figures": {"round_trip_us": 0.4}}
    said = {
        "reasons": ["no freezer"],
        "environment": {"cpu": "Some CPU"},
        "problem_digests": digests(judge),
        "doctor": doctor,
    }
    made = judge.new_runner("told", isolation="reduced", **said)
    answer = judge.connect().get("/runners")
    assert made.token not in answer.text
    shown = runner(judge, "told")
    assert {key: shown[key] for key in said} == said
    assert (shown["device"], shown["state"], shown["alive"]) == ("cpu", "active", True)
    assert (shown["isolation"], shown["self_test_passed"]) == ("reduced", True)


def test_a_problem_that_is_not_open_is_named_to_nobody(judge):
    known = digests(judge)
    test = {"passed": True, "detail": "base.py of next-month: accepted"}
    held = {**known, "next-month": "ab" * 32}
    judge.new_runner("ahead", problem_digests=held, self_test=test)
    assert runner(judge, "ahead")["problem_digests"] == known
    assert "next-month" not in judge.connect().get("/runners").text
    assert "next-month" not in judge.connect().get(f"{judge.url}/runners").text


def test_without_a_hello_there_is_no_job(judge):
    taken = judge.newcomer().submit()
    asked = {"role": "runner", "label": "mute", "device": "cpu"}
    mute = judge.as_token(judge.organizer.http.post("/tokens", json=asked).json()["token"])
    assert codes(claim(judge, mute, taken["job_id"], "mute")) == (409, "runner_unknown")
    assert codes(mute.http.post("/runner/beat", json={"runner": "mute"})) == (409, "runner_unknown")


def test_a_second_process_with_a_runners_token_is_refused_with_the_remedy(judge):
    first = judge.new_runner("first")
    hello = {"runner": "second", "isolation": "full", "self_test": {"passed": True}}
    answer = first.http.post("/runner/hello", json=hello)
    assert codes(answer) == (403, "runner_bound")
    assert "judge admin runner-token cpu" in answer.json()["detail"]
    taken = judge.newcomer().submit()
    assert codes(claim(judge, first, taken["job_id"], "second")) == (403, "runner_bound")
    assert codes(first.http.post("/runner/beat", json={"runner": "second"}))[0] == 403
    judge.hello("first", first)


@pytest.mark.parametrize(
    "change", [{"isolation": "some"}, {"doctor": {"a": "x" * 40_000}}, {"x": 1}]
)
def test_a_hello_that_does_not_fit_is_refused(judge, change):
    said = {"runner": "r1", "isolation": "full", "self_test": {"passed": True}, **change}
    assert judge.runner.http.post("/runner/hello", json=said).status_code == 422


def test_an_attempt_belongs_to_the_token_that_claimed_it(judge):
    lease = judge.claim(judge.newcomer().submit()["job_id"])
    other = judge.new_runner("other")
    beat = {"attempt": 1, "progress": {"stage": "test"}, "loaded": True}
    address = f"/runner/jobs/{lease['job_id']}"
    assert codes(other.http.post(f"{address}/heartbeat", json=beat)) == (403, "not_your_attempt")
    own, judge.runner = judge.runner, other
    try:
        assert codes(judge.finish(lease, verdict="wrong answer")) == (403, "not_your_attempt")
    finally:
        judge.runner = own
    assert judge.finish(lease).status_code == 200


def test_a_runner_whose_self_test_failed_gets_no_job(judge):
    failed = judge.new_runner("failed", self_test={"passed": False, "detail": "wrong answer"})
    taken = judge.newcomer().submit()
    answer = claim(judge, failed, taken["job_id"], "failed")
    assert codes(answer) == (409, "self_test_failed")
    assert "wrong answer" in answer.json()["detail"]
    ring = failed.http.get("/runner/ring", params={"runner": "failed", "wait": 0})
    assert codes(ring) == (409, "self_test_failed")


def test_a_runner_in_quarantine_gets_no_job_until_an_organizer_reinstates_it(judge):
    shaky = judge.new_runner("shaky")
    judge.hello()
    failing(judge, 3, "shaky", shaky)
    taken = judge.newcomer().submit()
    refused = claim(judge, shaky, taken["job_id"], "shaky")
    assert codes(refused) == (409, "runner_quarantined")
    assert "judge admin reinstate shaky" in refused.json()["detail"]
    standing = shaky.http.post("/runner/beat", json={"runner": "shaky"}).json()
    assert standing["state"] == "quarantined"
    assert 50 < standing["retest_s"] <= 60
    assert (
        judge.newcomer().http.post("/admin/reinstate", json={"runner": "shaky"}).status_code == 403
    )
    back = judge.organizer.http.post("/admin/reinstate", json={"runner": "shaky"})
    assert (back.status_code, back.json()["state"]) == (200, "active")
    assert claim(judge, shaky, taken["job_id"], "shaky").status_code == 200
    events = judge.organizer.http.get("/admin/events", params={"limit": 1000}).json()
    told = [e["kind"] for e in events if e["body"].get("name") == "shaky"]
    assert told == ["runner.enrolled", "runner.quarantined", "runner.reinstated"]


def test_a_self_test_after_a_rest_ends_a_quarantine_and_an_early_one_does_not(own_judge):
    with own_judge() as judge:
        judge.new_runner("other")
        failing(judge, 3, "r1", judge.runner)
        assert judge.hello()["state"] == "quarantined"
        judge.clock.ahead += timedelta(seconds=61)
        early = {"passed": True, "age_s": 30}
        assert judge.hello(self_test=early)["state"] == "quarantined"
        assert judge.hello()["state"] == "active"
        failing(judge, 3, "r1", judge.runner)
        assert judge.hello()["retest_s"] > 3_000


def test_the_last_runner_keeps_its_jobs_and_everybody_sees_why_organizers_should_look(own_judge):
    with own_judge() as judge:
        failing(judge, 3, "r1", judge.runner)
        assert judge.hello()["state"] == "active"
        assert "no other runner" in runner(judge, "r1")["why"]
        assert "Organizers, look at this runner: 3 jobs failed" in (
            judge.connect().get(f"{judge.url}/runners").text
        )
        judge.claim(judge.newcomer().submit()["job_id"])


def test_an_organizers_quarantine_is_for_an_organizer_to_end(own_judge):
    with own_judge() as judge:
        held = {"runner": "r1", "why": "its fan is broken"}
        assert judge.organizer.http.post("/admin/quarantine", json=held).status_code == 200
        judge.clock.ahead += timedelta(hours=2)
        assert judge.hello() == {
            "state": "quarantined",
            "why": "its fan is broken",
            "beat_s": 15.0,
            "retest_s": None,
        }
        nobody = judge.organizer.http.post("/admin/quarantine", json={**held, "runner": "x"})
        assert codes(nobody) == (404, "runner_unknown")


def test_a_silent_runner_is_shown_as_such_and_when_it_was_last_heard_outlasts_a_restart(own_judge):
    with own_judge() as judge:
        quiet = judge.new_runner("quiet")
        judge.clock.ahead += timedelta(seconds=90)
        assert not runner(judge, "quiet")["alive"]
        quiet.http.post("/runner/beat", json={"runner": "quiet"})
        heard = runner(judge, "quiet")
        assert heard["alive"]
        clock = judge.clock
    with own_judge(clock=clock) as judge:
        assert runner(judge, "quiet")["last_seen"] == heard["last_seen"]


def test_a_ring_is_heard_over_http_at_once_or_not_at_all(own_judge):
    with own_judge() as judge:
        asked = {"runner": "r1", "wait": 0}
        assert judge.runner.http.get("/runner/ring", params=asked).json() == {"jobs": []}
        heard: list[list[int]] = []
        waiting = threading.Thread(
            target=lambda: heard.append(
                judge.runner.http.get("/runner/ring", params={"runner": "r1", "wait": 15}).json()[
                    "jobs"
                ]
            )
        )
        waiting.start()
        until(lambda: judge.app.parts.changes.waiters == 1)
        job_id = judge.newcomer().submit()["job_id"]
        waiting.join(10)
        assert heard == [[job_id]]
        judge.claim(job_id)
        until(lambda: judge.app.parts.bell.ready("cpu", True) == [])


def test_a_job_whose_problem_a_runner_has_not_rings_to_it_after_all_others(own_judge):
    with own_judge() as judge:
        first, second = (judge.newcomer().submit()["job_id"] for _ in range(2))
        until(lambda: judge.app.parts.bell.ready("cpu", True) == [first, second])
        stale = {"runner": "r1", "problem_digests": {}, "isolation": "full"}
        answer = judge.runner.http.post(f"/runner/jobs/{first}/claim", json=stale)
        assert codes(answer) == (409, "problem_differs")
        ring = judge.runner.http.get("/runner/ring", params={"runner": "r1", "wait": 0})
        assert ring.json() == {"jobs": [second, first]}


def test_a_waiting_runner_does_not_hold_up_the_end_of_the_server(own_judge):
    with own_judge() as judge:
        answers: list[int] = []

        def wait() -> None:
            asked = {"runner": "r1", "wait": 20}
            answers.append(judge.runner.http.get("/runner/ring", params=asked).status_code)

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: judge.app.parts.changes.waiters == 1)
        judge.server.should_exit = True
        waiting.join(5)
        assert answers == [200]


def test_rings_go_to_runners_of_the_device_alone(own_judge):
    text = """
title = "Two devices"
problems = ["topk"]
devices = ["cpu", "other"]
opens = 2026-01-01T00:00:00Z
closes = 2036-01-01T00:00:00Z
"""
    with own_judge(text) as judge:
        other = judge.new_runner("elsewhere", device="other")
        job_id = judge.newcomer().submit()["job_id"]
        until(lambda: judge.app.parts.bell.ready("cpu", False) == [job_id])
        ring = other.http.get("/runner/ring", params={"runner": "elsewhere", "wait": 0})
        assert ring.json() == {"jobs": []}


def ranked(judge):
    return judge.newcomer().http.post(
        "/submissions",
        data={"problem": "topk", "device": "cpu", "mode": "ranked"},
        files={"files": ("topk.py", b"def custom_kernel(data):\n    return data[-1]\n")},
    )


def test_a_ranked_job_is_refused_where_every_living_runner_has_reduced_isolation(own_judge):
    with own_judge() as judge:
        judge.hello(isolation="reduced")
        answer = ranked(judge)
        assert codes(answer) == (503, "ranked_unavailable")
        assert "judge doctor" in answer.json()["detail"]
        judge.clock.ahead += timedelta(minutes=5)
        assert ranked(judge).status_code == 202  # nobody lives: one may be about to start


def test_a_ranked_job_goes_to_a_runner_with_full_isolation_alone(own_judge):
    with own_judge() as judge:
        reduced = judge.new_runner("reduced", isolation="reduced")
        answer = ranked(judge)
        assert answer.status_code == 202
        job_id = answer.json()["job_id"]
        until(lambda: judge.app.parts.bell.ready("cpu", True) == [job_id])
        asked = {"runner": "reduced", "wait": 0}
        assert reduced.http.get("/runner/ring", params=asked).json() == {"jobs": []}
        boast = claim(judge, reduced, job_id, "reduced", isolation="full")
        assert codes(boast) == (409, "isolation_reduced")
        assert claim(judge, judge.runner, job_id, "r1").status_code == 200


def test_the_page_of_runners_shows_them_escaped(judge):
    judge.new_runner(
        "<b>odd</b>",
        isolation="reduced",
        reasons=["<script>alert(1)</script>"],
        environment={"cpu": "A & B"},
        doctor={"at": "noon", "figures": {"resolves_20s_pct": 0.25, "<i>": [1]}},
    )
    judge.organizer.http.post(
        "/admin/quarantine", json={"runner": "<b>odd</b>", "why": "<u>why</u>"}
    )
    page = judge.connect().get(f"{judge.url}/runners")
    assert page.status_code == 200
    for shown in ("&lt;b&gt;odd", "A &amp; B", "resolves_20s_pct", "0.25", "&lt;u&gt;why", "noon"):
        assert shown in page.text
    for raw in ("<script>", "<b>odd", "<i>", "<u>"):
        assert raw not in page.text
