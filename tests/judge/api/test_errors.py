"""One shape for every error, and a sentence that helps."""

from __future__ import annotations

import socket

import pytest

from judge.api import limits


def raw(judge, data: bytes) -> bytes:
    host, port = judge.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as peer:
        peer.sendall(data)
        return peer.recv(65_536)


@pytest.mark.parametrize(
    ("method", "address", "status", "words"),
    [
        ("GET", "/nothing", 404, "openapi.json"),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404, "openapi.json"),
        ("PUT", "/contest", 405, "GET"),
        ("DELETE", "/submissions", 405, "does not take DELETE"),
        ("GET", "/submissions/x", 422, '"submission_id"'),
        ("GET", "/submissions/0", 422, "greater than or equal to 1"),
        ("GET", "/submissions/-1", 422, "greater than or equal to 1"),
        ("GET", "/submissions/" + "9" * 30, 422, "less than or equal"),
        ("GET", "/submissions/" + "9" * 5_000, 422, '"submission_id"'),
        ("GET", "/submissions/9223372036854775807", 404, "judge history"),
        ("GET", "/submissions?limit=0", 422, '"limit"'),
        ("GET", "/submissions?limit=many", 422, '"limit"'),
        ("GET", "/submissions?before=" + "9" * 40, 422, '"before"'),
        ("GET", "/submissions?problem=%00", 404, "topk"),
        ("GET", "/submissions/1/wait?timeout=1e9", 422, '"timeout"'),
        ("GET", "/submissions/1/wait?timeout=nan", 422, '"timeout"'),
        ("GET", "/boards/topk/cpu?mode=turbo", 422, "'benchmark'"),
        ("GET", "/boards/topk/cpu?mode=test", 404, "mode=benchmark"),
        ("GET", "/boards/topk/abacus", 404, "cpu"),
        ("GET", "/boards/%00/cpu", 404, "topk"),
        ("GET", "/problems/none", 404, "topk"),
        ("GET", "/problems/topk/files/reference.py", 404, "statement.md"),
        ("GET", "/problems/topk/files/../problem.toml", 404, ""),
        ("GET", "/problems/topk/files/%2e%2e%2fproblem.toml", 404, "statement.md"),
        ("DELETE", "/tokens/999999", 404, "999999"),
    ],
)
def test_what_cannot_be_answered_says_why(judge, method, address, status, words):
    person = judge.newcomer()
    answer = person.http.request(method, address)
    body = answer.json()
    assert answer.status_code == status, body
    assert set(body) == {"detail", "code"}
    assert words in body["detail"]
    assert body["code"].isidentifier()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "JSON object"),
        (b"null", "JSON"),
        (b'"x"', "JSON object"),
        (b"{}", '"name": it is missing; add it'),
        (b'{"name": 7}', '"name"'),
        (b'{"name": ""}', '"name"'),
        (b'{"name": "' + b"x" * 65 + b'"}', '"name"'),
        (b'{"name": "a", "nmae": "b"}', "there is no such field"),
        (b'{"name": "a\\u0000b"}', "U+0000"),
        (b'{"name": "a\\u202eb"}', "U+202E"),
        (b'{"name": "a"}', "invite code"),
        (b'{"name": "a", "invite": "no such code"}', "No such invite"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 20_000, "JSON"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field_and_the_remedy(judge, content, words):
    answer = judge.connect().post(
        "/register", content=content, headers={"Content-Type": "application/json"}
    )
    assert 400 <= answer.status_code < 500, answer.text
    assert words in answer.json()["detail"]


def test_a_body_over_the_limit_is_refused_by_its_announced_size(judge):
    answer = judge.connect().post("/register", json={"name": "x" * 100_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_size_that_is_a_lie_does_no_harm(judge):
    head = b"POST /api/v1/register HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n{}"
    assert b" 413 " in raw(judge, head).splitlines()[0]
    assert judge.connect().get("/health").status_code == 200


def test_a_client_that_stops_sending_is_told_and_let_go(judge, monkeypatch):
    monkeypatch.setattr(limits, "BODY_TIMEOUT_S", 0.2)
    host, port = judge.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as peer:
        peer.sendall(b"POST /api/v1/register HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        assert b" 408 " in peer.recv(65_536).splitlines()[0]


@pytest.mark.parametrize("address", ["/contest", "/nothing", "/whoami"])
def test_every_answer_has_the_security_headers(judge, address):
    headers = judge.connect().get(address).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_a_page_keeps_its_own_policy(judge):
    policy = judge.connect().get(f"{judge.url}/").headers.get_list("content-security-policy")
    assert len(policy) == 1
    assert "style-src" in policy[0]


def test_metrics_count_by_route_pattern_and_tell_of_the_queue(judge):
    judge.connect().get("/submissions/12345")
    judge.connect().get("/no/such/address")
    judge.connect().request("PROPFIND", "/contest")
    text = judge.connect().get(f"{judge.url}/metrics").text
    assert 'route="/api/v1/submissions/{submission_id}",status="401"' in text
    assert 'method="other",route="/api/v1/contest",status="405"' in text
    assert "PROPFIND" not in text
    assert "12345" not in text
    assert "/no/such/address" not in text
    assert "judge_queue_up 1.0" in text
    assert 'judge_queue_rings{queue="judge.cpu.test"}' in text
