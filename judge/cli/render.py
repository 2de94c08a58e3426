"""A submission and a board as text: pure, from wire bodies to lines and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from judge.cli.talk import table
from judge.model import JobState, Stage, Verdict
from judge.stats import relative_spread
from judge.text import error_size, microseconds, moment, plain
from judge.wire import BoardBody, CaseResultBody, MeasurementBody, ReceiptBody, SubmissionBody

LOG_LINES = 30
SHOWN_DIFFERENCES = 5

STYLES: Mapping[Verdict, str] = {
    Verdict.ACCEPTED: "green",
    Verdict.JUDGE_ERROR: "magenta",
    Verdict.UNSTABLE_TIMING: "yellow",
}


def styled(verdict: Verdict) -> Text:
    return Text(verdict.value, style=STYLES.get(verdict, "red"))


def stage_line(body: SubmissionBody, with_eta: bool = True) -> str:
    """Where a submission stands, in a few words: its place, its stage with counts, or its verdict."""
    if body.state is JobState.QUEUED:
        again = f", attempt {body.attempt + 1}" if body.attempt else ""
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
        lines.append("held: an organizer will look at it")
    return lines


def board_table(board: BoardBody, with_times: bool = False) -> Table:
    """A board, best first."""
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
    columns = ["id", "problem", "device", "mode", "received", "state", "geomean", "file"]
    rows: list[list[str | Text]] = []
    for body in bodies:
        state: str | Text = styled(body.verdict) if body.verdict else stage_line(body, False)
        row: list[str | Text] = [str(body.id), body.problem, body.device, body.mode.value]
        row += [moment(body.received_at), state, microseconds(body.geomean_ns), body.main]
        rows.append([*row, f"{body.author} ({body.team})"] if with_authors else row)
    return table([*columns, "author"] if with_authors else columns, rows, right="id,geomean")
