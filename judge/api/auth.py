"""Who asks: Bearer tokens to identities, and the roles that routes demand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from judge.api.errors import RefusedError, refuse
from judge.model import Refusal, Role
from judge.ports import Identity, Store
from judge.tokens import PREFIX, token_hash

# Longer headers are no tokens of ours, whatever they hold.
LONGEST_TOKEN = 128

Id = Annotated[int, Path(ge=1, le=2**63 - 1)]
"""A number in an address: what both databases can hold."""

_bearer = HTTPBearer(auto_error=False, description=f"A token of this judge, `{PREFIX}...`.")


class Guard:
    """Finds the identity behind a request. Its methods are FastAPI dependencies."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def identity_of(self, request: Request) -> Identity:
        """Whom the request's token speaks for. Raises a 401 refusal without a valid one."""
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

    async def anyone(
        self,
        request: Request,
        _scheme: HTTPAuthorizationCredentials | None = Depends(_bearer),
    ) -> Identity:
        """Anybody with a token."""
        return self.identity_of(request)

    async def maybe(
        self,
        request: Request,
        _scheme: HTTPAuthorizationCredentials | None = Depends(_bearer),
    ) -> Identity | None:
        """Anybody; a token that is sent must be valid."""
        return self.identity_of(request) if "authorization" in request.headers else None

    def role(self, *roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
        """A dependency that lets only these roles pass, and says which it wants."""

        async def demand(identity: Identity = Depends(self.anyone)) -> Identity:
            if identity.role not in roles:
                raise RefusedError(self.wrong_role(identity, *roles))
            return identity

        return demand

    @staticmethod
    def wrong_role(identity: Identity, *roles: Role) -> Refusal:
        """Why a token of another role is not enough."""
        wanted = " or ".join(role.value for role in roles)
        detail = f"This needs a token of role {wanted}; yours is of role {identity.role.value}."
        return Refusal("role_forbidden", detail, 403)
