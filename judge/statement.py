"""The table of cases in a problem's statement, held against the cases that are declared.

Under the heading `## Cases` stands one Markdown table. Its first column is the case's name (in
backticks or not). A column that is headed by the name of a value must show that value, as TOML
writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judge.model import Case, Value
from judge.tables import shown

HEADING = "## Cases"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: its number in the file, and its cells without blanks and backticks."""

    line: int
    cells: tuple[str, ...]


def faults_of_statement(text: str, file: str, cases: Sequence[Case]) -> list[str]:
    """How the table differs from the public cases, each with line and remedy; empty if not at all."""
    rows = _rows(text)
    if not rows:
        remedy = f"add the heading `{HEADING}` and below it a table, first column the case's name"
        return [f"{file}: has no table of cases; {remedy}"]
    header, body = rows[0], rows[1:]
    by_name = {case.name: case for case in cases}
    faults: list[str] = []
    seen: set[str] = set()
    for row in body:
        name = row.cells[0]
        case = by_name.get(name)
        if case is None:
            fault = f'lists "{name}", which is no public case'
            faults.append(f"{file}:{row.line}: {fault}; remove the row, or declare the case")
        elif name in seen:
            faults.append(f'{file}:{row.line}: lists "{name}" twice; remove one row')
        else:
            faults += _faults_of_row(f"{file}:{row.line}", header, row, case)
        seen.add(name)
    for name in by_name:
        if name not in seen:
            fault = f'does not list the public case "{name}"'
            faults.append(f"{file}:{header.line}: the table {fault}; add a row for it")
    return faults


def _faults_of_row(place: str, header: Row, row: Row, case: Case) -> list[str]:
    return [
        f'{place}: shows "{cell}" for "{name}" of "{case.name}", which is '
        f"{_written(case.values[name])}; write that"
        for name, cell in zip(header.cells[1:], row.cells[1:], strict=False)
        if name in case.values and cell != _written(case.values[name])
    ]


def _written(value: Value) -> str:
    return value if isinstance(value, str) else shown(value)


def _rows(text: str) -> list[Row]:
    """Header and body rows of the first table under the heading; the line of dashes is left out."""
    rows: list[Row] = []
    below = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("## "):
            below = stripped == HEADING
        elif below and stripped.startswith("|"):
            cells = tuple(cell.strip().strip("`") for cell in stripped.strip("|").split("|"))
            if not all(cell and set(cell) <= set(":-") for cell in cells):
                rows.append(Row(number, cells))
        elif rows:
            break
    return rows
