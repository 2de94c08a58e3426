"""Who may pass which door: every route of the OpenAPI document, for every kind of asker."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.judge.api.conftest import KERNEL

ALL = frozenset({"nobody", "owner", "other", "organizer", "runner"})
TOKEN = ALL - {"nobody"}
PEOPLE = frozenset({"owner", "other", "organizer"})
OWNER = frozenset({"owner", "organizer"})
ORGANIZER = frozenset({"organizer"})
RUNNER = frozenset({"runner"})
CONTESTANTS = frozenset({"owner", "other"})

# Who gets in. What is not in this table fails the test, so a new route needs a decision here.
DOORS = {
    ("get", "/api/v1/health"): ALL,
    ("post", "/api/v1/register"): ALL,
    ("get", "/api/v1/whoami"): TOKEN,
    ("get", "/api/v1/tokens"): TOKEN,
    ("post", "/api/v1/tokens"): PEOPLE,
    ("delete", "/api/v1/tokens/{token_id}"): OWNER,
    ("get", "/api/v1/contest"): ALL,
    ("get", "/api/v1/problems"): ALL,
    ("get", "/api/v1/problems/{problem}"): ALL,
    ("get", "/api/v1/problems/{problem}/files/{path}"): ALL,
    ("post", "/api/v1/submissions"): CONTESTANTS,
    ("get", "/api/v1/submissions"): TOKEN,
    ("get", "/api/v1/submissions/{submission_id}"): OWNER,
    ("get", "/api/v1/submissions/{submission_id}/wait"): OWNER,
    ("get", "/api/v1/submissions/{submission_id}/events"): OWNER,
    ("get", "/api/v1/submissions/{submission_id}/files/{name}"): OWNER,
    ("get", "/api/v1/submissions/{submission_id}/log"): OWNER,
    ("post", "/api/v1/submissions/{submission_id}/cancel"): OWNER,
    ("get", "/api/v1/boards"): ALL,
    ("get", "/api/v1/boards/{problem}/{device}"): ALL,
    ("get", "/api/v1/receipt-key"): ALL,
    ("post", "/api/v1/runner/jobs/{job_id}/claim"): RUNNER,
    ("post", "/api/v1/runner/jobs/{job_id}/heartbeat"): RUNNER,
    ("post", "/api/v1/runner/jobs/{job_id}/outcome"): RUNNER,
    ("post", "/api/v1/runner/hello"): RUNNER,
    ("post", "/api/v1/runner/beat"): RUNNER,
    ("get", "/api/v1/runner/ring"): RUNNER,
    ("get", "/api/v1/runners"): ALL,
    ("post", "/api/v1/admin/quarantine"): ORGANIZER,
    ("post", "/api/v1/admin/reinstate"): ORGANIZER,
    ("post", "/api/v1/admin/intake"): ORGANIZER,
    ("post", "/api/v1/admin/announcements"): ORGANIZER,
    ("post", "/api/v1/admin/invites"): ORGANIZER,
    ("post", "/api/v1/admin/submissions/{submission_id}/hold"): ORGANIZER,
    ("post", "/api/v1/admin/submissions/{submission_id}/release"): ORGANIZER,
    ("post", "/api/v1/admin/backup"): ORGANIZER,
    ("get", "/api/v1/admin/events"): ORGANIZER,
}

# Foreign submissions and tokens are answered as if they did not exist.
HIDDEN = ("/api/v1/submissions/{submission_id}", "/api/v1/tokens/{token_id}")

BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/register": {"name": "Walker"},
    "/api/v1/admin/intake": {"open": True},
    "/api/v1/admin/announcements": {"text": "Hello"},
    "/api/v1/admin/invites": {"count": 1},
    "/api/v1/admin/submissions/{submission_id}/hold": {"reason": "odd"},
    "/api/v1/runner/hello": {
        "runner": "r1",
        "isolation": "full",
        "self_test": {"passed": True},
    },
    "/api/v1/runner/beat": {"runner": "r1"},
    "/api/v1/admin/quarantine": {"runner": "nobody's", "why": "odd"},
    "/api/v1/admin/reinstate": {"runner": "nobody's"},
    "/api/v1/runner/jobs/{job_id}/claim": {
        "runner": "r1",
        "problem_digests": {},
        "isolation": "full",
    },
    "/api/v1/runner/jobs/{job_id}/heartbeat": {"attempt": 1, "progress": {"stage": "test"}},
}


@pytest.fixture(scope="module")
def askers(judge):
    owner, other = judge.newcomer(), judge.newcomer()
    return {
        "nobody": judge.connect(),
        "owner": owner.http,
        "other": other.http,
        "organizer": judge.organizer.http,
        "runner": judge.runner.http,
    }


@pytest.fixture(scope="module")
def finished(judge, askers):
    """A submission of the owner that is final, so that its event stream ends."""
    answer = (
        askers["owner"]
        .post(
            "/submissions",
            data={"problem": "topk", "device": "cpu", "mode": "test"},
            files={"files": ("topk.py", KERNEL)},
        )
        .json()
    )
    judge.finish(judge.claim(answer["job_id"]))
    return answer


def test_the_table_names_every_route_there_is(judge):
    document = judge.connect().get("/openapi.json").json()
    found = {(method, path) for path, item in document["paths"].items() for method in item}
    assert found == set(DOORS)


def test_the_document_says_which_routes_need_a_token(judge):
    document = judge.connect().get("/openapi.json").json()
    for (method, path), let_in in DOORS.items():
        secured = "security" in document["paths"][path][method]
        assert secured == ("nobody" not in let_in), (method, path)


@pytest.mark.parametrize(("method", "path"), DOORS)
@pytest.mark.parametrize("asker", sorted(ALL))
def test_only_those_who_may_pass_a_door(judge, askers, finished, method, path, asker):
    http = askers[asker]
    own_token = askers["owner"].get("/tokens").json()
    spare = askers["owner"].post("/tokens", json={"role": "contestant", "label": "spare"}).json()
    assert own_token
    address = path.removeprefix("/api/v1").format(
        submission_id=finished["submission_id"],
        job_id=finished["job_id"],
        token_id=spare["token_id"],
        problem="topk",
        device="cpu",
        path="statement.md",
        name="topk.py",
    )
    body = BODIES.get(path, {})
    if path == "/api/v1/tokens" and method == "post":
        role = "organizer" if asker == "organizer" else "contestant"
        body = {"role": role, "label": "walk"}
    if path.endswith("/outcome"):
        body = {"job_id": finished["job_id"], "attempt": 9, "verdict": "accepted", "message": ""}
    if path.endswith("/ring"):
        address += "?runner=r1&wait=0"
    answer = ask(http, method, address, body)
    askers["owner"].delete(f"/tokens/{spare['token_id']}")
    let_in = asker in DOORS[method, path]
    refused = {401} if asker == "nobody" else {404} if path.startswith(HIDDEN) else {403}
    if let_in:
        assert answer.status_code not in (401, 500), answer.text
        # Refusals about the matter, not about the person.
        assert answer.status_code < 300 or answer.json()["code"] in OF_THE_MATTER, answer.text
    else:
        assert answer.status_code in refused, answer.text
        assert set(answer.json()) == {"detail", "code"}


OF_THE_MATTER = {
    "invite_needed",  # register without one
    "not_multipart",  # a submission without a form
    "job_final",
    "problem_differs",  # a runner without the problem
    "runner_unknown",
    "stale_attempt",
}


def ask(http: httpx.Client, method: str, address: str, body: dict[str, Any]) -> httpx.Response:
    if method == "post":
        return http.post(address, json=body)
    return http.request(method, address)


def test_a_foreign_submission_and_a_missing_one_are_answered_alike(judge, askers, finished):
    foreign = askers["other"].get(f"/submissions/{finished['submission_id']}")
    missing = askers["other"].get("/submissions/999999")
    assert foreign.status_code == missing.status_code == 404
    numbers = (str(finished["submission_id"]), "999999")
    told = [
        a.json()["detail"].replace(n, "N")
        for a, n in zip((foreign, missing), numbers, strict=False)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer kj_wrong", "Basic kj_x", "kj_x", "Bearer " + "x" * 5_000, "bearer \xff"],
)
def test_a_token_that_is_none_is_a_401_with_a_remedy(judge, header):
    answer = judge.connect().get("/whoami", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "judge login" in answer.json()["detail"]


def test_a_revoked_token_stops_working_at_once(judge):
    person = judge.newcomer()
    made = person.http.post("/tokens", json={"role": "contestant", "label": "laptop"}).json()
    second = judge.as_token(made["token"])
    assert second.http.get("/whoami").status_code == 200
    assert person.http.delete(f"/tokens/{made['token_id']}").status_code == 200
    assert second.http.get("/whoami").status_code == 401


def test_no_answer_holds_a_hash_or_a_token_but_the_one_that_makes_it(judge):
    person = judge.newcomer()
    listed = person.http.get("/tokens").text + judge.organizer.http.get("/tokens").text
    assert person.token not in listed
    assert "kj_" not in listed + judge.organizer.http.get("/admin/events?limit=1000").text
