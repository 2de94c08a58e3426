"""Promises of the pages, through the real server: what a browser gets, and what it must not get."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx
import pytest
import typer

from judge.cli import own_commands
from tests.judge.api.conftest import Judge, Person, contest_text, running

EVIL = "<script>alert(1)</script>"
NAME = "<img src=x onerror=alert(1)> \"&' bold"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(tmp_path_factory.mktemp("judge"), contest_text()) as judge:
        yield judge


def browser(judge: Judge, person: Person | None = None) -> httpx.Client:
    """A browser, signed in as somebody or not; it follows no redirect."""
    client = judge.connect()
    client.base_url = httpx.URL(judge.url)
    if person is not None:
        client.cookies.set("judge_token", person.token)
    return client


@pytest.fixture(scope="module")
def hostile(judge: Judge) -> tuple[Person, int]:
    """Somebody whose name, kernel and outcome try to write markup into every page; a submission."""
    author = judge.newcomer(NAME)
    taken = author.submit(mode="benchmark")
    lease = judge.claim(taken["job_id"])
    results = [
        {
            "case": case["name"],
            "stage": case["stage"],
            "secret": case["secret"],
            "verdict": "accepted",
            "values": {},
            "message": "" if case["secret"] else EVIL,
            "differences": []
            if case["secret"]
            else [{"output": EVIL, "index": [1], "got": EVIL, "expected": "\u202e" + EVIL}],
        }
        for case in lease["cases"]
    ]
    log = f"</pre>{EVIL}\x1b[31m\u202e\0"
    answer = judge.finish(
        lease, results=results, message=EVIL, log=log, environment={EVIL: f'"{EVIL}'}
    )
    assert answer.status_code == 200, answer.text
    return author, int(taken["submission_id"])


def pages_of(submission: int) -> tuple[str, ...]:
    return (
        "/",
        "/boards/topk/cpu",
        "/problems/topk",
        "/submissions",
        f"/submissions/{submission}",
        "/sign-in",
        "/nothing",
    )


def test_names_messages_and_logs_are_text_on_every_page(judge, hostile):
    author, submission = hostile
    for page in pages_of(submission):
        text = browser(judge, author).get(page).text
        assert "<script" not in text, page
        assert "<img src=x" not in text, page
        assert not set(text) & set("\x1b\u202e\0"), page
        assert html.escape(NAME).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in text
    shown = browser(judge, author).get(f"/submissions/{submission}").text
    # Message, log, environment's key and value; each public case's message, output, got, expected.
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 8


def test_every_page_forbids_scripts_and_needs_no_other_host(judge, hostile):
    author, submission = hostile
    for page in pages_of(submission):
        answer = browser(judge, author).get(page)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        (policy,) = answer.headers.get_list("content-security-policy")
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert rules["default-src"] == "'none'", "scripts among all else"
        assert "script-src" not in rules
        assert "'unsafe-inline'" not in policy
        assert rules["form-action"] == "'self'"
        assert answer.headers["cache-control"] == "no-store"
        assert " style=" not in answer.text, "the policy would drop it"
        links = re.findall(r'\b(?:src|href|action)="([^"]*)"', answer.text)
        assert links
        assert all(re.match(r"/(?!/)|#", link) for link in links), links


def test_boards_and_submissions_are_told_in_plain_markup(judge, hostile):
    author, submission = hostile
    judge.judged(judge.newcomer("Plain reader"))
    board = browser(judge).get("/boards/topk/cpu").text
    assert "Practice, not ranked" in board
    assert re.search(r"Plain reader.*?9\.000 us", board, re.DOTALL)
    shown = browser(judge, author).get(f"/submissions/{submission}").text
    assert shown.count('class="dot"') >= 3
    assert 'http-equiv="refresh"' not in shown
    waiting = judge.newcomer()
    receipt = waiting.submit()
    page = browser(judge, waiting).get(f"/submissions/{receipt['submission_id']}").text
    assert 'http-equiv="refresh"' in page
    assert receipt["sha256"] in page


def test_every_style_sheet_and_picture_that_a_page_names_is_there(judge):
    front = browser(judge).get("/").text
    for address in set(re.findall(r'(?:src|href)="(/static/[^"]*)"', front)):
        assert browser(judge).get(address).status_code == 200, address


@pytest.mark.parametrize(
    "address",
    [
        "/nothing",
        "/nothing/at/all",
        "/problems/none",
        "/boards/topk/abacus",
        "/static/none.css",
        "/submissions/999999",
        "/submissions/0",
        "/submissions/x",
        "/submissions/-1",
        "/submissions/\u0663",
        "/submissions/" + "9" * 19,
        "/submissions/" + "9" * 5_000,
    ],
)
def test_what_is_not_there_is_a_page_that_leads_back(judge, hostile, address):
    answer = browser(judge, hostile[0]).get(address)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'href="/"' in answer.text


def test_below_the_api_what_is_not_there_stays_json(judge):
    assert set(browser(judge).get("/api/v1/nothing").json()) == {"detail", "code"}


def test_a_wrong_method_is_a_page_too(judge):
    answer = browser(judge).post("/")
    assert answer.status_code == 405
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def sign_in(judge, token, **more):
    headers = {"Origin": more.pop("origin", judge.url)}
    form = {"token": token, "target": "/submissions", **more}
    return browser(judge).post("/sign-in", data=form, headers=headers)


def test_signing_in_keeps_the_token_where_no_script_and_no_other_site_gets_it(judge, hostile):
    author, submission = hostile
    answer = sign_in(judge, f" {author.token}\n", target=f"/submissions/{submission}")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/submissions/{submission}"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert author.token not in answer.text + answer.headers["location"]
    signed_in = browser(judge)
    signed_in.cookies.update(answer.cookies)
    assert signed_in.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize("token", ["", "kj_wrong", "x" * 5_000, "\u202e", EVIL])
def test_a_wrong_token_is_asked_for_again_and_not_kept_or_repeated(judge, token):
    answer = sign_in(judge, token)
    assert answer.status_code == 401
    assert "unknown or was revoked" in answer.text
    assert "set-cookie" not in answer.headers
    assert not token or token not in answer.text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_a_form_of_another_site_signs_nobody_in_or_out(judge, hostile, origin):
    author, _ = hostile
    answer = sign_in(judge, author.token, origin=origin)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    out = browser(judge, author).post("/sign-out", headers={"Origin": origin})
    assert "set-cookie" not in out.headers


def test_signing_out_forgets_the_token(judge, hostile):
    answer = browser(judge, hostile[0]).post("/sign-out", headers={"Origin": judge.url})
    assert answer.headers["location"] == "/"
    assert re.match(r'judge_token=""; .*Max-Age=0', answer.headers["set-cookie"])


@pytest.mark.parametrize(
    "target",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "evil"),
        *("/\t/evil.example", "javascript:alert(1)", "/ok\r\nSet-Cookie: a=b", ""),
    ],
)
def test_nobody_is_sent_elsewhere_by_signing_in(judge, hostile, target):
    answer = sign_in(judge, hostile[0].token, target=target)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    form = browser(judge).get("/sign-in", params={"target": target}).text
    assert 'name="target" value="/"' in form


def test_a_pause_and_its_reason_stand_on_the_front_page_and_the_board_until_it_ends(judge):
    said = []
    for is_open in (False, True):
        judge.organizer.http.post("/admin/intake", json={"open": is_open, "reason": EVIL})
        with browser(judge) as spectator:
            pages = [spectator.get(address).text for address in ("/", "/boards/topk/cpu")]
        said.append([f"Intake is paused.</strong> {html.escape(EVIL)}" in page for page in pages])
    assert said == [[True, True], [False, False]]


def test_a_board_is_the_same_as_json_by_page_and_api(judge, hostile):
    by_page = browser(judge).get("/boards/topk/cpu.json")
    by_api = browser(judge).get("/api/v1/boards/topk/cpu")
    page, api = by_page.json(), by_api.json()
    assert page.pop("as_of") <= api.pop("as_of")
    assert page == api
    assert page["entries"]
    gone = browser(judge).get("/boards/topk/abacus.json")
    assert gone.json() == browser(judge).get("/api/v1/boards/topk/abacus").json()
    assert gone.status_code == 404


def test_a_secret_case_has_a_verdict_and_no_more_for_its_author_and_all_for_organizers(judge):
    author = judge.newcomer()
    taken = author.submit(mode="benchmark")
    lease = judge.claim(taken["job_id"])
    secret = {case["name"] for case in lease["cases"] if case["secret"]}
    assert secret
    results = [
        {
            "case": case["name"],
            "stage": case["stage"],
            "secret": case["secret"],
            "verdict": "memory limit" if case["secret"] else "accepted",
            "values": case["values"],
            "message": "hush-1729" if case["secret"] else "",
        }
        for case in lease["cases"]
    ]
    judge.finish(lease, verdict="memory limit", results=results, message="hush-1729")
    page = f"/submissions/{taken['submission_id']}"
    for_author = browser(judge, author).get(page).text
    assert for_author.count(">memory limit</span>") == len(secret)
    assert "hush-1729" not in for_author
    assert not any(name in for_author for name in secret)
    for_organizer = browser(judge, judge.organizer).get(page).text
    assert "hush-1729" in for_organizer
    assert all(name in for_organizer for name in secret)


def test_a_submission_is_shown_to_its_team_only(judge, hostile):
    page = f"/submissions/{hostile[1]}"
    stranger = browser(judge).get(page)
    assert stranger.status_code == 401
    assert f'name="target" value="{page}"' in stranger.text
    other = browser(judge, judge.newcomer()).get(page)
    assert other.status_code == 404
    assert "alert(1)" not in stranger.text + other.text


def test_every_command_that_a_page_tells_is_one_of_the_command_line(judge, hostile):
    command_line = typer.main.get_command(own_commands())
    told = set()
    for page in pages_of(hostile[1]):
        for person in (None, judge.newcomer()):
            text = html.unescape(browser(judge, person).get(page).text)
            told |= set(re.findall(r"(?:<code>|\n)judge ([^<\n]+)", text))
    assert len(told) >= 5
    for words in told:
        name, *rest = words.split()
        command = command_line.commands[name]  # type: ignore[attr-defined]
        options = {word for word in rest if word.startswith("--")}
        known = {option for each in command.params for option in each.opts}
        assert options <= known, words


def test_organizers_see_whose_submissions_they_list(judge, hostile):
    escaped = html.escape(NAME, quote=False)[:20]
    listed = browser(judge, judge.organizer).get("/submissions").text
    assert "All submissions" in listed
    assert escaped in listed
    own = browser(judge, hostile[0]).get("/submissions").text
    assert "My submissions" in own
    assert "All submissions" not in own
    assert escaped in browser(judge, judge.organizer).get(f"/submissions/{hostile[1]}").text
