"""What every body shares: no unknown fields, bounded text, strict values."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from judge.text import is_visible

Text = Annotated[str, StringConstraints(max_length=20_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]


def _visible(text: str) -> str:
    for char in text:
        if not is_visible(char):
            raise PydanticCustomError(
                "invisible",
                "it holds the character U+{code}, which cannot be seen or changes how others are "
                "seen; use letters, digits, spaces and signs",
                {"code": f"{ord(char):04X}"},
            )
    return text


Visible = AfterValidator(_visible)
Word = Annotated[str, StringConstraints(max_length=32), Visible]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=64, strip_whitespace=True), Visible
]
"""What people, teams, tokens and runners are called: one line in which nothing hides."""

StrictValue = StrictBool | StrictInt | StrictFloat | StrictStr

MAX_LOG_CHARS = 256 * 1024


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorBody(Body):
    """The one shape of every error: what was wrong and what to do, and a stable word for programs."""

    detail: str
    code: str
