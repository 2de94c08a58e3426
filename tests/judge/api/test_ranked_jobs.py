"""Promises of the API about ranked jobs: who is asked what follows, and what organizers may do."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from judge.model import Baseline, Ruling
from judge.wire import ComparisonBody
from tests.judge.api.conftest import KERNEL, contest_text
from tests.ranked_runs import Made, comparison

BASELINE = Baseline("plain torch", "submissions/baseline.py", "b" * 64)
COMPARISON = {"baseline": "plain torch", "pairs": [], "floors_ns": {}}


def seen(judge, submission: int) -> dict:
    return judge.organizer.http.get(f"/submissions/{submission}").json()


def kinds(judge, submission: int) -> list[str]:
    history = judge.organizer.http.get("/admin/events", params={"limit": 1000}).json()
    return [e["kind"] for e in history if e["subject"].get("submission") == submission]


@pytest.fixture
def ranking(own_judge):
    """A judge whose problem has a baseline, and whose rulings are the test's; told: who asked."""

    @contextmanager
    def start(*rulings: Ruling):
        with own_judge(contest_text(quotas="")) as judge:
            problems = judge.app.parts.opened.problems
            problems["topk"] = replace(problems["topk"], baseline=BASELINE)
            left, told = list(rulings), []

            def rule(record, outcome):
                told.append((record, outcome))
                return left.pop(0)

            object.__setattr__(judge.app.parts, "rulings", rule)
            yield judge, told

    return start


def test_a_problem_without_a_baseline_takes_no_ranked_submission(own_judge):
    with own_judge() as judge:
        problems = judge.app.parts.opened.problems
        problems["topk"] = replace(problems["topk"], baseline=None)
        answer = judge.newcomer().http.post(
            "/submissions",
            data={"problem": "topk", "device": "cpu", "mode": "ranked"},
            files={"files": ("topk.py", KERNEL)},
        )
        assert (answer.status_code, answer.json()["code"]) == (409, "ranked_not_offered")
        assert "--mode benchmark" in answer.json()["detail"]


def test_a_run_to_be_confirmed_is_queued_once_more_and_shows_nothing_till_then(ranking):
    with ranking(Ruling(confirm=True), Ruling(confirm=True)) as (judge, told):
        author = judge.newcomer()
        taken = author.submit(mode="ranked")
        first = judge.claim(taken["job_id"])
        answer = judge.finish(first, comparison=COMPARISON)
        assert (answer.status_code, answer.json()["detail"]) == (200, "The job is queued again.")
        for asker in (author.http, judge.organizer.http):
            body = asker.get(f"/submissions/{taken['submission_id']}").json()
            assert (body["state"], body["verdict"], body["outcome"]) == ("queued", None, None)
            assert body["geomean_ns"] is None
            assert asker.get(f"/submissions/{taken['submission_id']}/log").text == ""
        second = judge.claim(taken["job_id"])
        assert second["attempt"] == 2
        judge.finish(second, verdict="wrong answer", comparison=COMPARISON)
        body = seen(judge, taken["submission_id"])
        assert (body["state"], body["verdict"]) == ("done", "wrong answer")
        assert [(r.confirms, o.attempt) for r, o in told] == [(None, 1), (1, 2)]
        assert told[0][1].comparison is not None
        assert kinds(judge, taken["submission_id"]).count("job.confirming") == 1


@pytest.mark.parametrize("running", [False, True])
def test_only_an_organizer_cancels_a_job_that_is_being_confirmed(ranking, running):
    with ranking(Ruling(confirm=True)) as (judge, _):
        author = judge.newcomer()
        taken = author.submit(mode="ranked")
        judge.finish(judge.claim(taken["job_id"]), comparison=COMPARISON)
        if running:
            judge.claim(taken["job_id"])
        address = f"/submissions/{taken['submission_id']}/cancel"
        refused = author.http.post(address)
        assert (refused.status_code, refused.json()["code"]) == (409, "confirming")
        assert seen(judge, taken["submission_id"])["state"] == ("running" if running else "queued")
        assert judge.organizer.http.post(address).json()["state"] == "cancelled"


def test_a_ruling_to_hold_ends_the_job_held(ranking):
    with ranking(Ruling(confirm=True, hold="The baseline slowed down.")) as (judge, _):
        taken = judge.newcomer().submit(mode="ranked")
        judge.finish(judge.claim(taken["job_id"]), comparison=COMPARISON)
        body = seen(judge, taken["submission_id"])
        assert (body["state"], body["held"]) == ("done", True)
        record = judge.app.parts.store.record(taken["submission_id"])
        assert record.hold == "The baseline slowed down."


def timed(lease: dict, **made: float) -> dict:
    """The comparison of a run on the lease's timing cases, as a runner sends it."""
    names = tuple(case["name"] for case in lease["cases"] if case["stage"] == "timing")
    return ComparisonBody.of(comparison(Made(cases=names, **made))).model_dump(mode="json")


