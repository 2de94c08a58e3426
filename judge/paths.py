"""Names of submitted files: each must mean one file, below one folder, on every system."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from judge.model import Refusal

MAX_DEPTH = 8
MAX_NAME_BYTES = 200

_DEVICE_NAMES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)


def fault_of_name(name: str) -> Refusal | None:
    """Why a relative path is not taken, or None if it is."""
    parts = name.split("/")
    remedy = "use plain relative names such as kernel.py or parts/tile.h"
    what = None
    if not name:
        what = "has no name"
    elif any(unicodedata.category(char)[0] == "C" for char in name):
        what = "has a control or invisible character in its name"
    elif "\\" in name:
        what, remedy = "has a backslash in its name", "separate folders with /"
    elif name.startswith("/") or name[1:2] == ":":
        what = "has an absolute path"
    elif any(part in ("", ".", "..") for part in parts):
        what = "has an empty, . or .. step in its path"
    elif len(parts) > MAX_DEPTH:
        what, remedy = f"lies over {MAX_DEPTH} folders deep", "use fewer folders"
    elif len(name.encode()) > MAX_NAME_BYTES:
        what, remedy = f"has a name of over {MAX_NAME_BYTES} bytes", "use a shorter one"
    elif any(part.split(".")[0].strip().casefold() in _DEVICE_NAMES for part in parts):
        what, remedy = "has a name that Windows keeps for a device", "rename it"
    elif any(part != part.strip() or part.startswith("-") or part.endswith(".") for part in parts):
        what, remedy = "has a step that starts with - or ends with a dot or blank", "rename it"
    elif not unicodedata.is_normalized("NFC", name):
        what, remedy = "has accents written as separate characters in its name", "use plain letters"
    if what is None:
        return None
    subject = f"The file {quoted(name)}" if name else "A file"
    return Refusal("bad_path", f"{subject} {what}: {remedy}.")


def name_clash(names: Sequence[str]) -> Refusal | None:
    """Two names that are one somewhere: doubles, case only, or a file that is also a folder."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name.casefold())
        other = seen.get(folded)
        if other is not None:
            how = (
                "is there twice" if other == name else f"differs from {quoted(other)} in case only"
            )
            return Refusal("name_clash", f"{quoted(name)} {how}: rename or remove one of them.")
        seen[folded] = name
    for folded, name in seen.items():
        steps = folded.split("/")
        for depth in range(1, len(steps)):
            other = seen.get("/".join(steps[:depth]))
            if other is not None:
                return Refusal(
                    "name_clash",
                    f"{quoted(other)} is a file and also the folder of {quoted(name)}: rename one of them.",
                )
    return None


def quoted(name: str) -> str:
    """A name from outside, safe to show: control characters replaced, and cut when long."""
    shown = "".join("?" if unicodedata.category(char)[0] == "C" else char for char in name)
    return f'"{shown if len(shown) <= 80 else shown[:77] + "..."}"'
