"""Promises about users, teams, invites and tokens, on every database."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from judge.model import Refusal, Role
from judge.ports import StoreError
from judge.records import Identity
from leaderboard.store import SqlStore

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)


def secret() -> bytes:
    return os.urandom(32)


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code


def test_who_registers_gets_a_team_of_one_and_a_token_that_speaks_for_them(
    store: SqlStore,
) -> None:
    token = secret()
    ada = store.register("Ada", None, token, NOW)
    assert isinstance(ada, Identity)
    assert (ada.role, ada.user, ada.team) == (Role.CONTESTANT, "Ada", "Ada")
    assert store.identify(token) == ada
    assert store.identify(secret()) is None


@pytest.mark.parametrize("other", ["Ada Love", "ADA LOVE", "\uff41da\u3000love", "Ada  Love"])
def test_a_name_that_reads_like_a_taken_one_is_refused(store: SqlStore, other: str) -> None:
    store.register("ada love", None, secret(), NOW)
    assert code_of(store.register(other, None, secret(), NOW)) == "name_taken"
    assert len(store.events(["user.registered"], 0, 10)) == 1


def test_an_invite_code_is_good_for_one_person_however_many_try_at_once(store: SqlStore) -> None:
    invite = secret()
    store.add_invites([invite], None, NOW)
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda n: store.register(f"p{n}", invite, secret(), NOW), range(16))
        )
    refused = [answer.code for answer in answers if isinstance(answer, Refusal)]
    assert refused == ["invite_used"] * 15


def test_an_unknown_invite_code_is_refused(store: SqlStore) -> None:
    assert code_of(store.register("ada", secret(), secret(), NOW)) == "invite_unknown"


def test_invites_for_a_team_bring_their_people_together(store: SqlStore) -> None:
    invites = [secret(), secret()]
    store.add_invites(invites, "Rockets", NOW)
    ada = store.register("ada", invites[0], secret(), NOW)
    bob = store.register("bob", invites[1], secret(), NOW)
    assert isinstance(ada, Identity)
    assert isinstance(bob, Identity)
    assert (ada.team_id, ada.team) == (bob.team_id, "Rockets")


def test_nobody_can_take_the_name_of_a_team_before_its_members_come(store: SqlStore) -> None:
    store.add_invites([secret()], "Rockets", NOW)
    assert code_of(store.register("rockets", None, secret(), NOW)) == "name_taken"


def test_a_full_team_takes_nobody_and_leaves_the_invite_unused(store: SqlStore) -> None:
    invites = [secret(), secret()]
    store.add_invites(invites, "Rockets", NOW)
    store.register("ada", invites[0], secret(), NOW, 1)
    assert code_of(store.register("bob", invites[1], secret(), NOW, 1)) == "team_full"
    assert isinstance(store.register("bob", invites[1], secret(), NOW, 2), Identity)


def test_a_revoked_token_speaks_for_nobody_though_it_was_just_used(store: SqlStore) -> None:
    token = secret()
    ada = store.register("ada", None, token, NOW)
    assert store.identify(token) == ada
    assert isinstance(ada, Identity)
    assert store.revoke_token(ada.token_id, NOW)
    assert store.identify(token) is None
    assert not store.revoke_token(ada.token_id, NOW)
    assert store.tokens(None)[0].revoked_at == NOW


def test_a_runner_token_has_a_device_and_no_user(store: SqlStore) -> None:
    token = secret()
    made = store.add_token(token, Role.RUNNER, "r1", NOW, device="cpu")
    identity = store.identify(token)
    assert identity == Identity(made.id, Role.RUNNER, "r1", device="cpu")


def test_tokens_are_listed_by_user(store: SqlStore) -> None:
    ada = store.register("ada", None, secret(), NOW)
    assert isinstance(ada, Identity)
    laptop = store.add_token(secret(), Role.CONTESTANT, "laptop", NOW, user_id=ada.user_id)
    store.add_token(secret(), Role.ORGANIZER, "boss", NOW)
    assert [token.id for token in store.tokens(ada.user_id)] == [ada.token_id, laptop.id]
    assert store.tokens(ada.user_id)[1] == laptop
    assert len(store.tokens(None)) == 3


def test_the_last_use_of_a_token_is_noted_to_the_minute_by_the_regular_call(
    store: SqlStore,
) -> None:
    token = secret()
    store.register("ada", None, token, NOW)

    def last_use() -> datetime | None:
        return store.tokens(None)[0].last_used_at

    store.identify(token)
    assert last_use() is None
    store.release_lost(NOW)
    assert last_use() == NOW
    store.identify(token)
    store.release_lost(NOW + timedelta(seconds=59))
    assert last_use() == NOW
    store.release_lost(NOW + timedelta(seconds=61))
    assert last_use() == NOW + timedelta(seconds=61)


def test_one_failing_write_leaves_those_committed_with_it_whole(store: SqlStore) -> None:
    taken = secret()
    store.add_token(taken, Role.RUNNER, "first", NOW)

    def add(n: int) -> object:
        try:
            return store.add_token(taken if n % 4 == 0 else secret(), Role.RUNNER, f"r{n}", NOW)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(add, range(64)))
    failed = [n for n, answer in enumerate(answers) if isinstance(answer, StoreError)]
    assert failed == list(range(0, 64, 4))
    assert len(store.tokens(None)) == 1 + 48
    assert len(store.events(["token.added"], 0, 100)) == 1 + 48


def test_a_write_that_fails_half_way_leaves_nothing_behind(store: SqlStore) -> None:
    twice = secret()
    with pytest.raises(StoreError):
        store.add_invites([twice, twice], "Rockets", NOW)
    assert code_of(store.register("ada", twice, secret(), NOW)) == "invite_unknown"
    assert isinstance(store.register("Rockets", None, secret(), NOW), Identity)
