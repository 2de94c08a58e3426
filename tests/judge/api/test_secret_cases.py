"""What a contestant may learn of secret cases before the contest ends: the verdict word alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

WORD = "hush-hush-1729"


def judged_with_a_secret(judge, author) -> int:
    """A submission whose secret cases carry a tell-tale word in every text and time they have."""
    taken = author.submit(mode="benchmark")
    lease = judge.claim(taken["job_id"])
    results, shown = [], []
    for case in lease["cases"]:
        secret = case["secret"]
        shown += [case["name"]] if secret else []
        results.append(
            {
                "case": case["name"],
                "stage": case["stage"],
                "secret": secret,
                "verdict": "wrong answer" if secret else "accepted",
                "values": case["values"],
                "message": WORD if secret else "",
                "max_abs_error": 17.29 if secret else 0.0,
                "differences": [{"output": WORD, "index": [1], "got": WORD, "expected": WORD}]
                if secret
                else [],
            }
        )
    measurements = [
        {
            "case": case["name"],
            "secret": case["secret"],
            "chain": 1,
            "samples_ns": [1729_0001] * 5,
            "null_samples_ns": [1_000] * 5,
        }
        for case in lease["cases"]
        if case["secret"]
    ]
    answer = judge.finish(
        lease, verdict="wrong answer", results=results, measurements=measurements, message=WORD
    )
    assert answer.status_code == 200, answer.text
    judge.secret_names = shown
    return taken["submission_id"]


DOORS = (
    "/submissions/{id}",
    "/submissions/{id}/wait",
    "/submissions/{id}/events",
    "/submissions/{id}/log",
    "/submissions",
    "/boards/topk/cpu",
    "/boards",
    "/problems",
    "/problems/topk",
)
PAGES = ("/submissions/{id}", "/submissions", "/boards/topk/cpu", "/boards/topk/cpu.json", "/")


@pytest.fixture(scope="module")
def author(judge):
    return judge.newcomer("Secret keeper")


@pytest.fixture(scope="module")
def submission(judge, author):
    return judged_with_a_secret(judge, author)


def tells(judge, text: str) -> bool:
    return any(word in text for word in (WORD, "17290001", "17.29", *judge.secret_names))


@pytest.mark.parametrize("door", DOORS)
def test_no_door_of_the_api_tells_the_author(judge, author, submission, door):
    answer = author.http.get(door.format(id=submission))
    assert answer.status_code == 200
    assert not tells(judge, answer.text)


@pytest.mark.parametrize("page", PAGES)
def test_no_page_tells_the_author(judge, author, submission, page):
    address = judge.url + page.format(id=submission)
    browser = judge.connect()
    browser.cookies.set("judge_token", author.token)
    answer = browser.get(address)
    assert answer.status_code == 200
    assert not tells(judge, answer.text)


def test_the_author_learns_the_word_and_the_count(judge, author, submission):
    body = author.http.get(f"/submissions/{submission}").json()
    secret = [r for r in body["outcome"]["results"] if r["secret"]]
    assert len(secret) == len(judge.secret_names)
    assert {r["verdict"] for r in secret} == {"wrong answer"}
    assert all(r["values"] == {} and r["message"] == "" for r in secret)


def test_organizers_see_everything(judge, submission):
    text = judge.organizer.http.get(f"/submissions/{submission}").text
    assert WORD in text
    assert all(name in text for name in judge.secret_names)


def test_after_the_contest_the_author_sees_everything(judge, author, submission):
    judge.clock.ahead += timedelta(days=365 * 10)
    try:
        assert WORD in author.http.get(f"/submissions/{submission}").text
    finally:
        judge.clock.ahead = timedelta(0)
