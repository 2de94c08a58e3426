"""Promises of receipts: whoever holds the public key can tell a true one."""

from __future__ import annotations

import base64
import json
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from judge.model import JobState, Mode, Submission
from judge.receipts import ReceiptKey, ReceiptKeyError, load_or_create_key, sign, verify
from judge.records import JobRecord
from judge.wire import ReceiptBody

RECORD = JobRecord(
    submission=Submission(
        id=7,
        team_id=3,
        user_id=4,
        problem_id="topk",
        problem_version=1,
        main="topk.py",
        digest="ab" * 32,
        received_at=datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC),
    ),
    team="Ada",
    author="ada",
    file_names=("topk.py",),
    job_id=8,
    device="cpu",
    mode=Mode.BENCHMARK,
    state=JobState.QUEUED,
    attempt=0,
    version=1,
    held=False,
    charged=False,
    progress=None,
    runner=None,
    lease_until=None,
    last_heard_at=None,
    finished_at=None,
    outcome=None,
)


@pytest.fixture
def key(tmp_path: Path) -> ReceiptKey:
    return load_or_create_key(tmp_path / "key.pem")


def test_receipt_states_the_submission_and_verifies(key: ReceiptKey) -> None:
    receipt = sign(key, RECORD)
    assert (receipt.submission_id, receipt.job_id, receipt.team_id) == (7, 8, 3)
    assert (receipt.problem, receipt.device, receipt.mode) == ("topk", "cpu", Mode.BENCHMARK)
    assert (receipt.sha256, receipt.received_at) == ("ab" * 32, RECORD.submission.received_at)
    assert receipt.key_id == key.key_id
    assert verify(key.public_pem, receipt)


def test_receipt_verifies_after_its_way_through_json(key: ReceiptKey) -> None:
    text = sign(key, RECORD).model_dump_json()
    assert verify(key.public_pem, ReceiptBody.model_validate_json(text))


def test_receipt_can_be_verified_from_its_json_without_our_code(key: ReceiptKey) -> None:
    sent = json.loads(sign(key, RECORD).model_dump_json())
    signature = base64.b64decode(sent.pop("signature"))
    signed = json.dumps(sent, sort_keys=True, separators=(",", ":")).encode()
    public = load_pem_public_key(key.public_pem.encode())
    public.verify(signature, signed)  # type: ignore[call-arg,union-attr]


@pytest.mark.parametrize(
    "change",
    [
        {"submission_id": 8},
        {"job_id": 9},
        {"team_id": 4},
        {"problem": "gemm"},
        {"device": "rocm"},
        {"mode": Mode.TEST},
        {"sha256": "cd" * 32},
        {"received_at": RECORD.submission.received_at - timedelta(microseconds=1)},
        {"key_id": "0" * 16},
        {"signature": ""},
        {"signature": "no base64!"},
        {"signature": base64.b64encode(bytes(64)).decode()},
    ],
)
def test_receipt_with_any_field_changed_does_not_verify(
    key: ReceiptKey, change: dict[str, object]
) -> None:
    assert not verify(key.public_pem, sign(key, RECORD).model_copy(update=change))


def test_receipt_of_another_server_does_not_verify(key: ReceiptKey, tmp_path: Path) -> None:
    other = load_or_create_key(tmp_path / "other.pem")
    assert other.key_id != key.key_id
    assert not verify(other.public_pem, sign(key, RECORD))


def test_key_is_made_once_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    first = load_or_create_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_or_create_key(file).public_pem == first.public_pem
    assert os.listdir(tmp_path) == ["key.pem"]


def test_key_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    load_or_create_key(file)
    file.chmod(0o644)
    with pytest.raises(ReceiptKeyError, match="chmod 600"):
        load_or_create_key(file)


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_file_that_is_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ReceiptKeyError, match="no PEM key"):
        load_or_create_key(file)
    assert file.read_bytes() == content


def test_two_submissions_get_two_signatures(key: ReceiptKey) -> None:
    assert sign(key, RECORD).signature != sign(key, replace(RECORD, job_id=9)).signature
