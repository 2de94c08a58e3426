"""What every body shares: no unknown fields, bounded text, strict values."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
)

Text = Annotated[str, StringConstraints(max_length=20_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, strip_whitespace=True)]
StrictValue = StrictBool | StrictInt | StrictFloat | StrictStr

MAX_LOG_CHARS = 256 * 1024


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorBody(Body):
    """The one shape of every error: what was wrong and what to do, and a stable word for programs."""

    detail: str
    code: str
