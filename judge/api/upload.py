"""What a submission's form must hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fastapi import Request

from judge.api.answers import insist
from judge.api.errors import refuse
from judge.api.multipart import Part, parse_form
from judge.archive import MAX_FILES
from judge.intake import HandedIn
from judge.text import plain

FIELDS: Final = ("problem", "device", "mode")
FILES: Final = "files"
MAX_FIELD_BYTES: Final = 1_024

FORM_SCHEMA: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [*FIELDS, FILES],
                    "additionalProperties": False,
                    "properties": {
                        **{name: {"type": "string"} for name in FIELDS},
                        FILES: {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Source files, or one zip of them.",
                        },
                    },
                }
            }
        },
    }
}
"""How the form is told in the OpenAPI document, which cannot see it."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a submission, all there but unchecked."""

    problem: str
    device: str
    mode: str
    uploads: tuple[tuple[str, bytes], ...]

    def handed_in(self, received_at: datetime) -> HandedIn:
        return HandedIn(self.problem, self.device, self.mode, self.uploads, received_at)

    @property
    def size_bytes(self) -> int:
        return sum(len(content) for _, content in self.uploads)


async def read_form(request: Request) -> Form:
    """The form of a submission. Raises a refusal that says what it lacks."""
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise refuse(
            "not_multipart",
            f"A submission is sent as multipart/form-data, not as {kind[:60] or 'a body without type'}: "
            'use `judge submit FILE`, or curl with -F problem=... -F "files=@FILE".',
            415,
        )
    # One file more than may be, so that the reason is given where all reasons about files are.
    most = len(FIELDS) + MAX_FILES + 1
    return form_of(insist(parse_form(content_type, await request.body(), most)))


def form_of(parts: Iterable[Part]) -> Form:
    """The fields and files of a submission. Raises a refusal for the first that does not fit."""
    fields: dict[str, str] = {}
    uploads: list[tuple[str, bytes]] = []
    for part in parts:
        name = part.name
        if name == FILES and part.filename:
            uploads.append((part.filename, part.content))
        elif name == FILES:
            raise refuse(
                "file_without_name",
                'The field "files" must be a file with a name; with curl: -F "files=@topk.py".',
            )
        elif name not in FIELDS:
            raise refuse(
                "field_unknown",
                f'There is no field "{plain(name[:40])}"; a submission has: {", ".join(FIELDS)}, files.',
            )
        elif name in fields:
            raise refuse("field_twice", f'The field "{name}" is there twice; send it once.')
        elif part.filename is not None or len(part.content) > MAX_FIELD_BYTES:
            raise refuse("field_not_short", f'The field "{name}" must be a short text, not a file.')
        else:
            fields[name] = part.text
    for name in FIELDS:
        if name not in fields:
            raise refuse(
                "field_missing",
                f'The field "{name}" is missing; a submission has: {", ".join(FIELDS)}, files.',
            )
    return Form(fields["problem"], fields["device"], fields["mode"], tuple(uploads))
