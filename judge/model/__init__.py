"""The nouns of the judge: immutable values that every part shares.

Nothing here reads a clock, a file or a random number. Times are aware UTC datetimes, durations are
integers in nanoseconds (`_ns`) unless the name says seconds (`_s`), sizes are integers in bytes.
"""

from judge.model.board import Entry, RankedEntry
from judge.model.comparison import Block, CaseTimes, Claim, Comparison, Pair, Ruling
from judge.model.contest import Contest, Quota
from judge.model.outcome import CaseResult, Difference, Measurement, Outcome, Report
from judge.model.problem import Baseline, Case, Limits, Problem, SecretCases, Tolerance, Value
from judge.model.refusal import Refusal
from judge.model.submission import Job, Progress, SourceFile, Submission
from judge.model.words import JobState, Mode, Role, RunnerState, Stage, Verdict

__all__ = [
    "Baseline",
    "Block",
    "Case",
    "CaseResult",
    "CaseTimes",
    "Claim",
    "Comparison",
    "Contest",
    "Difference",
    "Entry",
    "Job",
    "JobState",
    "Limits",
    "Measurement",
    "Mode",
    "Outcome",
    "Pair",
    "Problem",
    "Progress",
    "Quota",
    "RankedEntry",
    "Refusal",
    "Report",
    "Role",
    "Ruling",
    "RunnerState",
    "SecretCases",
    "SourceFile",
    "Stage",
    "Submission",
    "Tolerance",
    "Value",
    "Verdict",
]
