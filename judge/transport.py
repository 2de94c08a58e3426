"""One judge over HTTP: requests with a token, bodies checked, and two errors whose text says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from judge.address import API, is_loopback, server_url
from judge.wire import Body, ErrorBody

CONNECT_S = 5.0
READ_S = 30.0

BodyT = TypeVar("BodyT", bound=Body)


class ServerUnreachable(Exception):  # noqa: N818
    """No usable answer came: the network, or a judge that is down. The text says what to do."""


class ApiRefusal(Exception):  # noqa: N818
    """The judge answered with an error: a sentence, a stable word for programs, the HTTP status."""

    def __init__(self, detail: str, code: str, status: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status


class Transport:
    """One judge, spoken to with one token (or none, for what everybody may see).

    Methods raise ApiRefusal when the judge says no and ServerUnreachable when it says nothing.
    """

    def __init__(self, server: str, token: str | None = None) -> None:
        self.server = server_url(server)
        self.token = token
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=self.server,
            headers=headers,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            # A proxy from the environment would be asked for 127.0.0.1 of its own machine.
            trust_env=not is_loopback(self.server),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _get(
        self, path: str, kind: type[BodyT], query: Mapping[str, str | int] | None = None
    ) -> BodyT:
        return self._read(self._request("GET", path, params=query), kind)

    def _get_list(
        self, path: str, kind: type[BodyT], query: Mapping[str, str | int] | None = None
    ) -> list[BodyT]:
        response = self._request("GET", path, params=query)
        try:
            return TypeAdapter(list[kind]).validate_json(response.content)  # type: ignore[valid-type]
        except ValidationError as error:
            raise self._stranger(response, error) from error

    def _post(self, path: str, body: Body, kind: type[BodyT]) -> BodyT:
        return self._read(self._request("POST", path, json=body.model_dump(mode="json")), kind)

    def _read(self, response: httpx.Response, kind: type[BodyT]) -> BodyT:
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise self._stranger(response, error) from error

    def _stranger(self, response: httpx.Response, error: ValidationError) -> ServerUnreachable:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole body"
        return ServerUnreachable(
            f"{response.url} answered with a body this client does not know (at {where}). "
            "Is the address right, and are client and judge of the same version?"
        )

    def _request(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            response = self._http.request(method, API + path, **parts)
        except httpx.ConnectError as error:
            raise ServerUnreachable(
                f"Cannot reach the judge at {self.server} ({error}). "
                "Is the address right and the judge running?"
            ) from error
        except httpx.TimeoutException as error:
            raise ServerUnreachable(
                f"The judge at {self.server} did not answer in time."
            ) from error
        except httpx.HTTPError as error:
            raise ServerUnreachable(
                f"The connection to the judge at {self.server} broke ({error})."
            ) from error
        if response.is_success:
            return response
        try:
            body = ErrorBody.model_validate_json(response.content)
        except ValidationError:
            raise ServerUnreachable(
                f"{response.url} answered {response.status_code} and is not a judge's API. "
                "Is the address right?"
            ) from None
        raise ApiRefusal(body.detail, body.code, response.status_code)
