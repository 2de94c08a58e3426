"""A submission and a board as text: pure, from wire bodies to lines and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from judge.cli.talk import table
from judge.model import Block, JobState, Stage, Verdict
from judge.stats import geometric_mean, relative_spread
from judge.text import error_size, microseconds, moment, plain, speedup
from judge.wire import (
    BoardBody,
    CaseResultBody,
    MeasurementBody,
    RankedBoardBody,
    RankedBody,
    ReceiptBody,
    RunBody,
    SubmissionBody,
)

LOG_LINES = 30
SHOWN_DIFFERENCES = 5
HELD = "held: an organizer will look at it"

STYLES: Mapping[Verdict, str] = {
    Verdict.ACCEPTED: "green",
    Verdict.JUDGE_ERROR: "magenta",
    Verdict.UNSTABLE_TIMING: "yellow",
}


def styled(verdict: Verdict) -> Text:
    return Text(verdict.value, style=STYLES.get(verdict, "red"))


def stage_line(body: SubmissionBody, with_eta: bool = True) -> str:
    """Where a submission stands, in a few words: its place, its stage with counts, or its verdict."""
    if body.confirming:
        return f"a confirmation run is {body.state.value}: {_stage(body, with_eta)}"
    return _stage(body, with_eta)


def _stage(body: SubmissionBody, with_eta: bool) -> str:
    if body.state is JobState.QUEUED:
        again = f", attempt {body.attempt + 1}" if body.attempt and not body.confirming else ""
        place = (
            "waiting" if body.place is None else f"place {body.place} in the {body.device} queue"
        )
        eta = f", about {body.eta_s:.0f} s" if with_eta and body.eta_s is not None else ""
        return f"{place}{again}{eta}"
    if body.state is JobState.CANCELLED:
        return "cancelled"
    if body.state is JobState.DONE:
        return body.verdict.value if body.verdict else "done"
    if body.progress is None:
        return "starting"
    steps = f" {body.progress.done}/{body.progress.total}" if body.progress.total else ""
    return f"{plain(body.progress.stage)}{steps}"


def verdict_line(body: SubmissionBody) -> str:
    """The verdict, with the speedup that a ranked run came to."""
    if body.verdict is None:
        return stage_line(body)
    made = body.ranked.claim if body.ranked else None
    return f"{body.verdict.value}: {made.sentence}" if made else body.verdict.value


def receipt_line(receipt: ReceiptBody) -> str:
    """The proof that a submission was taken, in one line."""
    return (
        f"submission {receipt.submission_id}  received {moment(receipt.received_at)}  "
        f"sha256 {receipt.sha256}"
    )


def heading(body: SubmissionBody) -> str:
    return (
        f"submission {body.id}  {body.problem} v{body.problem_version}  {body.device}  "
        f"{body.mode.value}  by {body.author}  received {moment(body.received_at)}"
    )


def spread(measurement: MeasurementBody | None) -> str:
    """Noise of the raw samples, half the middle 50 % over their median; `-` for fewer than 4."""
    if measurement is None or len(measurement.samples_ns) < 4:
        return "-"
    return f"+-{100 * relative_spread(measurement.samples_ns):.1f} %"


def case_table(body: SubmissionBody) -> Table | None:
    """One row per case: shape, stage, verdict, largest error, net median and its noise.

    Secret cases of which nothing but the verdict is told share a row.
    """
    if body.outcome is None or not body.outcome.results:
        return None
    measured = {m.case: m for m in body.outcome.measurements}
    hidden = Counter((r.stage, r.verdict) for r in body.outcome.results if _is_hidden(r))
    rows: list[Sequence[str | Text]] = []
    for result in body.outcome.results:
        if _is_hidden(result):
            continue
        taken = measured.get(result.case)
        rows.append(
            (
                result.case + (" (secret)" if result.secret else ""),
                result.stage.value,
                styled(result.verdict),
                error_size(result.max_abs_error),
                error_size(result.max_rel_error),
                microseconds(body.medians_ns.get(result.case)),
                spread(taken),
                str(len(taken.samples_ns)) if taken else "-",
            )
        )
    for (stage, verdict), count in hidden.items():
        label = f"{count} secret case{'s' if count > 1 else ''}"
        rows.append((label, stage.value, styled(verdict), *"-----"))
    columns = ("case", "stage", "verdict", "max abs err", "max rel err", "median", "noise", "n")
    return table(columns, rows, right="max abs err,max rel err,median,noise,n")


def _is_hidden(result: CaseResultBody) -> bool:
    return result.secret and not result.values


def fault_lines(result: CaseResultBody) -> list[str]:
    """What went wrong in one case, with the first elements that differ."""
    if result.verdict is Verdict.ACCEPTED or not (result.message or result.differences):
        return []
    call = "" if result.call is None else f", call {result.call + 1}"
    lines = [f"{result.case}{call}: {result.verdict.value}"]
    lines += [f"  {line}" for line in result.message.splitlines()]
    for difference in result.differences[:SHOWN_DIFFERENCES]:
        where = f"{difference.output}[{', '.join(map(str, difference.index))}]"
        lines.append(f"  {where}: got {difference.got}, expected {difference.expected}")
    return lines


def log_lines(body: SubmissionBody) -> list[str]:
    """The end of the log of a submission that was not accepted."""
    if body.outcome is None or body.verdict is Verdict.ACCEPTED or not body.outcome.log.strip():
        return []
    lines = body.outcome.log.rstrip().splitlines()
    kept = lines[-LOG_LINES:]
    cut = f" (last {len(kept)} of {len(lines)} lines; all: judge show {body.id} --log)"
    return [f"log{cut if len(kept) < len(lines) else ''}:", *(f"  {line}" for line in kept)]


def closing_lines(body: SubmissionBody) -> list[str]:
    """Score, isolation and what else the reader must know."""
    lines = []
    if body.ranked is not None and body.ranked.claim is not None:
        lines.append(f"measured: {body.ranked.claim.workload}; {body.ranked.claim.axis}")
    if body.geomean_ns is not None:
        timed = [c for c in body.outcome.results if c.stage is Stage.TIMING] if body.outcome else []
        secret = ", secret ones included" if any(c.secret for c in timed) else ""
        lines.append(
            f"geometric mean: {microseconds(body.geomean_ns)} "
            f"(net medians of {len(timed)} timing cases{secret})"
        )
    if body.outcome is not None and body.outcome.isolation != "full":
        lines.append(f"{body.outcome.isolation} isolation: this runner cannot hold boxes fully")
    if body.held:
        lines.append(f"held for an organizer: {body.hold}" if body.hold else HELD)
    return lines


def runs_table(body: SubmissionBody, ranked: RankedBody) -> Table:
    """The box pairs of every run of a ranked job: one row per series of a block, in their order."""
    rows = []
    for number, run in enumerate(ranked.runs, start=1):
        counts = run.published and run.claim is not None and not body.held
        last = {pair.block: pair.series for pair in run.pairs}
        for (block, series), pairs in groupby(run.pairs, lambda pair: (pair.block, pair.series)):
            ratios = [pair.speedup for pair in pairs]
            valid = [ratio for ratio in ratios if ratio is not None]
            note = "counts" if counts and block is Block.CANDIDATE else ""
            if series < last[block]:
                note = "void, run again"
            rows.append(
                [
                    f"{number} of {len(ranked.runs)}",
                    block.value,
                    str(len(ratios)),
                    speedup(geometric_mean(valid) if valid else None),
                    speedup(min(valid, default=None)),
                    speedup(max(valid, default=None)),
                    note,
                ]
            )
    columns = ("run", "box pairs", "n", "mean", "lowest", "highest", "note")
    return table(columns, rows, right="n,mean,lowest,highest")


def reason_lines(body: SubmissionBody, ranked: RankedBody) -> list[str]:
    """Why runs of a ranked job are void or held, as far as the body's `hold` does not say it."""
    lines = []
    for number, run in enumerate(ranked.runs, start=1):
        lines += [f"run {number} is void: {run.void}"] if run.void else []
        lines += [f"run {number}: {each}" for each in run.findings if each not in body.hold]
    return lines


