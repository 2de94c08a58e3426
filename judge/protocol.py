"""HTTP/1.1 whose heads have a size: uvicorn's own reader keeps whatever headers somebody sends."""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 64 * 1024
"""Far more than any browser or proxy sends. What arrives in one piece may exceed it by that piece."""


class BoundedHeads(HttpToolsProtocol):
    """Ends a connection that sends on and on without a head that ends or a body that grows.

    Trailers and chunk extensions are bounded with it; bodies are `judge.api.limits`' to bound.
    """

    _bytes_without_end = 0

    def data_received(self, data: bytes) -> None:
        self._bytes_without_end += len(data)
        super().data_received(data)
        if self._bytes_without_end > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers are larger than {MAX_HEAD_BYTES // 1024} KiB.")

    def on_headers_complete(self) -> None:
        self._bytes_without_end = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_end = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_without_end = 0
        super().on_message_complete()
