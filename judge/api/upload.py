"""A submission's multipart form, read by hand: faster than declared fields, and with sentences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fastapi import Request
from starlette.datastructures import UploadFile

from judge.api.errors import refuse
from judge.archive import MAX_FILES
from judge.intake import HandedIn

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
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise refuse(
            "not_multipart",
            f"A submission is sent as multipart/form-data, not as {kind[:60] or 'a body without type'}: "
            'use `judge submit FILE`, or curl with -F problem=... -F "files=@FILE".',
            415,
        )
    fields: dict[str, str] = {}
    uploads: list[tuple[str, bytes]] = []
    async with request.form(
        max_files=MAX_FILES + 1, max_fields=len(FIELDS) + 1, max_part_size=MAX_FIELD_BYTES
    ) as form:
        for name, value in form.multi_items():
            if name == FILES and isinstance(value, UploadFile):
                uploads.append((value.filename or "", await value.read()))
            elif name == FILES:
                raise refuse(
                    "file_without_name",
                    'The field "files" must be a file with a name; with curl: -F "files=@topk.py".',
                )
            elif name not in FIELDS:
                raise refuse(
                    "field_unknown",
                    f'There is no field "{name[:40]}"; a submission has: {", ".join(FIELDS)}, files.',
                )
            elif name in fields:
                raise refuse("field_twice", f'The field "{name}" is there twice; send it once.')
            elif isinstance(value, UploadFile):
                raise refuse("field_is_file", f'The field "{name}" must be a text, not a file.')
            else:
                fields[name] = value
    for name in FIELDS:
        if name not in fields:
            raise refuse(
                "field_missing",
                f'The field "{name}" is missing; a submission has: {", ".join(FIELDS)}, files.',
            )
    return Form(fields["problem"], fields["device"], fields["mode"], tuple(uploads))
