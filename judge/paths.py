"""Names of submitted files: each must mean one file, below one folder, on every system."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from judge.model import Refusal
from judge.text import is_visible

MAX_DEPTH = 8
MAX_NAME_BYTES = 200

_DEVICE_NAMES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"]
)


_PLAIN = "use plain relative names such as kernel.py or parts/tile.h"


def _steps(name: str) -> list[str]:
    return name.split("/")


# (whether a name has the fault, what is wrong with it, what to do); the first that holds is told.
_FAULTS: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (
        lambda name: not all(map(is_visible, name)),
        "has a control or invisible character in its name",
        _PLAIN,
    ),
    (lambda name: "\\" in name, "has a backslash in its name", "separate folders with /"),
    (lambda name: name.startswith("/") or name[1:2] == ":", "has an absolute path", _PLAIN),
    (
        lambda name: any(step in ("", ".", "..") for step in _steps(name)),
        "has an empty, . or .. step in its path",
        _PLAIN,
    ),
    (
        lambda name: len(_steps(name)) > MAX_DEPTH,
        f"lies over {MAX_DEPTH} folders deep",
        "use fewer folders",
    ),
    (
        lambda name: len(name.encode()) > MAX_NAME_BYTES,
        f"has a name of over {MAX_NAME_BYTES} bytes",
        "use a shorter one",
    ),
    (
        lambda name: any(
            step.split(".")[0].strip().casefold() in _DEVICE_NAMES for step in _steps(name)
        ),
        "has a name that Windows keeps for a device",
        "rename it",
    ),
    (
        lambda name: any(
            step != step.strip() or step.startswith("-") or step.endswith(".")
            for step in _steps(name)
        ),
        "has a step that starts with - or a blank, or ends with a dot or a blank",
        "rename it",
    ),
    (
        lambda name: not unicodedata.is_normalized("NFC", name),
        "has accents written as separate characters in its name",
        "use plain letters",
    ),
)


def fault_of_name(name: str) -> Refusal | None:
    """Why a relative path is not taken, or None if it is."""
    if not name:
        return Refusal("bad_path", "A file has no name: give it one, such as kernel.py.")
    for has_fault, what, remedy in _FAULTS:
        if has_fault(name):
            return Refusal("bad_path", f"The file {quoted(name)} {what}: {remedy}.")
    return None


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
    shown = "".join(char if is_visible(char) else "?" for char in name)
    return f'"{shown if len(shown) <= 80 else shown[:77] + "..."}"'
