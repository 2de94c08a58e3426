"""Promises of the ranked board: nobody climbs by trying again, and noise ranks nobody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.comparing import claim, same_band
from judge.model import (
    Baseline,
    Claim,
    JobState,
    Limits,
    Mode,
    Outcome,
    Problem,
    RankedEntry,
    SecretCases,
    Stage,
    Submission,
    Verdict,
)
from judge.stats import Estimate
from leaderboard.ranked import (
    RunNumbers,
    held_with,
    holder,
    pooled,
    ranked_standings,
    run_numbers,
)
from tests.ranked_runs import Made, comparison, outcome

START = datetime(2026, 3, 1, tzinfo=UTC)
PROBLEM = Problem(
    id="topk",
    title="Top-K",
    version=2,
    digest="",
    cases=(),
    secret_cases=(SecretCases(Stage.TEST, 5, 1, {}), SecretCases(Stage.TIMING, 4, 9, {})),
    tolerances={},
    limits=Limits(),
    devices=("cpu",),
    languages=(".py",),
    baseline=Baseline("plain torch", "b.py", "base"),
    best=Baseline("native", "n.cpp", "best"),
)


@dataclass(frozen=True)
class Finished:
    """The part of a job's record that the board reads."""

    submission: Submission
    outcome: Outcome | None
    finished_at: datetime | None
    team: str
    device: str = "cpu"
    mode: Mode = Mode.RANKED
    state: JobState = JobState.DONE
    held: bool = False
    hold: str = ""


def run(number: int, team: int, made: Made | float = 2.0, **changes: Any) -> Finished:
    """A done ranked job, received `number` seconds after the start; a kernel of its own."""
    made = Made(speedup=made) if isinstance(made, float) else made
    digest = changes.pop("digest", f"d{number}")
    submission = Submission(
        id=number,
        team_id=team,
        user_id=team,
        problem_id="topk",
        problem_version=changes.pop("version", 2),
        main="k.py",
        digest=digest,
        received_at=START + timedelta(seconds=number),
        sameness=changes.pop("sameness", ""),
    )
    said = replace(
        outcome(number, replace(made, seed=number)),
        verdict=changes.pop("verdict", Verdict.ACCEPTED),
        isolation=changes.pop("isolation", "full"),
    )
    at = START + timedelta(seconds=changes.pop("seconds", number + 60))
    return replace(Finished(submission, said, at, f"team {team}"), **changes)


def board(jobs: Sequence[Finished], until: datetime | None = None) -> tuple[RankedEntry, ...]:
    return ranked_standings(jobs, PROBLEM, "cpu", until)


def ranks(jobs: Sequence[Finished]) -> dict[int, int | None]:
    return {entry.team_id: entry.rank for entry in board(jobs)}


def bands(jobs: Sequence[Finished]) -> dict[int, int | None]:
    return {entry.team_id: entry.band for entry in board(jobs)}


# --- bands and ranks


def test_two_copies_of_one_kernel_share_a_band_and_a_faster_kernel_has_a_better_one() -> None:
    jobs = [run(1, 1, 2.0), run(2, 2, 2.0), run(3, 3, 2.1)]
    assert bands(jobs) == {3: 1, 1: 2, 2: 2}
    assert ranks(jobs) == {3: 1, 1: 2, 2: 2}


def test_a_rank_counts_the_teams_of_better_bands() -> None:
    jobs = [run(1, 1, 3.0), run(2, 2, 3.0), run(3, 3, 3.0), run(4, 4, 2.0), run(5, 5, 1.0)]
    assert ranks(jobs) == {1: 1, 2: 1, 3: 1, 4: 4, 5: 5}


def test_within_a_band_the_order_is_that_of_receipt() -> None:
    jobs = [run(number, team, 2.0) for number, team in ((1, 9), (2, 3), (3, 7), (4, 1))]
    assert [entry.team_id for entry in board(jobs)] == [9, 3, 7, 1]


def test_a_team_keeps_the_receipt_of_its_first_kernel_in_the_band() -> None:
    jobs = [run(1, 1, 2.0), run(2, 2, 2.0), run(3, 1, 2.0), run(4, 3, 1.0), run(5, 3, 2.0)]
    shown = board(jobs)
    assert [entry.team_id for entry in shown] == [1, 2, 3]
    assert shown[0].submission_ids == (3,), "the latest stands all the same"
    assert shown[0].received_at == START + timedelta(seconds=1)
    assert shown[2].received_at == START + timedelta(seconds=5), "its first was not in this band"


