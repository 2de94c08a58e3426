"""Handing in and following up: submit, status, history, show, cancel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status
from rich.text import Text

from judge.cli.folder import note_for, read_submission
from judge.cli.login import Json, Server, Token, connect
from judge.cli.problems import chosen_problem
from judge.cli.render import (
    arms_table,
    case_table,
    closing_lines,
    fault_lines,
    heading,
    history_table,
    log_lines,
    reason_lines,
    receipt_line,
    runs_table,
    stage_line,
    styled,
    verdict_line,
)
from judge.cli.talk import (
    Exit,
    WrongUse,
    answer,
    console,
    exit_of,
    json_of,
    new_file,
    print_bytes,
    print_json,
    say,
    show,
)
from judge.client import JudgeClient, Target
from judge.model import Mode
from judge.text import plain
from judge.wire import MAX_LISTED, Body, ProblemBody, RankedBody, SubmissionBody

Id = Annotated[int, typer.Argument(metavar="ID", min=1)]

commands = typer.Typer()


def follow(
    client: JudgeClient,
    submission_id: int,
    label: str = "",
    on_news: Callable[[], None] = lambda: None,
) -> SubmissionBody:
    """Watch a submission to its end and tell its stages on stderr.

    On a terminal one line changes in place; elsewhere each new stage is a line of its own.
    on_news: called at every answer of the judge, every few seconds at least while it answers.
    """
    out = console(to_stderr=True)
    prefix = f"{label}: " if label else ""
    with (
        Status(plain(f"{prefix}waiting"), console=out) if out.is_terminal else nullcontext() as line
    ):
        told = ""

        def tell(words: str) -> None:
            nonlocal told
            if line is not None:
                line.update(Text(plain(prefix + words)))
            elif words != told:
                say(prefix + words)
            told = words

        for body in client.watch(
            submission_id, on_trouble=lambda why: tell(f"{why} Trying again.")
        ):
            on_news()
            if not body.state.is_final:
                tell(stage_line(body, with_eta=line is not None))
    return body


def report(body: SubmissionBody) -> None:
    """The whole verdict on stdout: word, message, per-case table, faults, score, log."""
    if body.verdict is None:
        answer(stage_line(body))
        return
    answer(verdict_line(body), style=f"bold {styled(body.verdict).style}")
    if body.outcome is not None and body.outcome.message:
        answer(body.outcome.message)
    cases = case_table(body)
    if cases is not None:
        show(cases)
    if body.outcome is not None:
        for result in body.outcome.results:
            for line in fault_lines(result):
                answer(line)
    for line in (*closing_lines(body), *log_lines(body)):
        answer(line)


def report_runs(body: SubmissionBody, ranked: RankedBody) -> None:
    """Every run of a ranked job: its box pairs, what stands against it, its cases if they are shown."""
    if ranked.runs:
        show(runs_table(body, ranked))
    for line in reason_lines(body, ranked):
        answer(line)
    for run in ranked.runs:
        if run.published and run.cases:
            show(arms_table(run))


def chosen_device(problem: ProblemBody, device: str | None) -> str:
    if device is not None:
        return device
    if len(problem.devices) != 1:
        raise WrongUse(f"Which device? Add --device NAME (one of {', '.join(problem.devices)}).")
    return problem.devices[0]


@commands.command()
def submit(
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER|ZIP", help="What to hand in.")],
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="ID", help="What it solves.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="What it shall run on.")
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What to run it for.")] = Mode.BENCHMARK,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until the verdict.")] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the last body (JSON) to a file."
        ),
    ] = None,
    keep_receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Keep the signed receipt in a file."),
    ] = None,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Hand in a kernel and show its verdict with the time of every shape."""
    for kept in (output, keep_receipt):
        if kept is not None and not kept.parent.is_dir():
            raise WrongUse(f"{kept} cannot be written: {kept.parent} is no folder.")
    if keep_receipt is not None and keep_receipt.exists():
        raise WrongUse(f"{keep_receipt} exists already and is not overwritten.")
    note = note_for(path)
    files = read_submission(path, note)
    with connect(server, token) as client:
        body = chosen_problem(client, problem or (note.problem if note else None))
        if note is not None and note.problem == body.id and note.version != body.version:
            say(
                f"This folder was made for {body.id} v{note.version}, which is now "
                f"v{body.version}: judge problems show {body.id}",
                style="yellow",
            )
        receipt = client.submit(Target(body.id, chosen_device(body, device), mode), files)
        if keep_receipt is not None:
            new_file(keep_receipt, json_of(receipt).encode() + b"\n")
        if as_json and wait:
            say(receipt_line(receipt))
        elif as_json:
            print_json(receipt)
        else:
            answer(receipt_line(receipt))
        if not wait:
            keep_answer(output, receipt)
            say(f"Follow it: judge status {receipt.submission_id} --wait")
            return
        final = watched(client, receipt.submission_id)
    if as_json:
        print_json(final)
    else:
        report(final)
    keep_answer(output, final)
    raise typer.Exit(exit_of(final))


