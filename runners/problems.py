"""The problem folders that a runner judges by."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from judge.catalog import DECLARATION, ProblemFolder, load_problem
from judge.tables import DeclarationError

log = logging.getLogger(__name__)


def problem_folders(problems_dir: Path) -> Mapping[str, ProblemFolder]:
    """The folders below, by problem id. A faulty one is left out, and the log says why.

    Raises DeclarationError if there is none.
    """
    found: dict[str, ProblemFolder] = {}
    for declaration in sorted(problems_dir.glob(f"*/{DECLARATION}")):
        try:
            folder = load_problem(declaration.parent)
        except DeclarationError as error:
            log.error("problem left out folder=%s faults=%s", declaration.parent, error)
            continue
        found[folder.problem.id] = folder
    if not found:
        raise DeclarationError(
            [f"{problems_dir}: holds no problem that can be judged; give another with --problems"]
        )
    return found
