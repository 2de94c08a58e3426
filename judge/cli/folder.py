"""Files of a contestant's disk: read for handing in, written by `judge init`.

The folder that `judge init` makes remembers in `.judge.json` which problem and version it is for.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from pathlib import Path

from judge.cli.talk import WrongUse
from judge.model import SourceFile
from judge.text import plain
from judge.wire import ProblemBody

NOTE = ".judge.json"
MAX_READ_BYTES = 64 << 20
"""Far above any limit of the judge, which decides; it keeps a wrong path from eating the memory."""


@dataclass(frozen=True, slots=True)
class Note:
    """Which problem a folder was made for. not_ours: files of the judge, not to be handed in."""

    problem: str
    version: int
    not_ours: tuple[str, ...] = ()


def read_submission(path: Path, note: Note | None = None) -> tuple[SourceFile, ...]:
    """A file or zip as it is, or every file of a folder but hidden ones, caches and statements.

    Raises WrongUse where there is nothing to hand in.
    """
    if not path.exists():
        raise WrongUse(f"{path} does not exist.")
    if not path.is_dir():
        return (SourceFile(path.name, _read(path)),)
    found = []
    left = MAX_READ_BYTES
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if any(part.startswith(".") or part == "__pycache__" for part in inside.parts):
            continue
        if note is not None and inside.as_posix() in note.not_ours:
            continue
        if file.is_dir() and not file.is_symlink():
            continue
        content = _read(file, left)
        left -= len(content)
        found.append(SourceFile(inside.as_posix(), content))
    if not found:
        raise WrongUse(f"{path} holds no file to hand in.")
    return tuple(found)


def _read(path: Path, limit: int = MAX_READ_BYTES) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise WrongUse(f"{path} is no regular file.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > limit:
        raise WrongUse(f"{path}: more than {MAX_READ_BYTES >> 20} MiB is surely no submission.")
    return content


def note_for(path: Path) -> Note | None:
    """What the note beside a file, or in a folder, says; None where there is none."""
    note = (path if path.is_dir() else path.parent) / NOTE
    try:
        stored = json.loads(note.read_text())
        not_ours = tuple(str(name) for name in stored["not_ours"])
        return Note(str(stored["problem"]), int(stored["version"]), not_ours)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongUse(
            f"{note} cannot be used ({error}); remove it and give --problem ID."
        ) from error


def make_folder(folder: Path, problem: ProblemBody, files: dict[str, bytes]) -> None:
    """A fresh folder with the files and the note. Never overwrites: WrongUse if it exists."""
    for name in files:
        if "/" in name or "\\" in name or name.startswith(".") or name != plain(name):
            raise WrongUse(f"The judge named a file that is not written here: {plain(name)!r}.")
    try:
        folder.mkdir()
    except FileExistsError:
        raise WrongUse(
            f"{folder} exists already and is not touched; choose another name."
        ) from None
    except OSError as error:
        raise WrongUse(f"{folder} cannot be made: {error.strerror}.") from error
    note = {
        "problem": problem.id,
        "version": problem.version,
        "digest": problem.digest,
        "not_ours": [name for name in files if not name.endswith(tuple(problem.languages))],
    }
    for name, content in {**files, NOTE: json.dumps(note, indent=1).encode() + b"\n"}.items():
        (folder / name).write_bytes(content)
