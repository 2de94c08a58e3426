"""What is handed in, and the job that judges it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from judge.model.problem import Case
from judge.model.words import Mode


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a submission, byte-exact. `name` is a relative path with `/`."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """Who handed in what, for which problem, and when the server received it.

    digest: SHA-256 (hex) of the files (see `judge.archive.digest_of_files`).
    main: name of the file that is loaded or compiled. sameness: digest (hex) of the source without
    comments and layout, by which ranked runs of one kernel are pooled; empty for other modes.
    """

    id: int
    team_id: int
    user_id: int
    problem_id: str
    problem_version: int
    main: str
    digest: str
    received_at: datetime
    sameness: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One submission to be judged on one device: all a runner needs beside the problem folder.

    key: 128 random bits, fresh for every attempt; every input of the job is drawn from it.
    cases: the public and secret cases of this mode, in the order they are reported.
    """

    id: int
    submission_id: int
    problem_id: str
    problem_digest: str
    device: str
    mode: Mode
    attempt: int
    key: bytes
    main: str
    files: tuple[SourceFile, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job is: stage word (`building`, `loading`, `test`, `timing`), steps of total."""

    stage: str
    done: int = 0
    total: int = 0