def test_an_interval_wider_than_one_per_cent_is_shown_as_unstable_and_not_ranked() -> None:
    shown = board([run(1, 1, Made(9.0, spread=0.08)), run(2, 2, 2.0)])
    assert [(entry.team_id, entry.rank, entry.band) for entry in shown] == [
        (2, 1, 1),
        (1, None, None),
    ]
    assert shown[1].claim is not None
    assert "unstable" in shown[1].note


# --- pooling and standing


@pytest.mark.parametrize("same", [{"digest": "one"}, {"sameness": "one"}])
def test_runs_of_one_kernel_count_together_and_the_luckier_one_never_alone(same: Any) -> None:
    jobs = [run(1, 1, Made(2.00), **same), run(2, 1, Made(2.01), **same)]
    (entry,) = board(jobs)
    assert entry.submission_ids == (1, 2)
    assert entry.claim is not None
    assert entry.claim.pairs == 24
    each = [claim_of(job) for job in jobs]
    assert entry.claim.speedup == pytest.approx(math.sqrt(each[0].speedup * each[1].speedup))


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("apart", [0.0, 0.002, 0.004])
def test_one_kernel_of_two_teams_is_seldom_told_apart_however_much_its_runs_differ(
    runs: int, apart: float
) -> None:
    """apart: standard deviation between runs; the pairs' is 0.3 %. Pairs alone: 15 to 40 %."""
    random = Random(5)

    def kernel() -> Estimate:
        days = [random.gauss(0.0, apart) for _ in range(runs)]
        return pooled([[day + random.gauss(0.0, 0.003) for _ in range(12)] for day in days])

    told = sum(not same_band(kernel(), kernel()) for _ in range(300)) / 300
    assert told <= 0.09


def test_a_run_that_differs_from_another_of_its_kernel_widens_the_interval() -> None:
    alike = [[0.0, 0.001, 0.002, 0.001], [0.0, 0.001, 0.002, 0.001]]
    assert pooled(alike) == Estimate.of(alike[0] + alike[1])
    moved = pooled([alike[0], [value + 0.01 for value in alike[1]]])
    assert moved.mean == pytest.approx(0.006)
    assert moved.variance_of_mean == pytest.approx(0.005**2)


def test_kernels_without_a_sameness_are_not_taken_for_one() -> None:
    assert board([run(1, 1), run(2, 1)])[0].submission_ids == (2,)


def test_a_third_run_links_two_that_are_each_like_it() -> None:
    jobs = [run(1, 1, digest="a"), run(2, 1, digest="b", sameness="s")]
    assert board(jobs)[0].submission_ids == (2,)
    assert board([*jobs, run(3, 1, digest="a", sameness="s")])[0].submission_ids == (1, 2, 3)


def test_the_same_kernel_of_two_teams_is_two_entries() -> None:
    assert len(board([run(1, 1, digest="a"), run(2, 2, digest="a")])) == 2


def test_the_latest_kernel_stands_unless_it_is_wholly_slower() -> None:
    assert board([run(1, 1, 2.0), run(2, 1, 3.0)])[0].submission_ids == (2,)
    (kept,) = board([run(1, 1, 2.0), run(2, 1, 1.9)])
    assert kept.submission_ids == (1,)
    assert "2 is slower" in kept.note
    near = board([run(1, 1, 2.0), run(2, 1, 1.998)])
    assert near[0].submission_ids == (2,), "it cannot be told from the older one"


def test_an_unstable_kernel_does_not_displace_one_that_ranks() -> None:
    (entry,) = board([run(1, 1, 2.0), run(2, 1, Made(9.0, spread=0.08))])
    assert (entry.rank, entry.submission_ids) == (1, (1,))
    assert "2 is unstable" in entry.note


# --- holds


@pytest.mark.parametrize("same", [{"digest": "one"}, {"sameness": "one"}])
def test_a_held_run_holds_the_later_runs_of_its_kernel_and_lets_them_go_with_itself(
    same: Any,
) -> None:
    held, later = run(2, 1, 2.0, held=True, **same), run(3, 1, 2.0, **same)
    (entry,) = board([held, later])
    assert (entry.rank, entry.claim) == (None, None)
    assert "held" in entry.note
    (entry,) = board([replace(held, held=False), later])
    assert (entry.rank, entry.submission_ids) == (1, (2, 3))


def test_a_held_run_holds_no_earlier_run_no_other_kernel_and_no_other_team() -> None:
    one = {"digest": "one", "sameness": "one"}
    held = run(2, 1, 2.0, held=True, **one)
    assert board([run(1, 1, 2.0, **one), held])[0].submission_ids == (1,)
    assert board([held, run(3, 1, 2.0)])[0].submission_ids == (3,)
    assert ranks([held, run(3, 2, 2.0, **one)]) == {2: 1, 1: None}
    old = run(2, 1, 2.0, held=True, version=1, **one)
    assert ranks([old, run(3, 1, 2.0, **one)]) == {1: 1}
    ours = run(2, 1, 2.0, held=True, verdict=Verdict.JUDGE_ERROR, **one)
    assert ranks([ours, run(3, 1, 2.0, **one)]) == {1: 1}


