"""Promises about the contest: what is shown when, and the boards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.judge.api.conftest import ROOT, contest_text


def at(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def test_public_files_come_byte_by_byte_and_nothing_else_does(judge):
    problem = judge.connect().get("/problems/topk").json()
    assert problem["files"] == ["starter.py", "statement.md"]
    for name in problem["files"]:
        content = (ROOT / "problems" / "topk" / name).read_bytes()
        assert judge.connect().get(f"/problems/topk/files/{name}").content == content
    for name in ("reference.py", "problem.toml", "submissions/baseline_torch.py", ""):
        assert judge.connect().get(f"/problems/topk/files/{name}").status_code == 404


def test_a_problem_shows_its_public_cases_only(judge):
    problem = judge.connect().get("/problems/topk").json()
    assert problem["cases"]
    assert not any(case["secret"] for case in problem["cases"])


def test_problems_stay_hidden_until_the_contest_opens(own_judge):
    with own_judge(contest_text(opens=at(1))) as judge:
        author = judge.newcomer()
        assert judge.connect().get("/problems").json() == []
        for address in ("/problems/topk", "/problems/topk/files/statement.md", "/boards/topk/cpu"):
            answer = author.http.get(address)
            assert (answer.status_code, answer.json()["code"]) == (404, "contest_not_open")
        assert judge.organizer.http.get("/problems/topk").status_code == 200
        assert judge.connect().get("/contest").json()["problems"] == ["topk"]
        judge.clock.ahead = timedelta(hours=2)
        assert [p["id"] for p in judge.connect().get("/problems").json()] == ["topk"]


def test_a_verdict_is_on_the_board_at_once(judge):
    author = judge.newcomer("Quick")
    assert all(e["team"] != "Quick" for e in board(judge)["entries"])
    submission = judge.judged(author)
    (entry,) = [e for e in board(judge)["entries"] if e["team"] == "Quick"]
    assert entry["submission_id"] == submission
    assert entry["score_ns"] == pytest.approx(9_000)
    assert set(entry["times_ns"]) == set(board(judge)["cases"])
    page = judge.connect().get(f"{judge.url}/boards/topk/cpu.json").json()
    assert page["entries"] == board(judge)["entries"]
    assert judge.connect().get("/boards").json()[0]["entries"] == len(page["entries"])


def test_a_board_says_that_it_is_practice(judge):
    assert "Practice, not ranked" in board(judge)["heading"]
    assert "end to end" not in board(judge)["heading"].lower()


def board(judge, person=None):
    http = person.http if person else judge.connect()
    return http.get("/boards/topk/cpu").json()


def test_a_frozen_board_stands_still_for_all_but_organizers(own_judge):
    text = contest_text(freezes=f"freezes = {at(1)}", closes=at(2))
    with own_judge(text) as judge:
        judge.judged(judge.newcomer("Early"))
        judge.clock.ahead = timedelta(hours=1, minutes=1)
        judge.judged(judge.newcomer("Late"))
        shown = board(judge)
        assert shown["frozen"] is True
        assert [e["team"] for e in shown["entries"]] == ["Early"]
        assert [e["team"] for e in board(judge, judge.organizer)["entries"]] == ["Early", "Late"]
        judge.clock.ahead = timedelta(hours=2, minutes=1)
        assert board(judge)["frozen"] is False
        assert len(board(judge)["entries"]) == 2


def test_sources_open_after_the_contest_only_where_it_says_so(own_judge):
    for word, status in (("true", 200), ("false", 404)):
        with own_judge(contest_text(show_sources=word)) as judge:
            author, other = judge.newcomer(), judge.newcomer()
            address = f"/submissions/{author.submit()['submission_id']}/files/topk.py"
            assert other.http.get(address).status_code == 404
            judge.clock.ahead = timedelta(days=365 * 10)
            assert other.http.get(address).status_code == status


def test_history_is_newest_first_in_pages(judge):
    author = judge.newcomer()
    ids = [author.submit()["submission_id"] for _ in range(5)]
    first = author.http.get("/submissions", params={"limit": 2}).json()
    assert [s["id"] for s in first["submissions"]] == ids[:-3:-1]
    rest = author.http.get(
        "/submissions", params={"limit": 10, "before": first["next_before"]}
    ).json()
    assert [s["id"] for s in rest["submissions"]] == ids[2::-1]
    assert rest["next_before"] is None


def test_only_organizers_list_everybody(judge):
    author = judge.newcomer()
    author.submit()
    refused = author.http.get("/submissions", params={"all": "true"})
    assert refused.status_code == 403
    listed = judge.organizer.http.get("/submissions", params={"all": "true"}).json()
    assert author.http.get("/whoami").json()["team"] in {s["team"] for s in listed["submissions"]}


def test_a_place_in_the_queue_and_a_rough_time_are_told(judge):
    judge.judged(judge.newcomer())
    first, second = judge.newcomer(), judge.newcomer()
    taken = [first.submit(mode="benchmark"), second.submit(mode="benchmark")]
    shown = [
        person.http.get(f"/submissions/{receipt['submission_id']}").json()
        for person, receipt in zip((first, second), taken, strict=True)
    ]
    assert shown[1]["place"] == shown[0]["place"] + 1
    assert shown[1]["eta_s"] > 0


def test_a_backup_is_a_whole_database_and_events_tell_the_story(judge):
    judge.judged(judge.newcomer())
    made = judge.organizer.http.post("/admin/backup")
    assert made.status_code == 201
    path = judge.settings.state_dir / "backups"
    (copy,) = path.iterdir()
    assert copy.stat().st_size == made.json()["size_bytes"]
    assert copy.read_bytes().startswith(b"SQLite format 3")
    events = judge.organizer.http.get("/admin/events", params={"limit": 3}).json()
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    after = judge.organizer.http.get("/admin/events", params={"after": events[-1]["seq"]}).json()
    assert after[0]["seq"] == events[-1]["seq"] + 1


def test_a_log_is_plain_text_for_its_author(judge):
    author = judge.newcomer()
    submission = judge.judged(author, log="nvcc: warning <script>\u20ac")
    answer = author.http.get(f"/submissions/{submission}/log")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "nvcc: warning <script>\u20ac"
