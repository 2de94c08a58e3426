"""One table says how a box that ended, or a call that failed, is judged."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model import Verdict
from runners.endings import TABLE, Ending, Failure, settle
from runners.ports import BoxEnd


def end(**seen: object) -> BoxEnd:
    facts: dict[str, object] = {
        "exit_code": 0,
        "signal": None,
        "killed_by_us": False,
        "out_of_memory": False,
        "out_of_processes": False,
        "output_exceeded": False,
        "output": b"",
        "memory_peak_bytes": None,
    }
    return BoxEnd(**(facts | seen))  # type: ignore[arg-type]


def test_every_ending_has_a_verdict_that_is_the_authors_fault() -> None:
    assert set(TABLE) == set(Ending)
    ours = {Verdict.ACCEPTED, Verdict.JUDGE_ERROR, Verdict.UNSTABLE_TIMING}
    assert not {rule.verdict for rule in TABLE.values()} & ours


@pytest.mark.parametrize(
    ("seen", "verdict", "word"),
    [
        ({"exit_code": 3}, Verdict.RUNTIME_ERROR, "exit status 3"),
        ({"exit_code": 0}, Verdict.RUNTIME_ERROR, "exit status 0"),
        ({"exit_code": None, "signal": signal.SIGSEGV}, Verdict.RUNTIME_ERROR, "SIGSEGV"),
        ({"exit_code": None, "signal": signal.SIGABRT}, Verdict.RUNTIME_ERROR, "SIGABRT"),
        ({"exit_code": None, "signal": signal.SIGKILL}, Verdict.RUNTIME_ERROR, "SIGKILL"),
        ({"exit_code": None, "signal": 63}, Verdict.RUNTIME_ERROR, "signal 63"),
        ({"exit_code": None, "signal": signal.SIGSYS}, Verdict.FORBIDDEN, "SIGSYS"),
        ({"killed_by_us": True, "signal": signal.SIGKILL}, Verdict.FORBIDDEN, "channel"),
        ({"exit_code": None, "signal": 9, "out_of_memory": True}, Verdict.MEMORY_LIMIT, "memory"),
        ({"exit_code": None, "signal": 9, "output_exceeded": True}, Verdict.OUTPUT_LIMIT, "print"),
        ({"exit_code": 1, "out_of_processes": True}, Verdict.RUNTIME_ERROR, "threads"),
    ],
)
def test_a_box_that_died_is_explained_by_what_was_seen(
    seen: dict[str, object], verdict: Verdict, word: str
) -> None:
    failure = settle(Failure(Ending.DIED), end(**seen))
    assert failure.verdict is verdict
    assert word in failure.message


@pytest.mark.parametrize("symptom", [Ending.CALL_TIME, Ending.EXCEPTION, Ending.WRONG])
def test_memory_that_ran_out_explains_any_symptom(symptom: Ending) -> None:
    assert settle(Failure(symptom), end(out_of_memory=True)).verdict is Verdict.MEMORY_LIMIT


def test_a_wrong_answer_stays_one_although_threads_were_refused() -> None:
    failure = settle(Failure(Ending.WRONG, "bad"), end(out_of_processes=True))
    assert failure.verdict is Verdict.WRONG_ANSWER


def test_the_call_and_the_report_survive_settling() -> None:
    assert settle(Failure(Ending.DIED, call=4), end()).call == 4


@given(st.sampled_from(Ending), st.text(st.characters(codec=None)))
def test_every_message_is_bounded_text_that_can_be_stored_and_shown(
    ending: Ending, detail: str
) -> None:
    message = Failure(ending, detail * 3).message
    assert message.strip()
    assert len(message) <= 20_000
    assert "\0" not in message
    message.encode()
