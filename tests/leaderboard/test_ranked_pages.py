"""Promises of the ranked pages, through the real server."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from judge.model import Verdict
from judge.wire import OutcomeBody
from tests.judge.api.conftest import Judge, Person, contest_text, running
from tests.ranked_runs import Made, outcome

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    contest = contest_text().replace("count = 1, per_s", "count = 99, per_s")
    with running(tmp_path_factory.mktemp("judge"), contest) as judge:
        yield judge


def page(judge: Judge, address: str, person: Person | None = None) -> str:
    client = judge.connect()
    client.base_url = httpx.URL(judge.url)
    if person is not None:
        client.cookies.set("judge_token", person.token)
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    return answer.text


def send(judge: Judge, job_id: int, made: Made, **changes: Any) -> dict[str, Any]:
    """Judge one run of a ranked job as a runner would; the lease it had."""
    lease = judge.claim(job_id)
    cases = tuple(case["name"] for case in lease["cases"] if case["stage"] == "timing")
    said = outcome(job_id, replace(made, cases=cases, seed=job_id), lease["attempt"])
    body = OutcomeBody.of(replace(said, **changes)).model_dump(mode="json")
    answer = judge.runner.http.post(f"/runner/jobs/{job_id}/outcome", json=body)
    assert answer.status_code == 200, answer.text
    return lease


def ranked(judge: Judge, person: Person, made: Made, **changes: Any) -> int:
    """A ranked submission, run until it is done; its id."""
    receipt = person.submit(content=f"# {made}".encode(), mode="ranked")
    address = f"/submissions/{receipt['submission_id']}"
    while person.http.get(address).json()["state"] != "done":
        send(judge, receipt["job_id"], made, **changes)
    return int(receipt["submission_id"])


@pytest.fixture(scope="module")
def teams(judge: Judge) -> dict[str, tuple[Person, int]]:
    """Two teams that tie, one behind, one unstable, one held."""
    runs = {
        EVIL: Made(2.5),
        "Bob": Made(2.5),
        "Cleo": Made(2.0),
        "Una": Made(1.0, spread=0.08),
        "Held": Made(9.0, slowed=0.05),
    }
    people = {name: judge.newcomer(name) for name in runs}
    return {name: (people[name], ranked(judge, people[name], made)) for name, made in runs.items()}


def test_the_ranked_board_stands_before_practice_with_every_claim_whole(judge, teams):
    text = html.unescape(page(judge, "/boards/topk/cpu"))
    assert text.index("<h2>Ranked</h2>") < text.index("Practice, not ranked")
    for word in ("plain torch", "topk v1", "secret cases", "99 %", "cpu"):
        assert word in text
    assert "2 teams share the lead, ahead of Cleo." in text
    assert "Rank 1: 2 kernels: the best, and those that cannot be told from it" in text
    rows = re.findall(r"<tr[^>]*>\s*<td class=\"num strong\">(.*?)</td>", text)
    assert rows == ["1", "1", "3", "\u2013", "\u2013"]
    assert "unstable" in text
    assert "held for review" in text
    assert len(re.findall(r"2\.[45]\d\dx<br><small>2\.4\d\d \u2013 2\.5\d\d</small>", text)) == 2


def test_intervals_are_drawn_where_they_are_on_one_axis(judge, teams):
    text = page(judge, "/boards/topk/cpu")
    whiskers = re.findall(r'<line class="interval" x1="([\d.]+)" x2="([\d.]+)" y1="10"', text)
    places = [(float(a), float(b)) for a, b in whiskers]
    assert len(places) == 4, "all but the held one"
    assert all(0 <= a <= b <= 240 for a, b in places)
    assert places[2][1] < places[0][0], "the third team lies left of the tie"
    assert places[3][1] - places[3][0] > places[0][1] - places[0][0], "the unstable one is wider"


def test_without_a_ranked_entry_a_board_is_practice_alone(tmp_path):
    with running(tmp_path, contest_text()) as empty:
        text = page(empty, "/boards/topk/cpu")
        assert "<h2>Ranked</h2>" not in text
        assert "Practice, not ranked" in text


def test_the_ranked_board_is_the_same_as_json_by_page_and_api(judge, teams):
    by_page = judge.connect().get(f"{judge.url}/boards/topk/cpu.ranked.json").json()
    by_api = judge.connect().get("/boards/topk/cpu", params={"mode": "ranked"}).json()
    assert by_page.pop("as_of") <= by_api.pop("as_of")
    assert by_page == by_api
    assert [entry["rank"] for entry in by_api["entries"]] == [1, 1, 3, None, None]
    gone = judge.connect().get(f"{judge.url}/boards/topk/abacus.ranked.json")
    assert (gone.status_code, gone.json()["code"]) == (404, "board_unknown")


def test_a_ranked_submission_shows_claim_blocks_and_runs_and_no_raw_time_to_its_author(
    judge, teams
):
    author, number = teams["Cleo"]
    text = html.unescape(page(judge, f"/submissions/{number}", author))
    assert "as fast as plain torch (99 % interval" in text
    assert "Run 1 of 2" in text
    assert "confirmed by the run below, which alone counts" in text
    assert "this one counts" in text
    for block in ("its copy, before", "against this submission", "its copy, after"):
        assert text.count(block) == 2
    assert text.count('<circle class="dot"') == 2 * (4 + 12 + 4)
    assert "Raw samples" not in text
    for_organizer = page(judge, f"/submissions/{number}", judge.organizer)
    assert "Raw samples of the baseline" in for_organizer
    assert "secret-timing-1" in for_organizer
    assert "secret-timing-1" not in text


def test_a_held_submission_says_why_once_and_that_it_does_not_count(judge, teams):
    author, number = teams["Held"]
    text = html.unescape(page(judge, f"/submissions/{number}", author))
    assert text.count("so the ratio of the two is not to be trusted") == 1
    assert "it does not count for now" in text


def test_while_a_run_is_confirmed_its_page_says_so_and_nothing_else(judge):
    person = judge.newcomer()
    receipt = person.submit(content=b"# confirm", mode="ranked")
    send(judge, receipt["job_id"], Made(1.5), message="1.5 times", log="1.5 times")
    text = page(judge, f"/submissions/{receipt['submission_id']}", person)
    assert "a confirmation run is queued" in text
    assert 'http-equiv="refresh"' in text
    assert "1.5" not in text
    assert "<svg" not in text
    judge.claim(receipt["job_id"])
    again = page(judge, f"/submissions/{receipt['submission_id']}", person)
    assert "a confirmation run is running" in again


def test_a_void_run_says_why_it_says_nothing(judge):
    person = judge.newcomer()
    receipt = person.submit(content=b"# void", mode="ranked")
    lease = judge.claim(receipt["job_id"])
    cases = tuple(case["name"] for case in lease["cases"] if case["stage"] == "timing")
    said = outcome(receipt["job_id"], Made(cases=cases, void_series=2, pairs=0), lease["attempt"])
    assert said.comparison is not None
    void = tuple(pair for pair in said.comparison.pairs if pair.series < 2)
    void = tuple(pair for pair in void if pair.block == "before")
    told = replace(
        said,
        verdict=Verdict.UNSTABLE_TIMING,
        comparison=replace(said.comparison, pairs=void),
    )
    body = OutcomeBody.of(told).model_dump(mode="json")
    judge.runner.http.post(f"/runner/jobs/{receipt['job_id']}/outcome", json=body)
    text = html.unescape(page(judge, f"/submissions/{receipt['submission_id']}", person))
    assert "<strong>Void.</strong> The baseline differs from its own copy" in text
    assert "void, so it was run again" in text
    assert "box pairs, cpu" not in text


def test_the_history_shows_speedups_and_the_front_page_counts_ranked_teams(judge, teams):
    author, _ = teams["Bob"]
    assert re.search(r"2\.\d+x", page(judge, "/submissions", author))
    assert re.search(r'<td class="num">3</td><td class="num">0</td>', page(judge, "/"))


def test_no_ranked_page_says_end_to_end_or_runs_a_script_or_styles_a_tag(judge, teams):
    pages = [("/boards/topk/cpu", None), ("/", None)]
    pages += [(f"/submissions/{number}", person) for person, number in teams.values()]
    pages += [(f"/submissions/{number}", judge.organizer) for _, number in teams.values()]
    for address, person in pages:
        text = page(judge, address, person)
        assert "end to end" not in text.lower()
        assert "end-to-end" not in text.lower()
        assert "<script" not in text
        assert " style=" not in text
