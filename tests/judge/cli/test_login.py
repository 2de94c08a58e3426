"""Which judge is spoken to, and with which token."""

from pathlib import Path

import pytest

from judge.address import server_url
from judge.cli.login import Logins, connect, login_file, read_logins, write_logins
from judge.cli.talk import WrongUse

FIRST = "http://127.0.0.1:8000"
SECOND = "https://judge.example.org"


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("JUDGE_SERVER_URL", raising=False)
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)


def token_of(server: str | None, token: str | None) -> tuple[str, str | None]:
    with connect(server, token, needs_token=False) as client:
        return client.server, client._http.headers.get("Authorization")


def test_the_login_file_is_for_its_owner_only() -> None:
    write_logins(Logins(FIRST, {FIRST: "kj_a"}))
    assert login_file().stat().st_mode & 0o777 == 0o600
    assert read_logins() == Logins(FIRST, {FIRST: "kj_a"})


def test_a_flag_beats_the_environment_and_that_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write_logins(Logins(FIRST, {FIRST: "kj_file"}))
    assert token_of(None, None) == (FIRST, "Bearer kj_file")
    monkeypatch.setenv("JUDGE_SERVER_URL", SECOND)
    monkeypatch.setenv("JUDGE_TOKEN", "kj_env")
    assert token_of(None, None) == (SECOND, "Bearer kj_env")
    assert token_of(FIRST, "kj_flag") == (FIRST, "Bearer kj_flag")


def test_a_stored_token_is_never_sent_to_another_judge() -> None:
    write_logins(Logins(FIRST, {FIRST: "kj_file"}))
    assert token_of(SECOND, None) == (SECOND, None)
    with pytest.raises(WrongUse, match="not logged in at https://judge"):
        connect(SECOND, None)


def test_without_a_judge_the_way_to_log_in_is_told() -> None:
    with pytest.raises(WrongUse, match="judge login --server URL --invite CODE"):
        connect(None, None)


def test_a_broken_login_file_is_named() -> None:
    write_logins(Logins(FIRST, {}))
    login_file().write_text("{")
    with pytest.raises(WrongUse, match=r"login\.json cannot be read"):
        read_logins()


@pytest.mark.parametrize("text", ["judge.example.org", "localhost:8000", "ftp://x", "http://"])
def test_half_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole address"):
        server_url(text)


def test_the_api_path_may_be_part_of_the_address() -> None:
    assert server_url("http://127.0.0.1:8000/api/v1/") == FIRST
