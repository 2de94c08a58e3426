"""Promises of `contest.toml`: read whole, or refused with every fault and its remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge.contest import load_contest, parse_contest
from judge.model import Contest, Mode, Quota
from judge.tables import DeclarationError

REPO = Path(__file__).parents[2]

GOOD = """\
title = "Autumn"
problems = ["topk", "gemm"]
devices = ["cpu"]
opens = 2026-03-01T09:00:00+01:00
freezes = 2026-03-08T00:00:00Z
closes = 2026-03-09T00:00:00Z
team_size = 3

[quotas]
test = { count = 50, per_s = 3600 }
"""


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(DeclarationError) as caught:
        parse_contest(text)
    return caught.value.faults


def test_contest_is_read_with_times_in_utc_and_defaults() -> None:
    assert parse_contest(GOOD) == Contest(
        title="Autumn",
        problems=("topk", "gemm"),
        devices=("cpu",),
        opens=datetime(2026, 3, 1, 8, tzinfo=UTC),
        freezes=datetime(2026, 3, 8, tzinfo=UTC),
        closes=datetime(2026, 3, 9, tzinfo=UTC),
        quotas={Mode.TEST: Quota(50, 3600)},
        team_size=3,
    )


def test_example_contest_is_good_and_open_for_years() -> None:
    contest = load_contest(REPO / "contest.toml")
    assert contest.problems == ("topk",)
    assert contest.devices == ("cpu",)
    assert contest.opens < datetime(2026, 2, 1, tzinfo=UTC)
    assert contest.closes > datetime(2030, 1, 1, tzinfo=UTC)
    assert not contest.open_registration


def test_message_names_file_place_key_fault_line_and_remedy() -> None:
    (fault,) = faults(GOOD.replace("count = 50", 'count = "1k"'))
    assert fault == (
        'contest.toml: [quotas] test: "count" must be a positive whole number, got "1k" (line 10); '
        "write count = 50"
    )


@pytest.mark.parametrize("key", ["opens", "freezes", "closes"])
def test_time_without_offset_is_refused(key: str) -> None:
    lines = [f"{key} = 2026-03-05T00:00:00" if x.startswith(key) else x for x in GOOD.split("\n")]
    (fault,) = faults("\n".join(lines))
    assert f'"{key}" has no offset' in fault
    assert "+01:00" in fault


@pytest.mark.parametrize("given", ["2026-03-09", '"2026-03-09T00:00:00Z"', "12:00:00", "5"])
def test_what_is_no_time_is_refused(given: str) -> None:
    (fault,) = faults(GOOD.replace("closes = 2026-03-09T00:00:00Z", f"closes = {given}"))
    assert '"closes" must be a date and time without quotes' in fault


def test_a_nul_in_a_text_is_refused() -> None:
    (fault,) = faults(GOOD.replace('title = "Autumn"', 'title = "a\\u0000b"'))
    assert '"title" holds the character NUL' in fault


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("closes = 2026-03-09", "closes = 2026-02-09", "closes"),
        ("freezes = 2026-03-08", "freezes = 2026-02-08", "freezes"),
        ("freezes = 2026-03-08", "freezes = 2026-03-10", "freezes"),
    ],
)
def test_times_must_come_in_order(old: str, new: str, key: str) -> None:
    (fault,) = faults(GOOD.replace(old, new))
    assert f'"{key}" must' in fault


def test_freeze_may_be_left_out_or_be_the_close() -> None:
    assert parse_contest(GOOD.replace("freezes = 2026-03-08T00:00:00Z\n", "")).freezes is None
    at_close = parse_contest(GOOD.replace("freezes = 2026-03-08", "freezes = 2026-03-09"))
    assert at_close.freezes == at_close.closes


def test_unknown_keys_are_refused_with_the_nearest_known() -> None:
    first, second = faults(GOOD.replace("team_size", "teamsize").replace("test =", "tests ="))
    assert '[quotas]: "tests"' in first
    assert 'did you mean "test"?' in first
    assert 'did you mean "team_size"?' in second


def test_all_faults_are_told_at_once() -> None:
    found = faults("title = 3\nproblems = []\ndevices = ['cpu', 'cpu']\nteam_size = true\n")
    for key in ("title", "problems", "devices", "team_size", "opens", "closes"):
        assert any(f'"{key}"' in fault for fault in found), key


def test_broken_toml_is_refused_with_its_line() -> None:
    (fault,) = faults("title = \n")
    assert fault.startswith("contest.toml: is not TOML")
    assert "line 1" in fault


def test_missing_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="no such file"):
        load_contest(tmp_path / "contest.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe4"')
    with pytest.raises(DeclarationError, match="not UTF-8"):
        load_contest(tmp_path / "latin.toml")
