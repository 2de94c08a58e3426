"""Promises of handing in."""

from __future__ import annotations

import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from judge.receipts import verify
from judge.wire import ReceiptBody
from tests.judge.api.conftest import KERNEL, contest_text

FIELDS = {"problem": "topk", "device": "cpu", "mode": "test"}


def test_the_receipt_comes_before_any_work_and_its_signature_holds(judge):
    author = judge.newcomer()
    receipt = ReceiptBody.model_validate(author.submit())
    key = judge.connect().get("/receipt-key").json()
    assert key["key_id"] == receipt.key_id
    assert verify(key["public_key_pem"], receipt)
    forged = receipt.model_copy(update={"submission_id": receipt.submission_id + 1})
    assert not verify(key["public_key_pem"], forged)
    assert author.http.get(f"/submissions/{receipt.submission_id}").json()["state"] == "queued"


def test_a_source_comes_back_byte_by_byte(judge):
    author = judge.newcomer()
    content = "# Käse\r\n\tx = '\u2028'\n\n".encode() + KERNEL
    taken = author.submit(content)
    answer = author.http.get(f"/submissions/{taken['submission_id']}/files/topk.py")
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"


def test_several_files_keep_their_paths(judge):
    author = judge.newcomer()
    files = [("files", ("main.py", KERNEL)), ("files", ("lib/tile.py", b"SIZE = 4\n"))]
    taken = author.http.post("/submissions", data=FIELDS, files=files).json()
    body = author.http.get(f"/submissions/{taken['submission_id']}").json()
    assert body["files"] == ["lib/tile.py", "main.py"]
    answer = author.http.get(f"/submissions/{taken['submission_id']}/files/lib/tile.py")
    assert answer.content == b"SIZE = 4\n"


def test_the_receipt_names_the_digest_that_the_status_shows(judge):
    author = judge.newcomer()
    taken = author.submit()
    shown = author.http.get(f"/submissions/{taken['submission_id']}").json()
    assert shown["sha256"] == taken["sha256"]
    assert len(bytes.fromhex(taken["sha256"])) == hashlib.sha256().digest_size


def test_many_at_once_are_all_kept(judge):
    authors = [judge.newcomer() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: authors[n % 8].submit(), range(80)))
    assert len({receipt["submission_id"] for receipt in taken}) == 80
    kept = authors[0].http.get("/submissions", params={"limit": 100}).json()["submissions"]
    assert len(kept) == 10


def send(judge, data=None, files=None, **request):
    author = judge.newcomer()
    answer = author.http.post("/submissions", data=data, files=files, **request)
    assert author.http.get("/submissions").json()["submissions"] == [], "half stored"
    return answer


ONE_FILE = {"files": ("topk.py", KERNEL)}