def arms_table(run: RunBody) -> Table:
    """Both arms of every secret case of a run, for those who may see them."""
    rows = [
        (
            arms.case,
            microseconds(arms.baseline_median_ns),
            microseconds(arms.candidate_median_ns),
            speedup(arms.speedup),
        )
        for arms in run.cases
    ]
    return table(
        ("secret case", "baseline", "submission", "speedup"), rows, "baseline,submission,speedup"
    )


def ranked_table(board: RankedBoardBody) -> Table:
    """A ranked board, best first; those of a rank cannot be told from its best."""
    columns = ["rank", "team", "speedup", "interval"]
    columns += [f"against {board.best}"] if board.best else []
    columns += ["pairs", "submissions", "received", "note"]
    rows = []
    for entry in board.entries:
        made = entry.claim
        least = ">= " if made and made.at_least else ""
        row = [
            "-" if entry.rank is None else str(entry.rank),
            entry.team,
            f"{least}{speedup(made.speedup)}" if made else "-",
            f"{speedup(made.low, '')} - {speedup(made.high, '')}" if made else "-",
        ]
        if board.best:
            row.append(speedup(entry.against_best.speedup if entry.against_best else None))
        row += [
            str(made.pairs) if made else "-",
            ", ".join(map(str, entry.submission_ids)),
            moment(entry.received_at),
            entry.note,
        ]
        rows.append(row)
    return table(columns, rows, right=f"rank,speedup,interval,against {board.best},pairs")


def board_table(board: BoardBody, with_times: bool = False) -> Table:
    """A practice table, best first."""
    columns = ["rank", "team", "geomean", *(board.cases if with_times else ())]
    columns += ["submission", "received", "note"]
    rows = []
    for entry in board.entries:
        times = [microseconds(entry.times_ns.get(case)) for case in board.cases]
        rows.append(
            [
                "-" if entry.rank is None else str(entry.rank),
                entry.team,
                microseconds(entry.score_ns),
                *(times if with_times else ()),
                str(entry.submission_id),
                moment(entry.received_at),
                entry.note,
            ]
        )
    to_right = ["rank", "geomean", "submission", *(board.cases if with_times else ())]
    return table(columns, rows, right=",".join(to_right))


def history_table(bodies: Sequence[SubmissionBody], with_authors: bool) -> Table:
    """Submissions, one a line, in the order given."""
    columns = ["id", "problem", "device", "mode", "received", "state", "geomean", "speedup", "file"]
    rows: list[list[str | Text]] = []
    for body in bodies:
        state: str | Text = styled(body.verdict) if body.verdict else stage_line(body, False)
        row: list[str | Text] = [str(body.id), body.problem, body.device, body.mode.value]
        made = body.ranked.claim if body.ranked else None
        row += [moment(body.received_at), state, microseconds(body.geomean_ns)]
        row += [speedup(made.speedup if made else None), body.main]
        rows.append([*row, f"{body.author} ({body.team})"] if with_authors else row)
    return table(
        [*columns, "author"] if with_authors else columns, rows, right="id,geomean,speedup"
    )