def keep_answer(path: Path | None, body: Body) -> None:
    """Write the body to the file that `-o` names, if any; it replaces what is there."""
    if path is None:
        return
    try:
        path.write_text(json_of(body) + "\n")
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}.") from error


def watched(client: JudgeClient, submission_id: int) -> SubmissionBody:
    try:
        return follow(client, submission_id)
    except KeyboardInterrupt:
        say(f"No longer watching; it goes on. judge status {submission_id}, or judge cancel.")
        raise typer.Exit(Exit.INTERRUPTED) from None


@commands.command()
def status(
    submission_id: Id,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until the verdict.")] = False,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Say in one line where a submission stands."""
    with connect(server, token) as client:
        body = watched(client, submission_id) if wait else client.submission(submission_id)
    if as_json:
        print_json(body)
    else:
        answer(f"submission {body.id}: {stage_line(body)}")
    raise typer.Exit(exit_of(body))


@commands.command()
def history(
    problem: Annotated[str | None, typer.Option("--problem", metavar="ID")] = None,
    before: Annotated[int | None, typer.Option("--before", metavar="ID", min=1)] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MAX_LISTED)] = 20,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody's (organizers).")] = False,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List your team's submissions, newest first."""
    with connect(server, token) as client:
        found = client.submissions(problem, before, limit, everybody)
    if as_json:
        print_json(found)
        return
    if not found.submissions:
        answer("no submission yet")
        return
    show(history_table(found.submissions, with_authors=everybody))
    if found.next_before is not None:
        say(f"Older ones: judge history --before {found.next_before}")


@commands.command("show")
def show_submission(
    submission_id: Id,
    source: Annotated[bool, typer.Option("--source", help="Print the files instead.")] = False,
    file: Annotated[
        str | None, typer.Option("--file", metavar="NAME", help="Print one file, byte-exact.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Print the whole log instead.")] = False,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show a submission whole: verdict, cases, times, log; or its files."""
    if sum((source, file is not None, log, as_json)) > 1:
        raise WrongUse(
            "Give one of --source, --file, --log and --json: they contradict each other."
        )
    with connect(server, token) as client:
        if log:
            print_bytes(client.log(submission_id).encode())
            return
        if file is not None:
            print_bytes(client.source(submission_id, file))
            return
        body = client.submission(submission_id)
        if source:
            for name in body.files:
                if len(body.files) > 1:
                    answer(f"==> {name} <==")
                print_bytes(client.source(submission_id, name))
            return
    if as_json:
        print_json(body)
        return
    answer(heading(body), style="bold")
    report(body)
    if body.ranked is not None:
        report_runs(body, body.ranked)
    if body.outcome is not None:
        for key, value in body.outcome.environment.items():
            answer(f"{key}: {value}")


@commands.command()
def cancel(
    submission_id: Id, server: Server = None, token: Token = None, as_json: Json = False
) -> None:
    """Take a submission back before its verdict."""
    with connect(server, token) as client:
        body = client.cancel(submission_id)
    if as_json:
        print_json(body)
        return
    answer(f"submission {body.id}: {stage_line(body)}")