def test_the_first_ranked_run_of_a_team_is_confirmed_and_then_on_the_board(own_judge):
    with own_judge(contest_text(quotas="")) as judge:
        taken = judge.newcomer().submit(mode="ranked")
        first = judge.claim(taken["job_id"])
        judge.finish(first, comparison=timed(first, speedup=2.0, seed=1))
        assert seen(judge, taken["submission_id"])["state"] == "queued"
        assert judge.connect().get("/boards/topk/cpu?mode=ranked").json()["entries"] == []
        second = judge.claim(taken["job_id"])
        judge.finish(second, comparison=timed(second, speedup=2.0, seed=2))
        assert seen(judge, taken["submission_id"])["state"] == "done"
        (entry,) = judge.connect().get("/boards/topk/cpu?mode=ranked").json()["entries"]
        assert (entry["rank"], entry["submission_ids"]) == (1, [taken["submission_id"]])


def test_a_run_beside_which_the_baseline_slowed_down_is_held_and_confirmed_once_it_is_released(
    own_judge,
):
    with own_judge(contest_text(quotas="")) as judge:
        taken = judge.newcomer().submit(mode="ranked")
        lease = judge.claim(taken["job_id"])
        judge.finish(lease, comparison=timed(lease, slowed=0.05))
        body = seen(judge, taken["submission_id"])
        assert (body["state"], body["held"]) == ("done", True)
        assert body["hold"]

        def ranks() -> list[int | None]:
            board = judge.connect().get("/boards/topk/cpu?mode=ranked").json()
            return [entry["rank"] for entry in board["entries"]]

        assert ranks() == [None]
        address = f"/admin/submissions/{taken['submission_id']}/release"
        released = judge.organizer.http.post(address).json()
        assert (released["state"], released["confirming"]) == ("queued", True)
        assert ranks() == []
        lease = judge.claim(taken["job_id"])
        judge.finish(lease, comparison=timed(lease))
        assert ranks() == [1]


def test_a_run_that_is_held_for_another_one_is_not_released_before_that(own_judge):
    generous = contest_text(quotas="").replace("count = 1,", "count = 9,")
    with own_judge(generous) as judge:
        author = judge.newcomer()
        submissions = []
        for slowed in (0.05, 0.0):
            taken = author.submit(mode="ranked")
            lease = judge.claim(taken["job_id"])
            judge.finish(lease, comparison=timed(lease, slowed=slowed))
            submissions.append(taken["submission_id"])
        first, second = submissions
        assert f"submission {first}," in seen(judge, second)["hold"]
        refused = judge.organizer.http.post(f"/admin/submissions/{second}/release")
        assert (refused.status_code, refused.json()["code"]) == (409, "kernel_held")
        judge.organizer.http.post(f"/admin/submissions/{first}/release")
        assert not seen(judge, second)["held"]


def test_a_comparison_without_pairs_breaks_nothing(own_judge):
    with own_judge(contest_text(quotas="")) as judge:
        taken = judge.newcomer().submit(mode="ranked")
        lease = judge.claim(taken["job_id"])
        assert judge.finish(lease, comparison=COMPARISON).status_code == 200


def test_nobody_rules_over_jobs_that_are_not_ranked(ranking):
    with ranking() as (judge, told):
        submission = judge.judged(judge.newcomer(), mode="benchmark")
        assert seen(judge, submission)["state"] == "done"
        assert told == []


def test_an_organizer_holds_and_releases_what_was_judged(judge):
    submission = judge.judged(judge.newcomer())
    address = f"/admin/submissions/{submission}"
    before = seen(judge, submission)["version"]
    held = judge.organizer.http.post(f"{address}/hold", json={"reason": " odd times "})
    assert (held.status_code, held.json()["held"]) == (200, True)
    assert held.json()["version"] > before
    assert judge.app.parts.store.record(submission).hold == "odd times"
    assert judge.organizer.http.post(f"{address}/release").json()["held"] is False
    history = judge.organizer.http.get("/admin/events", params={"limit": 1000}).json()
    told = [e for e in history if e["subject"].get("submission") == submission][-2:]
    assert [(e["kind"], e["body"]) for e in told] == [
        ("entry.held", {"reason": "odd times"}),
        ("entry.released", {"reason": "odd times"}),
    ]
    token = judge.organizer.http.get("/tokens").json()[0]["token_id"]
    assert [e["subject"]["token"] for e in told] == [token, token]


def test_a_held_entry_leaves_the_board_and_comes_back(judge):
    submission = judge.judged(judge.newcomer())

    def ranked() -> list[int]:
        board = judge.connect().get("/boards/topk/cpu").json()
        return [e["submission_id"] for e in board["entries"] if e["rank"] is not None]

    assert submission in ranked()
    judge.organizer.http.post(f"/admin/submissions/{submission}/hold", json={"reason": "odd"})
    assert submission not in ranked()
    judge.organizer.http.post(f"/admin/submissions/{submission}/release")
    assert submission in ranked()


def test_only_what_was_judged_is_held_and_only_with_a_reason(judge):
    taken = judge.newcomer().submit()
    address = f"/admin/submissions/{taken['submission_id']}"
    hold = {"reason": "odd"}
    early = judge.organizer.http.post(f"{address}/hold", json=hold)
    assert (early.status_code, early.json()["code"]) == (409, "job_unfinished")
    for reason in ("", "   "):
        answer = judge.organizer.http.post(f"{address}/hold", json={"reason": reason})
        assert answer.status_code == 422
        assert "reason" in answer.json()["detail"]
    missing = judge.organizer.http.post("/admin/submissions/999999/hold", json=hold)
    assert (missing.status_code, missing.json()["code"]) == (404, "submission_unknown")
