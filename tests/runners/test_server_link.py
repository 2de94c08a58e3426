"""A runner on another host: it trusts who the system or the operator names, and says nothing in clear."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from judge.model import Refusal, RunnerState
from judge.wire import BeatBody, HelloBody, RingsBody, SelfTestBody, StandingBody
from runners.server_link import ServerLink, ServerUnreachableError
from runners.settings import SettingsError, checked_server
from tests.judge.api.conftest import Judge, contest_text, running

HELLO = HelloBody(runner="r1", isolation="full", self_test=SelfTestBody(passed=True))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "judge of this test")])
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "judge.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture(scope="module")
def judge(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(tmp_path_factory.mktemp("judge"), contest_text(), tls=certificate) as made:
        yield made


def test_a_runner_speaks_to_an_https_server_whose_authority_it_was_told(
    judge: Judge, certificate: Path
) -> None:
    link = ServerLink(judge.url, judge.runner.token, ca_file=certificate)
    standing = link.hello(HELLO)
    assert isinstance(standing, StandingBody)
    assert standing.state is RunnerState.ACTIVE
    assert isinstance(link.beat(BeatBody(runner="r1")), StandingBody)
    assert link.ring("r1", 0) == RingsBody(jobs=[])
    link.close()


def test_a_server_that_nobody_vouches_for_is_told_no_token_and_the_remedy_is_named(
    judge: Judge,
) -> None:
    link = ServerLink(judge.url, judge.runner.token)
    with pytest.raises(ServerUnreachableError, match="--ca-file"):
        link.hello(HELLO)
    link.close()


def test_an_unknown_token_is_a_refusal(judge: Judge, certificate: Path) -> None:
    link = ServerLink(judge.url, "kj_unknown", ca_file=certificate)
    answer = link.hello(HELLO)
    assert isinstance(answer, Refusal)
    assert answer.code == "token_unknown"
    link.close()


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(SettingsError, match="--ca-file"):
        ServerLink("https://judge.example.org", "token", ca_file=tmp_path / "ca.pem")


@pytest.mark.parametrize(
    "server", ["https://judge.example.org/", "http://127.0.0.1:8000", "http://localhost:1"]
)
def test_https_and_this_machine_need_no_leave(server: str) -> None:
    assert checked_server(server) == server.rstrip("/")


def test_plain_http_to_another_machine_needs_leave_and_says_why() -> None:
    with pytest.raises(SettingsError, match="reads the runner's token"):
        checked_server("http://10.0.0.7:8000")
    assert checked_server("http://10.0.0.7:8000", insecure=True) == "http://10.0.0.7:8000"


def test_what_is_no_address_is_named() -> None:
    with pytest.raises(SettingsError, match="--server"):
        checked_server("judge.example.org")