def test_a_run_is_held_for_the_first_held_one_of_its_kernel_that_is_not_held_for_another() -> None:
    one = {"digest": "one", "held": True}
    first, second = run(2, 1, hold="odd", **one), run(4, 1, hold="odd", **one)
    follower = run(1, 1, hold=held_with(2), **one)
    new = run(5, 1, digest="one").submission
    assert holder(new, [second, follower, first]) == 2
    assert holder(first.submission, [first, second, follower]) == 4
    assert holder(new, [follower]) is None
    assert holder(run(5, 2, digest="one").submission, [first]) is None
    assert holder(run(5, 1, digest="one", version=1).submission, [first]) is None
    assert holder(run(5, 1).submission, [first]) is None


# --- who may rank


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.WRONG_ANSWER},
        {"verdict": Verdict.UNSTABLE_TIMING},
        {"state": JobState.QUEUED},
        {"outcome": None},
        {"version": 1},
        {"mode": Mode.BENCHMARK},
        {"device": "gpu"},
        {"finished_at": None},
    ],
)
def test_a_job_that_is_not_accepted_on_this_board_is_not_shown(change: dict[str, Any]) -> None:
    assert board([run(1, 1, 2.0, **change)]) == ()


@pytest.mark.parametrize("change", [{"held": True}, {"isolation": "reduced"}])
def test_a_held_or_badly_isolated_run_is_shown_without_numbers_or_rank(change: Any) -> None:
    (entry,) = board([run(1, 1, 2.0, **change)])
    assert (entry.rank, entry.band, entry.claim) == (None, None, None)
    assert entry.note


def test_a_run_over_fewer_cases_than_the_others_does_not_rank() -> None:
    (entry,) = board([run(1, 1, Made(cases=("a", "b", "c")))])
    assert entry.rank is None


@pytest.mark.parametrize("bad", [0, -1])
def test_a_time_that_is_no_time_never_ranks(bad: int) -> None:
    job = run(1, 1)
    assert job.outcome is not None
    assert job.outcome.comparison is not None
    pairs = list(job.outcome.comparison.pairs)
    times = pairs[6].cases[0]
    spoilt = replace(times, candidate_ns=(bad, *times.candidate_ns[1:]))
    pairs[6] = replace(pairs[6], cases=(spoilt, *pairs[6].cases[1:]))
    told = replace(job.outcome, comparison=replace(job.outcome.comparison, pairs=tuple(pairs)))
    assert board([replace(job, outcome=told)])[0].rank is None


def test_a_past_board_is_the_fold_of_what_had_ended_by_then() -> None:
    jobs = [run(1, 1, 2.0), run(2, 2, 3.0)]
    assert board(jobs, START + timedelta(seconds=61)) == board(jobs[:1])


# --- claims


def claim_of(job: Finished) -> Claim:
    assert job.outcome is not None
    assert job.outcome.comparison is not None
    made = claim(job.outcome.comparison, "cpu", "topk v2, 4 secret cases")
    assert made is not None
    return made


def test_a_kernel_that_ran_once_claims_what_its_run_does() -> None:
    job = run(1, 1, 2.0)
    made, alone = board([job])[0].claim, claim_of(job)
    assert made is not None
    assert made == replace(alone, speedup=made.speedup, low=made.low, high=made.high)
    for ours, its in (
        (made.low, alone.low),
        (made.speedup, alone.speedup),
        (made.high, alone.high),
    ):
        assert ours == pytest.approx(its)


def test_against_the_best_kernel_nothing_is_claimed_before_anybody_ran_it() -> None:
    assert board([run(1, 1, 3.0)])[0].against_best is None
    by_name = {e.team_id: e for e in board([run(1, 1, 3.0), run(2, 2, 2.0, digest="best")])}
    made = by_name[1].against_best
    assert made is not None
    assert made.baseline == "native"
    assert made.low < 1.5 < made.high
    assert by_name[1].claim is not None
    own = math.log(by_name[1].claim.high / by_name[1].claim.low)
    assert math.log(made.high / made.low) > own, "both kernels' noise is in it"


def test_a_held_run_of_the_best_kernel_is_no_yardstick() -> None:
    held = run(2, 2, 2.0, digest="best", held=True)
    assert board([run(1, 1, 3.0), held])[0].against_best is None


# --- the fold, on any numbers


