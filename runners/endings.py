"""One table: how a box, a call or a job ended, and the verdict and sentence that follow."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum, auto

from judge.model import Report, Verdict
from judge.text import plain
from runners.ports import BoxEnd

MAX_DETAIL_CHARS = 12_000


class Ending(StrEnum):
    """Every way in which a submission can fail."""

    WRONG = auto()
    BAD_RETURN = auto()
    EARLY_DONE = auto()
    LATE_WRITE = auto()
    OUT_OF_BOUNDS = auto()
    EXCEPTION = auto()
    SYNTAX = auto()
    NO_KERNEL = auto()
    BUILD = auto()
    UNBUILT = auto()
    PROTOCOL = auto()
    SECCOMP = auto()
    EXITED = auto()
    CRASHED = auto()
    KILLED = auto()
    MEMORY = auto()
    SETUP_MEMORY = auto()
    PROCESSES = auto()
    OUTPUT = auto()
    BUILD_TIME = auto()
    BUILD_MEMORY = auto()
    BUILD_OUTPUT = auto()
    LOAD_TIME = auto()
    CALL_TIME = auto()
    JOB_TIME = auto()
    DIED = auto()
    """The box is gone; its BoxEnd says how. `settle` turns it into one of the others."""


@dataclass(frozen=True, slots=True)
class Rule:
    """verdict, and a sentence for the author in which `{detail}` stands for what was seen."""

    verdict: Verdict
    sentence: str


TABLE: dict[Ending, Rule] = {
    Ending.WRONG: Rule(Verdict.WRONG_ANSWER, "{detail}"),
    Ending.BAD_RETURN: Rule(Verdict.WRONG_ANSWER, "{detail}"),
    Ending.EARLY_DONE: Rule(
        Verdict.WRONG_ANSWER,
        "The output still changed after custom_kernel had returned: all work must be complete by"
        " then, so wait for every thread you start.",
    ),
    Ending.LATE_WRITE: Rule(
        Verdict.WRONG_ANSWER,
        "Something wrote to the output after custom_kernel had returned: all work must be complete"
        " by then, so wait for every thread you start.",
    ),
    Ending.OUT_OF_BOUNDS: Rule(
        Verdict.RUNTIME_ERROR,
        "Memory next to an output tensor was overwritten: the kernel writes out of bounds.",
    ),
    Ending.EXCEPTION: Rule(Verdict.RUNTIME_ERROR, "{detail}"),
    Ending.SYNTAX: Rule(Verdict.COMPILE_ERROR, "{detail}"),
    Ending.NO_KERNEL: Rule(Verdict.COMPILE_ERROR, "{detail}"),
    Ending.BUILD: Rule(Verdict.COMPILE_ERROR, "{detail}"),
    Ending.UNBUILT: Rule(
        Verdict.RUNTIME_ERROR,
        "The submission asked for an extension that it had not asked for in the build stage"
        " ({detail}): name and number of extensions must be the same in every run.",
    ),
    Ending.PROTOCOL: Rule(
        Verdict.FORBIDDEN,
        "The submission interfered with the judge's own channel ({detail}).",
    ),
    Ending.SECCOMP: Rule(
        Verdict.FORBIDDEN,
        "The submission made a system call that is not allowed while it is judged, such as starting"
        " a program, and was killed (SIGSYS).",
    ),
    Ending.EXITED: Rule(
        Verdict.RUNTIME_ERROR,
        "The submission ended its own process ({detail}): return from custom_kernel instead.",
    ),
    Ending.CRASHED: Rule(
        Verdict.RUNTIME_ERROR,
        "The submission crashed ({detail}): look for memory access out of bounds; input tensors are"
        " read-only.",
    ),
    Ending.KILLED: Rule(
        Verdict.RUNTIME_ERROR,
        "The submission's process was killed ({detail}), not by the judge: by its own hand, or for"
        " want of memory on the machine.",
    ),
    Ending.MEMORY: Rule(Verdict.MEMORY_LIMIT, "The submission used more memory than its limit."),
    Ending.SETUP_MEMORY: Rule(
        Verdict.MEMORY_LIMIT,
        "setup keeps too much memory ({detail}): what it keeps may be 1.25 times the size of the"
        " constants and 64 MiB more.",
    ),
    Ending.PROCESSES: Rule(
        Verdict.RUNTIME_ERROR,
        "The submission reached the limit of processes and threads: start fewer.",
    ),
    Ending.OUTPUT: Rule(
        Verdict.OUTPUT_LIMIT,
        "The submission printed more than its limit: remove the prints from the kernel.",
    ),
    Ending.BUILD_TIME: Rule(
        Verdict.COMPILE_ERROR, "Building took longer than its limit of {detail}."
    ),
    Ending.BUILD_MEMORY: Rule(
        Verdict.COMPILE_ERROR, "Building used more memory than its limit of {detail}."
    ),
    Ending.BUILD_OUTPUT: Rule(
        Verdict.COMPILE_ERROR, "Building left or printed more than its limit of {detail}."
    ),
    Ending.LOAD_TIME: Rule(
        Verdict.TIME_LIMIT,
        "Loading the submission, or its setup, took longer than the limit of {detail}.",
    ),
    Ending.CALL_TIME: Rule(
        Verdict.TIME_LIMIT, "A call of custom_kernel took longer than the limit of {detail}."
    ),
    Ending.JOB_TIME: Rule(
        Verdict.TIME_LIMIT, "The job as a whole took longer than the limit of {detail}."
    ),
    Ending.DIED: Rule(Verdict.RUNTIME_ERROR, "The submission's process ended ({detail})."),
}

CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
)

STRUGGLES = frozenset({Ending.EXCEPTION, Ending.DIED, Ending.LOAD_TIME, Ending.CALL_TIME})
"""What a program does that can start no more threads; the counter then tells the cause."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a submission failed. A value: the author's fault.

    detail: untrusted or derived text, bounded. call: index of the call in its case, if in one.
    report: what the problem's checker said, if it was asked.
    """

    ending: Ending
    detail: str = ""
    call: int | None = None
    report: Report | None = None

    @property
    def verdict(self) -> Verdict:
        return TABLE[self.ending].verdict

    @property
    def message(self) -> str:
        """The sentence for the author, made safe to show."""
        detail = plain(self.detail, MAX_DETAIL_CHARS).strip() or "no more is known"
        return TABLE[self.ending].sentence.replace("{detail}", detail)


def settle(failure: Failure, end: BoxEnd) -> Failure:
    """What really happened, once it is known how the box ended.

    A limit that was hit explains every symptom that was seen first, such as a call that never
    came back; otherwise a box that died is explained by its signal or exit status.
    """
    ending, detail = failure.ending, failure.detail
    if end.out_of_memory:
        ending, detail = Ending.MEMORY, ""
    elif end.output_exceeded:
        ending, detail = Ending.OUTPUT, ""
    elif end.out_of_processes and ending in STRUGGLES:
        ending, detail = Ending.PROCESSES, ""
    elif ending is Ending.DIED:
        ending, detail = _death(end)
    return Failure(ending, detail, failure.call, failure.report)


def _death(end: BoxEnd) -> tuple[Ending, str]:
    if end.killed_by_us:
        return Ending.PROTOCOL, "the channel was closed"
    if end.signal is None:
        return Ending.EXITED, f"exit status {end.exit_code}"
    name = signal_name(end.signal)
    if end.signal == signal.SIGSYS:
        return Ending.SECCOMP, name
    return (Ending.CRASHED if end.signal in CRASHES else Ending.KILLED), name


def signal_name(number: int) -> str:
    """Such as `SIGSEGV`; `signal 64` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
