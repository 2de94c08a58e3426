"""Many clients that hand in over kept-alive connections: bounded in count and time, on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

BOUNDARY = "kernel-judge-bench"


def submission_request(url: str, token: str, source: bytes) -> bytes:
    """A whole `POST /submissions`, as bytes, so that the client costs next to nothing."""
    parts = []
    for name, value in (("problem", "topk"), ("device", "cpu"), ("mode", "test")):
        parts.append(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        )
    parts.append(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="topk.py"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n".encode()
        + source
        + f"\r\n--{BOUNDARY}--\r\n".encode()
    )
    body = b"".join(parts)
    head = (
        f"POST /api/v1/submissions HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Client(threading.Thread):
    """One kept-alive connection that sends the same request again and again until the end."""

    def __init__(self, url: str, request: bytes, end: float) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._request = request
        self._end = end
        self.accepted_ms: list[float] = []
        self.refused: list[bytes] = []

    def run(self) -> None:
        with socket.create_connection(self._address, timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = connection.makefile("rb")
            while time.monotonic() < self._end and not self.refused:
                began = time.perf_counter()
                connection.sendall(self._request)
                status = answers.readline()
                length = 0
                while (line := answers.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = answers.read(length)
                if b" 202 " in status:
                    self.accepted_ms.append((time.perf_counter() - began) * 1e3)
                else:
                    self.refused.append(status + body)


def hand_in_for(url: str, requests: Sequence[bytes], seconds: float) -> tuple[list[float], float]:
    """Latencies in ms of every accepted submission, and the seconds that passed."""
    began = time.monotonic()
    clients = [Client(url, request, began + seconds) for request in requests]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    refused = [answer for client in clients for answer in client.refused]
    if refused:
        raise RuntimeError(f"the server refused: {refused[0][:500]!r}")
    return [ms for client in clients for ms in client.accepted_ms], time.monotonic() - began