MALFORMED = {
    "no body": ({}, 415, "not_multipart", "multipart/form-data"),
    "json": ({"json": FIELDS}, 415, "not_multipart", "application/json"),
    "urlencoded": ({"data": FIELDS}, 415, "not_multipart", "judge submit"),
    "no boundary": (
        {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}},
        *(400, "form_broken", "boundary"),
    ),
    "foreign boundary": (
        {"content": b"--a\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
        *(400, "form_broken", "boundary"),
    ),
    "cut off": (
        {
            "content": b'--b\r\nContent-Disposition: form-data; name="problem"\r\n\r\nto',
            "headers": {"Content-Type": "multipart/form-data; boundary=b"},
        },
        *(400, "form_broken", "closing boundary"),
    ),
    "no file": (
        {"files": {name: (None, value) for name, value in FIELDS.items()}},
        *(400, "no_files", "attach"),
    ),
    "no problem": (
        {"data": {"device": "cpu", "mode": "test"}, "files": ONE_FILE},
        *(400, "field_missing", '"problem"'),
    ),
    "no mode": (
        {"data": {"problem": "topk", "device": "cpu"}, "files": ONE_FILE},
        *(400, "field_missing", '"mode"'),
    ),
    "unknown field": (
        {"data": {**FIELDS, "speed": "fast"}, "files": ONE_FILE},
        *(400, "field_unknown", '"speed"'),
    ),
    "field twice": (
        {"data": {**FIELDS, "mode": ["test", "test"]}, "files": ONE_FILE},
        *(400, "field_twice", '"mode"'),
    ),
    "file as text": (
        {"files": {**{k: (None, v) for k, v in FIELDS.items()}, "files": (None, "def f")}},
        *(400, "file_without_name", "@topk.py"),
    ),
    "unknown problem": (
        {"data": {**FIELDS, "problem": "topq"}, "files": ONE_FILE},
        *(404, "problem_unknown", 'did you mean "topk"?'),
    ),
    "unknown device": (
        {"data": {**FIELDS, "device": "abacus"}, "files": ONE_FILE},
        *(404, "device_unknown", "cpu"),
    ),
    "unknown mode": (
        {"data": {**FIELDS, "mode": "turbo"}, "files": ONE_FILE},
        *(400, "mode_unknown", "benchmark"),
    ),
    "wrong extension": (
        {"data": FIELDS, "files": {"files": ("topk.txt", KERNEL)}},
        *(400, "wrong_extension", "topk.txt"),
    ),
    "path trick": (
        {"data": FIELDS, "files": {"files": ("../topk.py", KERNEL)}},
        *(400, None, "topk.py"),
    ),
    "not text": (
        {"data": FIELDS, "files": {"files": ("topk.py", b"\xff\xfe")}},
        *(400, "not_text", "UTF-8"),
    ),
    "NUL": ({"data": FIELDS, "files": {"files": ("topk.py", b"a\0")}}, 400, "not_text", "NUL"),
    "empty": ({"data": FIELDS, "files": {"files": ("topk.py", b"")}}, 400, "empty_file", "empty"),
    "2 MB": (
        {"data": FIELDS, "files": {"files": ("topk.py", b"#" * 2_000_000)}},
        *(413, "body_too_large", "KiB"),
    ),
    "just too large": (
        {"data": FIELDS, "files": {"files": ("topk.py", b"#" * 1_000_001)}},
        *(413, "too_large", "1,000,000"),
    ),
    "too many": (
        {"data": FIELDS, "files": [("files", (f"f{n}.py", KERNEL)) for n in range(70)]},
        *(413, None, ""),
    ),
    "broken zip": (
        {"data": FIELDS, "files": {"files": ("k.zip", b"PK\x03\x04nonsense")}},
        *(400, "zip_broken", "zip"),
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_gets_a_sentence_and_leaves_no_trace(judge, name):
    request, status, code, words = MALFORMED[name]
    answer = send(judge, **request)
    body = answer.json()
    assert answer.status_code == status, body
    assert set(body) == {"detail", "code"}
    assert code is None or body["code"] == code
    assert words in body["detail"]


def test_a_stream_without_an_announced_size_is_cut_at_the_limit(judge):
    author = judge.newcomer()

    def endless():
        for _ in range(64):
            yield b"x" * 65_536

    answer = author.http.post(
        "/submissions",
        content=endless(),
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_cut_connection_loses_nothing_that_had_arrived(judge):
    author = judge.newcomer()
    request = httpx.Request("POST", "http://x/api/v1/submissions", data=FIELDS, files=ONE_FILE)
    body = request.read()
    host, port = judge.url.removeprefix("http://").split(":")
    head = (
        "POST /api/v1/submissions HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {author.token}\r\n"
        f"Content-Type: {request.headers['content-type']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(head.encode() + body)
        # Only once something came back is it certain that the server had it all.
        assert peer.recv(1)
    kept = author.http.get("/submissions").json()["submissions"]
    assert [item["main"] for item in kept] == ["topk.py"]


def test_organizers_and_runners_cannot_hand_in(judge):
    for token in (judge.organizer, judge.runner):
        answer = token.http.post("/submissions", data=FIELDS, files=ONE_FILE)
        assert (answer.status_code, answer.json()["code"]) == (403, "role_forbidden")


def test_a_used_up_quota_says_when_the_next_slot_frees(own_judge):
    with own_judge(contest_text(quotas="test = { count = 2, per_s = 3600 }")) as judge:
        author = judge.newcomer()
        author.submit()
        author.submit()
        answer = author.http.post("/submissions", data=FIELDS, files=ONE_FILE)
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        assert "frees at" in answer.json()["detail"]
        author.submit(mode="benchmark")


def test_paused_intake_is_told_to_all_and_nothing_is_stored(own_judge):
    with own_judge() as judge:
        author = judge.newcomer()
        pause = {"open": False, "reason": "New drivers at 15:00"}
        assert judge.organizer.http.post("/admin/intake", json=pause).status_code == 200
        told = judge.connect().get("/contest").json()
        assert (told["intake_open"], told["intake_reason"]) == (False, "New drivers at 15:00")
        answer = author.http.post("/submissions", data=FIELDS, files=ONE_FILE)
        assert answer.status_code == 503
        assert "New drivers at 15:00" in answer.json()["detail"]
        judge.organizer.http.post("/admin/intake", json={"open": True})
        author.submit()


def test_pauses_and_announcements_survive_a_restart(own_judge):
    with own_judge() as judge:
        judge.organizer.http.post("/admin/intake", json={"open": False, "reason": "lunch"})
        judge.organizer.http.post("/admin/announcements", json={"text": "Back at two"})
    with own_judge() as judge:
        told = judge.connect().get("/contest").json()
        assert (told["intake_open"], told["intake_reason"]) == (False, "lunch")
        assert [a["text"] for a in told["announcements"]] == ["Back at two"]
