"""Who asks: Bearer tokens to identities, and the roles that routes demand."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from fastapi.openapi.models import HTTPBearer as BearerScheme
from fastapi.security.base import SecurityBase

from judge.api.errors import RefusedError, refuse
from judge.model import Refusal, Role
from judge.ports import Store
from judge.records import Identity
from judge.tokens import PREFIX, token_hash

# Longer headers are no tokens of ours, whatever they hold.
LONGEST_TOKEN = 128

Id = Annotated[int, Path(ge=1, le=2**63 - 1)]
"""A number in an address: what both databases can hold."""


class Demand(SecurityBase):
    """A FastAPI dependency: the identity behind a request, of one of these roles.

    One object, not a chain of dependencies, since every request pays for it.
    """

    def __init__(self, guard: Guard, roles: tuple[Role, ...]) -> None:
        self.model = BearerScheme(description=f"A token of this judge, `{PREFIX}...`.")
        self.scheme_name = "token"
        self._guard = guard
        self._roles = roles

    async def __call__(self, request: Request) -> Identity:
        return self._guard.demand(request, self._roles)


class Guard:
    """Finds the identity behind a request. Its attributes are FastAPI dependencies."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.anyone = Demand(self, tuple(Role))
        self.contestant = Demand(self, (Role.CONTESTANT,))
        self.organizer = Demand(self, (Role.ORGANIZER,))
        self.runner = Demand(self, (Role.RUNNER,))
        self.person = Demand(self, (Role.CONTESTANT, Role.ORGANIZER))

    async def maybe(self, request: Request) -> Identity | None:
        """Anybody; a token that is sent must be valid. A dependency as well."""
        return self._identity_of(request) if "authorization" in request.headers else None

    def demand(self, request: Request, roles: tuple[Role, ...]) -> Identity:
        """Whom the request speaks for. Raises a refusal: 401 without a valid token, 403 by role."""
        identity = self._identity_of(request)
        if identity.role not in roles:
            wanted = " or ".join(role.value for role in roles)
            detail = f"This needs a token of role {wanted}; yours is of role {identity.role.value}."
            raise RefusedError(Refusal("role_forbidden", detail, 403))
        return identity

    def _identity_of(self, request: Request) -> Identity:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token:
            raise refuse(
                "token_missing",
                "This needs a token: send the header `Authorization: Bearer TOKEN`, "
                "or run `judge login`.",
                401,
            )
        found = None
        if scheme.lower() == "bearer" and len(token) <= LONGEST_TOKEN:
            found = self._store.identify(token_hash(token.strip()))
        if found is None:
            raise refuse(
                "token_unknown",
                "This token is not known here, or it was revoked. Run `judge login` with a valid one.",
                401,
            )
        return found
