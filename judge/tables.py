"""TOML files read key by key: every fault is found, with its place and its remedy.

A `Table` collects faults instead of raising at the first, so that whoever wrote the file is told
all of them at once. Its readers return a stand-in after a fault; nobody may use one: call
`Table.settle` first.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from judge.model import Value


class DeclarationError(Exception):
    """What an organizer wrote (contest or problem folder) cannot be used. One line per fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(slots=True)
class Table:
    """One table of a TOML file, with what is left to read of it.

    place: how messages call it, such as `[quotas] test`; empty for the top of the file.
    lines: where each key of the file stands, by its path. faults: shared by all tables of the file.
    """

    file: str
    place: str
    values: dict[str, Any]
    path: tuple[str, ...]
    lines: dict[tuple[str, ...], int]
    faults: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def fault(self, key: str, what: str, remedy: str) -> None:
        """Note a fault of a key: `what` follows its name, `remedy` is an order."""
        self.note(f'"{key}" {what}', remedy, key)

    def note(self, what: str, remedy: str, key: str = "") -> None:
        """Note a fault of the whole table, or of what stands at `key`."""
        line = self.lines.get((*self.path, key)) or self.lines.get(self.path)
        where = f"{self.file}: {self.place}: " if self.place else f"{self.file}: "
        at = f" (line {line})" if line else ""
        self.faults.append(f"{where}{what}{at}; {remedy}")

    def settle(self) -> None:
        """Raise what was found. Raises DeclarationError if there is any fault."""
        if self.faults:
            raise DeclarationError(self.faults)

    def has(self, key: str) -> bool:
        self.known.add(key)
        return key in self.values

    def text(self, key: str, example: str) -> str:
        """A required string that is not blank. example: as it would be written."""
        value = self._required(key, f'write {key} = "{example}"')
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip():
            self.fault(key, f"must be a text, got {shown(value)}", f'write {key} = "{example}"')
            return ""
        if "\0" in value:  # which PostgreSQL cannot keep
            self.fault(key, "holds the character NUL", "leave it out")
            return ""
        return value

    def whole(self, key: str, default: int | None = None, example: int = 1) -> int:
        """A whole number of at least 1; `default` if it may be left out."""
        value = self._given(key, default, f"write {key} = {example}")
        if value is None:
            return 1
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            what = f"must be a positive whole number, got {shown(value)}"
            self.fault(key, what, f"write {key} = {example}")
            return 1
        return value

    def positive(self, key: str, default: float | None = None, example: float = 1.0) -> float:
        """A finite number above 0; `default` if it may be left out."""
        value = self._given(key, default, f"write {key} = {example}")
        if value is None:
            return 1.0
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            what = f"must be a positive number, got {shown(value)}"
            self.fault(key, what, f"write {key} = {example}")
            return 1.0
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._given(key, default, "")
        if not isinstance(value, bool):
            self.fault(key, f"must be true or false, got {shown(value)}", f"write {key} = true")
            return default
        return value

    def texts(self, key: str, example: str) -> tuple[str, ...]:
        """A required list of different strings, at least one."""
        remedy = f'write {key} = ["{example}"]'
        value = self._required(key, remedy)
        if value is None:
            return ()
        if not isinstance(value, list) or not value:
            self.fault(key, f"must be a list of texts, got {shown(value)}", remedy)
            return ()
        for item in value:
            if not isinstance(item, str) or not item.strip():
                self.fault(key, f"must hold texts only, got {shown(item)}", remedy)
                return ()
        for item in sorted({item for item in value if value.count(item) > 1}):
            self.fault(key, f'names "{item}" twice', "remove one of them")
        return tuple(value)

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """One of the allowed words; `default` if it may be left out, else the first stands in."""
        words = list(allowed)
        remedy = f"write one of {', '.join(shown(word) for word in words)}"
        value = self._given(key, default, remedy)
        if value is None:
            return words[0]
        if value not in words:
            self.fault(key, f"must be one of the words it knows, got {shown(value)}", remedy)
            return words[0]
        return str(value)

    def moment(self, key: str, required: bool = True) -> datetime | None:
        """A date and time with its offset from UTC; None after a fault or where it is left out."""
        remedy = f"write {key} = 2026-03-01T09:00:00+01:00 or, in UTC, 2026-03-01T08:00:00Z"
        value = self._given(key, None, remedy, needed=required)
        if value is None:
            return None
        if not isinstance(value, datetime):
            what = f"must be a date and time without quotes, got {shown(value)}"
            self.fault(key, what, remedy)
            return None
        if value.tzinfo is None:
            what = f"has no offset from UTC, so nobody knows when it is, got {shown(value)}"
            self.fault(key, what, remedy)
            return None
        return value

    def scalars(self, key: str) -> dict[str, Value]:
        """A required table of plain values: whole numbers, finite numbers, true or false, texts."""
        remedy = f"write {key} = {{ rows = 4, cols = 7168 }}"
        value = self._required(key, remedy)
        if value is None:
            return {}
        if not isinstance(value, dict) or not value:
            self.fault(key, f"must be a table of values, got {shown(value)}", remedy)
            return {}
        for name, item in value.items():
            if not is_scalar(item):
                what = f'must hold plain values, got {shown(item)} for "{name}"'
                self.fault(key, what, "write a finite number, true, false or a text")
        return {name: item for name, item in value.items() if is_scalar(item)}

    def choices(self, key: str) -> dict[str, tuple[Value, ...]]:
        """A required table of lists of plain values of one type each, without repeats."""
        remedy = f"write {key} = {{ rows = [3, 17, 65], cols = [7168] }}"
        value = self._required(key, remedy)
        if value is None:
            return {}
        if not isinstance(value, dict) or not value:
            self.fault(key, f"must be a table of lists, got {shown(value)}", remedy)
            return {}
        found: dict[str, tuple[Value, ...]] = {}
        for name, items in value.items():
            if not isinstance(items, list) or not items or not all(map(is_scalar, items)):
                what = f'must hold lists of plain values, got {shown(items)} for "{name}"'
                self.fault(key, what, remedy)
            elif len(set(items)) < len(items):
                self.fault(key, f'names a value of "{name}" twice', "remove one of them")
            else:
                found[name] = tuple(items)
        return found

    def table(self, key: str) -> Table:
        """A table inside this one; empty if it is not there."""
        value = self.values.get(key, {})
        self.known.add(key)
        if not isinstance(value, dict):
            self.fault(key, f"must be a table, got {shown(value)}", f"write [{key}] above its keys")
            value = {}
        place = f"{self.place} {key}" if self.place else f"[{key}]"
        return self._inner(value, place, (*self.path, key))

    def tables(self, key: str) -> tuple[Table, ...]:
        """The tables written under [[key]], in order."""
        value = self.values.get(key, [])
        self.known.add(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fault(key, f"must be a list of tables, got {shown(value)}", f"write [[{key}]]")
            return ()
        return tuple(
            self._inner(item, f"[[{key}]] {number}", (*self.path, key, str(number)))
            for number, item in enumerate(value, start=1)
        )

    def refuse_unknown(self) -> None:
        """Fault every key that no reader asked for: a misspelt key must not pass as its default."""
        for key in self.values:
            if key not in self.known:
                near = difflib.get_close_matches(key, self.known, n=1)
                meant = f'did you mean "{near[0]}"?' if near else self._known_keys()
                self.fault(key, "is no key that is known here", meant)

    def _known_keys(self) -> str:
        return f"remove it; known are {', '.join(sorted(self.known))}"

    def _inner(self, values: dict[str, Any], place: str, path: tuple[str, ...]) -> Table:
        return Table(self.file, place, values, path, self.lines, self.faults)

    def _required(self, key: str, remedy: str) -> Any:
        return self._given(key, None, remedy)

    def _given(self, key: str, default: Any, remedy: str, needed: bool = True) -> Any:
        """The value, its default, or None after noting that it is missing."""
        self.known.add(key)
        value = self.values.get(key, default)
        if value is None and needed:
            self.fault(key, "is missing", remedy)
        return value


def read_table(text: str, file: str) -> Table:
    """The top table of a TOML file. file: how messages call it.

    Raises DeclarationError if the text is not TOML.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError([f"{file}: is not TOML: {error}; mend that line"]) from error
    return Table(file, "", values, (), _lines_of_keys(text))


def is_scalar(value: object) -> bool:
    """Whether a value may stand in a case: a finite number, a truth value or a text."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int | str)


def shown(value: object) -> str:
    """A value as it is written in TOML, short enough for a message."""
    if isinstance(value, date):
        return value.isoformat()
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


_HEADER = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-]+)\s*=")


def _lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """The line of each header and key, by path; a table of a list has its number in the path.

    For messages only: quoted keys, and text in long strings that looks like a key, are not told
    apart.
    """
    lines: dict[tuple[str, ...], int] = {}
    counts: dict[str, int] = {}
    path: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            path = tuple(header[2].split("."))
            if header[1] == "[[":
                counts[header[2]] = counts.get(header[2], 0) + 1
                path = (*path, str(counts[header[2]]))
            lines.setdefault(path, number)
        elif key := _KEY.match(line):
            lines.setdefault((*path, key[1]), number)
    return lines
