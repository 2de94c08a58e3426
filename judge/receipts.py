"""Signed proof that a submission was received, with the server's Ed25519 key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from judge.records import JobRecord
from judge.wire import ReceiptBody


class ReceiptKeyError(Exception):
    """The server's key cannot be used: our fault, with the remedy."""


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """The server's signing key. key_id: 16 hex digits of the public key's SHA-256."""

    private: Ed25519PrivateKey
    public_pem: str
    key_id: str


def load_or_create_key(file: Path) -> ReceiptKey:
    """The key in a PEM file; made there, readable by its owner only (0600), if there is none.

    Two processes that start together get the same key. Raises ReceiptKeyError if the file holds no
    Ed25519 key, or if others may read it.
    """
    if not file.exists():
        _create(file)
    if file.stat().st_mode & 0o077:
        raise ReceiptKeyError(f"{file}: others may read the key; run `chmod 600 {file}`")
    try:
        private = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ReceiptKeyError(
            f"{file}: is no PEM key ({error}); restore it from a backup"
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ReceiptKeyError(f"{file}: is not an Ed25519 key; restore it from a backup")
    public = private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    raw = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return ReceiptKey(private, pem, hashlib.sha256(raw).hexdigest()[:16])


def _create(file: Path) -> None:
    """Write a new key whole before it gets its name, so that nobody ever reads half of one."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(pem)
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return
    finally:
        draft.unlink()


def sign(key: ReceiptKey, record: JobRecord) -> ReceiptBody:
    """The receipt of a stored submission."""
    receipt = ReceiptBody(
        submission_id=record.submission.id,
        job_id=record.job_id,
        team_id=record.submission.team_id,
        problem=record.submission.problem_id,
        device=record.device,
        mode=record.mode,
        sha256=record.submission.digest,
        received_at=record.submission.received_at,
        key_id=key.key_id,
        signature="",
    )
    signature = key.private.sign(canonical(receipt.model_dump(mode="json")))
    return receipt.model_copy(update={"signature": base64.b64encode(signature).decode()})


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """The bytes that are signed, from a receipt as it travels in JSON.

    The object without `signature`: keys sorted, no blanks, ASCII with \\u escapes.
    """
    signed = {name: value for name, value in receipt.items() if name != "signature"}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def verify(public_pem: str, receipt: ReceiptBody) -> bool:
    """Whether the receipt was signed, as it stands, by the owner of the public key (PEM).

    Raises ValueError if `public_pem` is no Ed25519 key.
    """
    public = load_pem_public_key(public_pem.encode())
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError("the public key is not an Ed25519 key")
    try:
        signature = base64.b64decode(receipt.signature, validate=True)
        public.verify(signature, canonical(receipt.model_dump(mode="json")))
    except (binascii.Error, InvalidSignature):
        return False
    return True
