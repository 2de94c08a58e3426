"""Bodies about ranked runs: the claim, and the box pairs behind it."""

from __future__ import annotations

from dataclasses import asdict

from judge.model import Block, Claim, Verdict
from judge.text import speedup
from judge.wire.base import Body


class SpeedupBody(Body):
    """A speedup with everything it depends on: see `judge.model.Claim`.

    `speedup`, `low` and `high` are how many times as fast as the baseline. `axis` says what was timed
    and how cases were averaged, `workload` which cases.
    """

    speedup: float
    low: float
    high: float
    confidence: float
    baseline: str
    workload: str
    axis: str
    device: str
    pairs: int
    at_least: bool

    @classmethod
    def of(cls, claim: Claim) -> SpeedupBody:
        return cls(**asdict(claim))

    @property
    def sentence(self) -> str:
        """The claim in one line, such as `15.62x as fast as plain torch (99 % interval ...)`."""
        least = "at least " if self.at_least else ""
        return (
            f"{least}{speedup(self.speedup)} as fast as {self.baseline} "
            f"({100 * self.confidence:g} % interval {speedup(self.low, '')} - "
            f"{speedup(self.high, '')}), {self.pairs} box pairs, {self.device}"
        )


class PairValueBody(Body):
    """One box pair. `speedup`: baseline over candidate, geometric mean over the cases; outside the
    candidate's block the baseline against its copy, so that 1 is right; to 0.01 %. None: a time was no time.
    """

    block: Block
    series: int
    speedup: float | None


class ArmsBody(Body):
    """One case in both arms of a run: net medians, and raw samples over all pairs in their order.

    At most 200 samples an arm, evenly chosen; the outcome's comparison has them all. `speedup` is that
    of calls made next to each other, as in the claim, so the medians' ratio may differ a little.
    """

    case: str
    chain: int
    baseline_median_ns: float
    candidate_median_ns: float
    speedup: float
    baseline_ns: list[int]
    candidate_ns: list[int]


class RunBody(Body):
    """One run of a ranked job.

    published: it is the one that counts; a first run that was confirmed does not. void: why it says
    nothing, or empty. findings: what an organizer must look at. cases: empty where the viewer may not
    see raw times.
    """

    attempt: int
    verdict: Verdict
    published: bool
    claim: SpeedupBody | None
    void: str
    findings: list[str]
    pairs: list[PairValueBody]
    cases: list[ArmsBody]


class RankedBody(Body):
    """What a ranked job came to. claim: of the published run; None unless it was accepted.

    runs: every one that handed in times, in their order; left out of lists.
    """

    claim: SpeedupBody | None
    runs: list[RunBody]
