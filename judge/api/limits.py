"""What a request may cost before anything of it is understood: size, and time to send it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge.api.errors import error_response
from judge.model import Refusal

MAX_BODY_BYTES: Final = 64 * 1024
BODY_TIMEOUT_S: Final = 60.0

# A client that is cut off while it sends sees a broken pipe instead of our sentence, so what is
# over the limit is read and dropped, up to this much.
MAX_DROPPED_BYTES: Final = 16 * 1024 * 1024


class TooLargeError(HTTPException):
    """The body grew over its limit while it was read."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, _too_large(limit).detail)


class TooSlowError(HTTPException):
    """The body did not arrive in time."""

    def __init__(self) -> None:
        super().__init__(
            408, f"The body did not arrive within {BODY_TIMEOUT_S:.0f} s. Send it again."
        )


class BodyLimits:
    """ASGI middleware that caps the size of bodies and the time they may take.

    limit_of: the most bytes for a path. An announced size is refused before the first byte is kept.
    """

    def __init__(self, app: ASGIApp, limit_of: Callable[[str], int]) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        limit = self._limit_of(scope["path"])
        body = _LimitedBody(receive, limit)
        if (announced := _announced(scope)) > limit:
            if announced <= limit + MAX_DROPPED_BYTES:
                with suppress(TooSlowError):
                    await body.drop_rest()
            await error_response(_too_large(limit), {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, body.receive, send)


class _LimitedBody:
    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._deadline = time.monotonic() + BODY_TIMEOUT_S
        self._seen = 0
        self._ended = False

    async def receive(self) -> Message:
        message = await self._next()
        if self._seen > self._limit:
            await self.drop_rest()
            raise TooLargeError(self._limit)
        return message

    async def drop_rest(self) -> None:
        """Read on without keeping anything, until the end or until it is too much."""
        while not self._ended and self._seen < self._limit + MAX_DROPPED_BYTES:
            await self._next()

    async def _next(self) -> Message:
        if self._ended:
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self._ended = True
            raise TooSlowError from None
        self._seen += len(message.get("body", b""))
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 19:
            return int(value)
    return 0


def _too_large(limit: int) -> Refusal:
    return Refusal(
        "body_too_large",
        f"The request is larger than the {limit // 1024:,} KiB that this address takes. Send less.",
        413,
    )
