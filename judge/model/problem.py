"""A problem as its folder declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judge.model.words import Stage

Value = int | float | bool | str
"""One typed value of a case, as written in `problem.toml`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input shape of a problem.

    name: unique in its problem, such as `t4096-e384`. values: typed, in the order of `problem.toml`.
    calls: checked calls made on it in its stage (test: each is compared; timing: each is also timed).
    chain: 1, or the fixed number K of calls timed as one chain.
    cold: evict the last-level cache before every call.
    """

    name: str
    stage: Stage
    values: Mapping[str, Value]
    secret: bool = False
    calls: int = 1
    chain: int = 1
    cold: bool = False


@dataclass(frozen=True, slots=True)
class SecretCases:
    """From what the secret cases of a stage are drawn, once, when a problem version opens.

    choices: for each value name the values it may take. count: how many cases are drawn. calls, chain:
    as in `Case`.
    """

    stage: Stage
    count: int
    calls: int
    choices: Mapping[str, tuple[Value, ...]]
    chain: int = 1


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A limit that the checker applies, and why it is what it is."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submission may use. Seconds are wall clock; each stage nests in `job_s`.

    ranked_s: the ceiling of a ranked run, all box pairs and the judge's own work included.
    """

    build_s: float = 120.0
    load_s: float = 30.0
    call_s: float = 10.0
    job_s: float = 300.0
    ranked_s: float = 300.0
    memory_bytes: int = 4 << 30
    output_bytes: int = 1 << 20
    tmp_bytes: int = 256 << 20
    processes: int = 256


@dataclass(frozen=True, slots=True)
class Baseline:
    """A shipped kernel that speedups are told against.

    file: path in the problem's folder, of one Python or native file. digest: that of a submission of
    this file alone (`judge.archive.digest_of_files`).
    """

    name: str
    file: str
    digest: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as its folder declares it. Immutable once open: a change is a new version.

    digest: SHA-256 (hex) over every file of the folder that the judge uses.
    languages: file endings a submission's main file may have, such as `.py` and `.cpp`.
    output_in_data: whether the judge's output tensors are the last elements of a kernel's `data`.
    baseline: what ranked runs are measured against, in plain Python; None where nothing is ranked.
    best: the fastest kernel that ships with the problem, for a second view of the same ranked runs.
    """

    id: str
    title: str
    version: int
    digest: str
    cases: tuple[Case, ...]
    secret_cases: tuple[SecretCases, ...]
    tolerances: Mapping[str, Tolerance]
    limits: Limits
    devices: tuple[str, ...]
    languages: tuple[str, ...]
    output_in_data: bool = False
    baseline: Baseline | None = None
    best: Baseline | None = None
