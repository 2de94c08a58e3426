"""Promises about people, invites and tokens."""

from __future__ import annotations

import pytest

from judge.rules import MAX_TOKENS
from tests.judge.api.conftest import contest_text


def codes(judge, count=1, **more):
    answer = judge.organizer.http.post("/admin/invites", json={"count": count, **more})
    assert answer.status_code == 201
    return answer.json()["codes"]


def test_an_invite_lets_in_one_person_whatever_its_spelling(judge):
    (code,) = codes(judge)
    spelled = code.lower().replace("-", " ")
    made = judge.connect().post("/register", json={"name": "Ada", "invite": spelled})
    assert made.status_code == 201
    who = judge.as_token(made.json()["token"]).http.get("/whoami").json()
    assert (who["name"], who["team"], who["role"]) == ("Ada", "Ada", "contestant")
    second = judge.connect().post("/register", json={"name": "Bob", "invite": code})
    assert (second.status_code, second.json()["code"]) == (409, "invite_used")


def test_codes_in_bulk_are_all_different_and_hard_to_guess(judge):
    made = codes(judge, 200)
    assert len(set(made)) == 200
    assert all(len(code.replace("-", "")) == 20 for code in made)


def test_a_taken_name_is_refused_and_the_code_stays_good(judge):
    one, two = codes(judge, 2)
    assert judge.connect().post("/register", json={"name": "Grace", "invite": one}).is_success
    taken = judge.connect().post("/register", json={"name": " grace ", "invite": two})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
    assert judge.connect().post("/register", json={"name": "Hopper", "invite": two}).is_success


def test_a_full_team_takes_nobody_more(judge):
    (one,), (two,) = (codes(judge, 1, team="Soloists") for _ in range(2))
    assert judge.connect().post("/register", json={"name": "Solo", "invite": one}).is_success
    answer = judge.connect().post("/register", json={"name": "Second", "invite": two})
    assert (answer.status_code, answer.json()["code"]) == (409, "team_full")


def test_codes_that_nobody_could_use_are_not_made(judge):
    asked = {"count": 2, "team": "Duo"}
    answer = judge.organizer.http.post("/admin/invites", json=asked)
    assert (answer.status_code, answer.json()["code"]) == (409, "team_too_small")


def test_open_registration_needs_no_code(own_judge):
    with own_judge(contest_text(open_registration="true")) as judge:
        assert judge.connect().post("/register", json={"name": "Anyone"}).status_code == 201


@pytest.mark.parametrize(
    ("role", "body", "status", "code"),
    [
        ("contestant", {"role": "organizer", "label": "x"}, 403, "role_forbidden"),
        ("contestant", {"role": "runner", "label": "x", "device": "cpu"}, 403, "role_forbidden"),
        ("contestant", {"role": "contestant", "label": "x", "device": "cpu"}, 400, None),
        ("contestant", {"role": "contestant", "label": "x"}, 201, None),
        ("organizer", {"role": "organizer", "label": "x"}, 201, None),
        ("organizer", {"role": "runner", "label": "x", "device": "cpu"}, 201, None),
        ("organizer", {"role": "runner", "label": "x"}, 400, "device_unknown"),
        ("organizer", {"role": "runner", "label": "x", "device": "abacus"}, 400, "device_unknown"),
        ("organizer", {"role": "contestant", "label": "x"}, 409, "needs_registration"),
        ("runner", {"role": "runner", "label": "x", "device": "cpu"}, 403, "role_forbidden"),
    ],
)
def test_everybody_makes_only_the_tokens_they_may(judge, role, body, status, code):
    asker = {"organizer": judge.organizer, "runner": judge.runner}.get(role) or judge.newcomer()
    answer = asker.http.post("/tokens", json=body)
    assert answer.status_code == status, answer.text
    if status == 201:
        made = answer.json()
        assert judge.as_token(made["token"]).http.get("/whoami").json()["role"] == body["role"]
    elif code:
        assert answer.json()["code"] == code


def test_a_second_token_speaks_for_the_same_person(judge):
    person = judge.newcomer()
    made = person.http.post("/tokens", json={"role": "contestant", "label": "ci"}).json()
    first, second = person.http.get("/whoami").json(), judge.as_token(made["token"]).http
    assert second.get("/whoami").json() == first


def test_nobody_can_hoard_tokens(judge):
    person = judge.newcomer()
    for _ in range(MAX_TOKENS - 1):
        person.http.post("/tokens", json={"role": "contestant", "label": "x"})
    answer = person.http.post("/tokens", json={"role": "contestant", "label": "x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_tokens")
    tokens = person.http.get("/tokens").json()
    person.http.delete(f"/tokens/{tokens[-1]['token_id']}")
    assert person.http.post("/tokens", json={"role": "contestant", "label": "x"}).is_success


def test_a_contestant_sees_and_revokes_only_their_own_tokens(judge):
    one, two = judge.newcomer(), judge.newcomer()
    (token,) = one.http.get("/tokens").json()
    assert two.http.delete(f"/tokens/{token['token_id']}").status_code == 404
    assert one.http.get("/whoami").status_code == 200
    assert judge.organizer.http.delete(f"/tokens/{token['token_id']}").status_code == 200
    assert one.http.get("/whoami").status_code == 401
