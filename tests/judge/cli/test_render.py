"""What a submission and a board look like as text."""

from datetime import UTC, datetime

import pytest

from judge.cli.render import (
    board_table,
    case_table,
    closing_lines,
    fault_lines,
    log_lines,
    stage_line,
)
from judge.cli.talk import Exit, answer, exit_of, show
from judge.model import JobState, Mode, Stage, Verdict
from judge.wire import (
    BoardBody,
    CaseResultBody,
    DifferenceBody,
    EntryBody,
    MeasurementBody,
    OutcomeBody,
    ProgressBody,
    SubmissionBody,
)

AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


def submission(**changes: object) -> SubmissionBody:
    queued: dict[str, object] = {
        "id": 7,
        "job_id": 7,
        "version": 1,
        "team": "Ada",
        "author": "Ada",
        "problem": "topk",
        "problem_version": 1,
        "device": "cpu",
        "mode": Mode.BENCHMARK,
        "main": "topk.py",
        "files": ["topk.py"],
        "sha256": "ab" * 32,
        "received_at": AT,
        "state": JobState.QUEUED,
        "attempt": 0,
        "held": False,
        "progress": None,
        "place": 2,
        "eta_s": 12.4,
        "runner": None,
        "last_heard_at": None,
        "finished_at": None,
        "verdict": None,
        "outcome": None,
        "geomean_ns": None,
        "medians_ns": {},
    }
    return SubmissionBody.model_validate({**queued, **changes})


def result(case: str, stage: Stage, verdict: Verdict, **more: object) -> CaseResultBody:
    return CaseResultBody.model_validate(
        {"case": case, "stage": stage, "secret": False, "verdict": verdict, "values": {}, **more}
    )


def judged(verdict: Verdict, **outcome: object) -> SubmissionBody:
    body = OutcomeBody.model_validate(
        {"job_id": 7, "attempt": 1, "verdict": verdict, "message": "", **outcome}
    )
    return submission(state=JobState.DONE, verdict=verdict, outcome=body, place=None, eta_s=None)


def test_a_waiting_submission_shows_its_place_and_eta() -> None:
    assert stage_line(submission()) == "place 2 in the cpu queue, about 12 s"


def test_a_running_submission_shows_steps_of_its_stage() -> None:
    running = submission(
        state=JobState.RUNNING, place=None, progress=ProgressBody(stage="timing", done=3, total=8)
    )
    assert stage_line(running) == "timing 3/8"


def test_a_retried_submission_says_which_attempt_comes() -> None:
    assert stage_line(submission(attempt=1, eta_s=None)) == "place 2 in the cpu queue, attempt 2"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (judged(Verdict.ACCEPTED), Exit.ACCEPTED),
        (judged(Verdict.WRONG_ANSWER), Exit.NOT_ACCEPTED),
        (judged(Verdict.UNSTABLE_TIMING), Exit.NOT_ACCEPTED),
        (judged(Verdict.JUDGE_ERROR), Exit.JUDGE_FAILED),
        (submission(state=JobState.CANCELLED), Exit.NOT_ACCEPTED),
        (submission(), Exit.ACCEPTED),
    ],
)
def test_the_exit_code_follows_the_verdict(body: SubmissionBody, code: Exit) -> None:
    assert exit_of(body) is code


def test_the_case_table_shows_every_shape_with_its_time_and_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = judged(
        Verdict.ACCEPTED,
        results=[
            result("t33-e384", Stage.TEST, Verdict.ACCEPTED, max_abs_error=3.14e-7),
            result("t4096-e384", Stage.TIMING, Verdict.ACCEPTED),
        ],
        measurements=[
            MeasurementBody(
                case="t4096-e384",
                secret=False,
                chain=1,
                samples_ns=[10_000, 10_100, 10_200, 10_300],
                null_samples_ns=[300],
            )
        ],
    ).model_copy(update={"medians_ns": {"t4096-e384": 9_850.0}})
    made = case_table(body)
    assert made is not None
    show(made)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["case", "stage", "verdict"]
    assert lines[1].split() == ["t33-e384", "test", "accepted", "3.1e-07", "-", "-", "-", "-"]
    timing = ["t4096-e384", "timing", "accepted", "-", "-", "9.850", "us", "+-0.7", "%", "4"]
    assert lines[2].split() == timing


def test_secret_cases_of_which_only_the_verdict_is_told_share_a_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hidden = [
        result("secret", Stage.TEST, verdict, secret=True)
        for verdict in (Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.WRONG_ANSWER)
    ]
    made = case_table(judged(Verdict.WRONG_ANSWER, results=hidden))
    assert made is not None
    show(made)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["2", "secret", "cases"],
        ["1", "secret", "case"],
    ]
    assert "wrong answer" in lines[1]


def test_a_table_without_a_terminal_cuts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a-shape-" * 16
    made = case_table(judged(Verdict.ACCEPTED, results=[result(name, Stage.TEST, "accepted")]))
    assert made is not None
    show(made)
    assert name in capsys.readouterr().out


def test_a_fault_shows_its_call_counted_from_one_message_and_first_differences() -> None:
    wrong = result(
        "t33",
        Stage.TEST,
        Verdict.WRONG_ANSWER,
        message="2 of 264 ids are not among the 8 largest",
        call=1,
        differences=[DifferenceBody(output="ids", index=[3, 5], got="17", expected="12")],
    )
    assert fault_lines(wrong) == [
        "t33, call 2: wrong answer",
        "  2 of 264 ids are not among the 8 largest",
        "  ids[3, 5]: got 17, expected 12",
    ]


def test_a_long_log_shows_its_end_and_the_way_to_the_rest() -> None:
    body = judged(Verdict.COMPILE_ERROR, log="\n".join(f"line {n}" for n in range(100)))
    lines = log_lines(body)
    assert lines[0] == "log (last 30 of 100 lines; all: judge show 7 --log):"
    assert lines[-1] == "  line 99"


def test_reduced_isolation_is_said() -> None:
    assert any(
        "reduced isolation" in line
        for line in closing_lines(judged("accepted", isolation="reduced"))
    )


def test_foreign_text_reaches_the_terminal_without_escapes_or_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer("[red]x[/red] \x1b[31mred\x1b[0m \x9b2J :smile: \u202eright")
    assert capsys.readouterr().out == "[red]x[/red] ?[31mred?[0m ?2J :smile: ?right\n"


def test_a_board_shows_unranked_entries_with_their_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = {
        "team_id": 1,
        "team": "[b]Ada[/b]",
        "submission_id": 7,
        "received_at": AT,
        "times_ns": {"t1": 2_000.0},
    }
    board = BoardBody(
        problem="topk",
        problem_version=1,
        device="cpu",
        mode=Mode.BENCHMARK,
        heading="practice, not ranked",
        as_of=AT,
        frozen=False,
        cases=["t1"],
        entries=[
            EntryBody.model_validate({**entry, "rank": 1, "score_ns": 2_000.0, "note": ""}),
            EntryBody.model_validate({**entry, "rank": None, "score_ns": None, "note": "held"}),
        ],
    )
    show(board_table(board, with_times=True))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:6] == ["1", "[b]Ada[/b]", "2.000", "us", "2.000", "us"]
    assert lines[2].split()[0] == "-"
    assert lines[2].split()[-1] == "held"
