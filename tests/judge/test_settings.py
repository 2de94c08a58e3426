"""Promises of the server's settings."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from judge.settings import (
    MAX_SOCKET_PATH_BYTES,
    ServerSettings,
    embedded_queue_url,
    embedded_socket,
    unknown_variables,
)


def test_every_setting_is_read_from_its_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("JUDGE_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("JUDGE_PORT", "8123")
    monkeypatch.setenv("JUDGE_LEASE_S", "2.5")
    settings = ServerSettings()
    assert (settings.state_dir, settings.port, settings.lease_s) == (tmp_path / "s", 8123, 2.5)
    assert settings.base_url == "http://127.0.0.1:8123"
    assert settings.store_url == f"sqlite:///{tmp_path / 's' / 'judge.sqlite3'}"


def test_settings_cannot_change_after_the_start(tmp_path):
    with pytest.raises(ValidationError):
        ServerSettings(state_dir=tmp_path).port = 1


@pytest.mark.parametrize("value", ["eighty", "-1", "70000"])
def test_a_port_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("JUDGE_PORT", value)
    with pytest.raises(ValidationError, match="port"):
        ServerSettings()


def test_a_mistyped_variable_is_named(tmp_path):
    found = unknown_variables(
        {"JUDGE_STAT_DIR": "x", "JUDGE_STATE_DIR": "y", "JUDGE_RUNNER_NAME": "z", "HOME": "/"}
    )
    assert found == ("JUDGE_STAT_DIR",)


def test_the_socket_lies_in_the_state_folder_when_its_path_fits():
    assert embedded_socket(Path("/srv/judge")) == Path("/srv/judge/valkey/valkey.sock")


def test_a_long_state_path_gets_a_short_socket_of_its_own():
    one, two = Path("/srv/" + "a" * 120), Path("/srv/" + "b" * 120)
    assert embedded_socket(one) != embedded_socket(two)
    assert embedded_socket(one) == embedded_socket(one)
    assert all(len(os.fsencode(embedded_socket(p))) <= MAX_SOCKET_PATH_BYTES for p in (one, two))


def test_odd_characters_in_the_state_path_survive_the_url(tmp_path):
    url = embedded_queue_url(Path("/srv/a b#c%20?"))
    assert url == "unix:///srv/a%20b%23c%2520%3F/valkey/valkey.sock"
