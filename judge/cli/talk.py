"""How the command line speaks: the answer on stdout, the talk on stderr, one exit code.

Consoles are made per call, so that they follow the streams and the size of the moment, and never
read markup: names, messages and logs come from strangers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judge.model import Verdict
from judge.text import plain
from judge.transport import ApiRefusal, ServerUnreachable
from judge.wire import Body, SubmissionBody

PLAIN_WIDTH = 400  # no terminal: a line is as long as it is


class Exit(IntEnum):
    """What the process ends with."""

    ACCEPTED = 0
    NOT_ACCEPTED = 1
    WRONG_USE = 2
    JUDGE_FAILED = 3
    INTERRUPTED = 130


class WrongUse(Exception):  # noqa: N818
    """The command line, or a file it names, cannot be used as asked; the text says what to do."""


def exit_of_error(error: ApiRefusal | ServerUnreachable | WrongUse) -> Exit:
    """A refusal is the asker's to mend; everything above 499, or silence, is the judge's."""
    if isinstance(error, WrongUse):
        return Exit.WRONG_USE
    if isinstance(error, ApiRefusal) and error.status < 500:
        return Exit.WRONG_USE
    return Exit.JUDGE_FAILED


def exit_of(body: SubmissionBody) -> Exit:
    """The exit code of a submission as it stands; one that is not final yet counts as fine."""
    if body.verdict is Verdict.JUDGE_ERROR:
        return Exit.JUDGE_FAILED
    if body.verdict is None:
        return Exit.NOT_ACCEPTED if body.state == "cancelled" else Exit.ACCEPTED
    return Exit.ACCEPTED if body.verdict is Verdict.ACCEPTED else Exit.NOT_ACCEPTED


def console(to_stderr: bool = False) -> Console:
    stream = sys.stderr if to_stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def say(text: str, style: str = "") -> None:
    """A line of talk, on stderr."""
    console(to_stderr=True).print(Text(plain(text), style=style), soft_wrap=True)


def answer(text: str, style: str = "") -> None:
    """A line of the answer, on stdout."""
    console().print(Text(plain(text), style=style), soft_wrap=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], right: str = "") -> Table:
    """A table whose cells are plain text. right: names of the right-aligned columns, by comma."""
    to_right = set(right.split(",")) if right else set()
    made = Table(
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in to_right else "left",
            overflow="fold",
            no_wrap=name in to_right,
        )
    for row in rows:
        made.add_row(*(c if isinstance(c, Text) else Text(plain(c)) for c in row))
    return made


def show(made: Table) -> None:
    """A table of the answer; without trailing blanks where no terminal draws it."""
    out = console()
    if out.is_terminal:
        out.print(made)
        return
    with out.capture() as capture:
        out.print(made)
    for line in capture.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def json_of(body: Body | Sequence[Body] | dict[str, Any]) -> str:
    """The API's body as one line of JSON."""
    return to_json(body).decode()


def print_json(body: Body | Sequence[Body] | dict[str, Any]) -> None:
    sys.stdout.write(json_of(body) + "\n")


def print_bytes(content: bytes) -> None:
    """File content: byte-exact into a pipe or file, made safe on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(plain(content.decode(errors="replace"), limit=len(content) + 1))
        sys.stdout.write("\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def new_file(path: Path, content: bytes) -> None:
    """Write a file the user named; WrongUse if it exists already."""
    try:
        with path.open("xb") as handle:
            handle.write(content)
    except FileExistsError:
        raise WrongUse(f"{path} exists already and is not overwritten.") from None
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}.") from error
