"""Promises of the server's socket to whoever sends more head than anybody needs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from judge.protocol import MAX_HEAD_BYTES, BoundedHeads
from tests.judge.api.conftest import until

MIB = b"a" * (1 << 20)
BEGIN = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


async def echo(scope, receive, send):
    """Answers with the length of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % length})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(echo, http=BoundedHeads, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started, 20)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


def first_line(port: int, *pieces: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            return client.recv(12)
        except ConnectionError:
            return b""


@pytest.mark.parametrize(
    "endless",
    [
        [b"GET /"],
        [b"GET / HTTP/1.1\r\nX: "],
        [BEGIN, b"\r\n1;"],
        [BEGIN, b"\r\n1\r\nx\r\n0\r\nX: "],
    ],
    ids=["address", "header", "chunk extension", "trailer"],
)
def test_what_has_no_end_is_cut_off(port: int, endless: list[bytes]) -> None:
    assert first_line(port, *endless, *[MIB] * 8) in (b"HTTP/1.1 400", b"")


def test_a_large_head_and_a_larger_body_pass(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nX: %b\r\n" % (b"a" * (MAX_HEAD_BYTES - 1_000))
    length = b"Content-Length: %d\r\n\r\n" % (4 * len(MIB))
    assert first_line(port, head, length, *[MIB] * 4) == b"HTTP/1.1 200"
    assert first_line(port, BEGIN, b"\r\n", b"100000\r\n", MIB, b"\r\n0\r\n\r\n") == b"HTTP/1.1 200"