def numbers(values: Sequence[float]) -> RunNumbers:
    made = Claim(1, 1, 1, 0.99, "plain torch", "w", "a", "cpu", len(values))
    return RunNumbers(tuple(values), made)


@dataclass(frozen=True)
class Row:
    """A made-up run: values around `centre`, or none where it has no valid times."""

    team: int
    centre: float
    kernel: int
    wide: bool
    held: bool
    seconds: int


ROWS = st.lists(
    st.builds(
        Row,
        team=st.integers(1, 5),
        centre=st.sampled_from([0.0, 0.002, 0.004, 0.006, 0.02, 0.5]),
        kernel=st.integers(1, 3),
        wide=st.sampled_from([False, False, False, True]),
        held=st.sampled_from([False, False, False, True]),
        seconds=st.integers(0, 100),
    ),
    max_size=9,
)


def values_of(row: Row, number: int) -> tuple[float, ...]:
    random, spread = Random(number), 0.05 if row.wide else 0.002
    return tuple(random.gauss(row.centre, spread) for _ in range(8))


def fold(rows: Sequence[Row], shift: dict[int, float] | None = None, seed: int = 0) -> Any:
    """The board of the rows; shift: for each submission how much faster all its pairs are."""
    jobs = []
    for number, row in enumerate(rows, start=1):
        digest = f"{row.team} {row.kernel}"
        job = run(number, row.team, Made(pairs=0), digest=digest, held=row.held)
        jobs.append(replace(job, finished_at=START + timedelta(seconds=row.seconds + seed)))
    Random(seed).shuffle(jobs)

    def numbers_of(said: Outcome) -> RunNumbers:
        moved = (shift or {}).get(said.job_id, 0.0)
        values = values_of(rows[said.job_id - 1], said.job_id)
        return numbers([value + moved for value in values])

    return ranked_standings(jobs, PROBLEM, "cpu", None, numbers_of)


@given(ROWS, st.integers(1, 1000))
def test_the_board_is_the_same_in_whatever_order_outcomes_arrived(
    rows: list[Row], seed: int
) -> None:
    assert fold(rows, seed=seed) == fold(rows)


@given(ROWS)
def test_bands_are_numbered_from_one_and_ranks_follow_from_them(rows: list[Row]) -> None:
    ranked = [entry for entry in fold(rows) if entry.rank is not None]
    for entry in ranked:
        assert entry.rank == 1 + sum(other.band < entry.band for other in ranked)
    assert [e.band for e in ranked] == sorted(e.band for e in ranked)
    assert {e.band for e in ranked} == set(range(1, len({e.band for e in ranked}) + 1))
    assert len({e.team_id for e in fold(rows)}) == len(fold(rows)), "one line a team"


@given(ROWS, st.sampled_from([0.001, 0.003, 0.01, 1.0]), st.data())
def test_a_standing_kernel_that_is_faster_in_every_pair_never_loses_rank(
    rows: list[Row], faster: float, data: Any
) -> None:
    ranked = [entry for entry in fold(rows) if entry.rank is not None]
    if not ranked:
        return
    chosen = data.draw(st.sampled_from(ranked))
    after = fold(rows, dict.fromkeys(chosen.submission_ids, faster))
    (moved,) = [entry for entry in after if entry.team_id == chosen.team_id]
    assert moved.rank is not None
    assert moved.rank <= chosen.rank


@given(ROWS)
def test_running_a_kernel_again_is_never_a_second_entry_nor_a_choice(rows: list[Row]) -> None:
    numbered = list(enumerate(rows, start=1))
    held = [(n, row.team, row.kernel) for n, row in numbered if row.held]
    counted = [
        (n, row)
        for n, row in numbered
        if not any(m <= n and (team, kernel) == (row.team, row.kernel) for m, team, kernel in held)
    ]
    for entry in fold(rows):
        if entry.claim is None:
            continue
        kernel = rows[entry.submission_ids[0] - 1].kernel
        alike = [n for n, row in counted if (row.team, row.kernel) == (entry.team_id, kernel)]
        assert list(entry.submission_ids) == alike
        values = [value for n in alike for value in values_of(rows[n - 1], n)]
        assert math.log(entry.claim.speedup) == pytest.approx(sum(values) / len(values))


def test_the_numbers_of_a_run_are_those_of_the_pairs_that_count() -> None:
    said = outcome(1, Made(pairs=9))
    found = run_numbers(said, PROBLEM, "cpu")
    assert found is not None
    assert len(found.values) == found.claim.pairs == 8
    assert run_numbers(replace(said, comparison=None), PROBLEM, "cpu") is None
    short = replace(said, comparison=comparison(Made(pairs=7)))
    assert run_numbers(short, PROBLEM, "cpu") is None
