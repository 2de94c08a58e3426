"""A job in real boxes: order, secrecy, limits, set-up, and what is measured."""

import time

import pytest

from judge.model import Limits, Outcome, Progress, Stage, Verdict
from runners.devices.cpu import CpuDevice
from runners.evaluator.job import evaluate
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Built, NeedsBuild
from runners.evaluator.session import StoppedError, Watch
from runners.ports import Isolation
from runners.sandboxes.bubblewrap import BubblewrapSandbox
from tests.runners.conftest import LIMITS, Judge, tiny_case, tiny_job, tiny_problem

pytestmark = [pytest.mark.box, pytest.mark.slow]

HONEST = """
import torch
def custom_kernel(data):
    x, factor, y, positive = data
    torch.mul(x, factor, out=y)
    positive[0] = (y > 0).sum()
    return y, positive
"""

WEIGHTED = """
def setup(constants, meta):
    global weight
    weight = constants["weight"].clone()
    print("meta", meta)
def custom_kernel(data):
    return data[0] * weight
"""


def on_size(n: int, act: str) -> str:
    """The honest kernel, that acts otherwise on inputs of n elements."""
    return f"""{HONEST}
honest = custom_kernel
def custom_kernel(data):
    if len(data[0]) == {n}:
        {act}
    return honest(data)
"""


def test_results_stand_in_the_order_of_the_cases_up_to_the_first_that_fails(
    judge_job: Judge,
) -> None:
    cases = [tiny_case("a", 5), tiny_case("b", 6), tiny_case("c", 7)]
    outcome = judge_job(on_size(6, "raise ValueError('six is odd')"), *cases)
    assert [(r.case, r.verdict) for r in outcome.results] == [
        ("a", Verdict.ACCEPTED),
        ("b", Verdict.RUNTIME_ERROR),
    ]
    assert outcome.message == "b, call 1: ValueError: six is odd"
    assert 'File "kernel.py", line 12, in custom_kernel' in outcome.results[1].message
    assert outcome.results[1].call == 0
    assert outcome.verdict is Verdict.RUNTIME_ERROR


def test_a_wrong_answer_tells_the_first_elements_that_differ(judge_job: Judge) -> None:
    outcome = judge_job(HONEST.replace("factor, out", "factor + 1, out"), tiny_case("a", 5))
    (result,) = outcome.results
    assert result.message == "5 elements of y are wrong."
    assert result.differences[0].index == (0,)


def test_an_accepted_job_tells_the_largest_error_of_every_case(judge_job: Judge) -> None:
    outcome = judge_job(HONEST, tiny_case("a", 1000, calls=3))
    assert outcome.results[0].max_abs_error is not None
    assert 0 <= outcome.results[0].max_abs_error < 1e-5
    assert outcome.isolation in ("full", "reduced")
    assert outcome.environment["device"] == "cpu"


def test_text_of_a_secret_case_stands_in_its_own_result_alone(judge_job: Judge) -> None:
    cases = [
        tiny_case("hidden", 77, secret=True),
        tiny_case("open", 5),
    ]
    source = on_size(77, "print('printed 77', flush=True); raise ValueError('saw 77')")
    outcome = judge_job("print('at import')\n" + source, *cases)
    assert outcome.verdict is Verdict.RUNTIME_ERROR
    assert outcome.message == "Runtime error on a secret case."
    assert outcome.log == "at import\n"
    assert [r.case for r in outcome.results] == ["hidden", "open"]
    assert "saw 77" in outcome.results[0].message


@pytest.mark.parametrize(
    "act", ["import os; os._exit(77)", "import ctypes; ctypes.string_at(77)", "data[2][:] = 77"]
)
def test_however_a_secret_case_fails_the_message_gives_the_verdict_word_alone(
    judge_job: Judge, act: str
) -> None:
    source = on_size(77, act + "; return data[2], data[3]")
    outcome = judge_job(source, tiny_case("open", 5), tiny_case("hidden", 77, secret=True))
    assert outcome.message == f"{outcome.verdict.value.capitalize()} on a secret case."


REMEMBERS = (
    HONEST
    + """
honest, seen = custom_kernel, []
def custom_kernel(data):
    seen.append(len(data[0]))
    return honest(data)
def teardown():
    print("at the end", seen)
"""
)


def test_no_public_case_is_run_once_the_box_has_seen_a_secret_one(judge_job: Judge) -> None:
    source = REMEMBERS.replace("    return honest", "    print(seen[-1])\n    return honest")
    cases = [
        tiny_case("open", 6),
        tiny_case("hidden", 77, secret=True),
        tiny_case("timed", 5, Stage.TIMING, calls=1),
    ]
    outcome = judge_job(source, *cases)
    assert outcome.verdict is Verdict.ACCEPTED
    assert outcome.log == "6\n5\n5\n5\n5\n"


def test_nothing_a_kernel_says_or_does_at_its_end_tells_of_secret_cases(judge_job: Judge) -> None:
    source = REMEMBERS.replace("print(", "raise ValueError(")
    outcome = judge_job(source, tiny_case("open", 6), tiny_case("hidden", 77, secret=True))
    assert outcome.verdict is Verdict.RUNTIME_ERROR
    assert outcome.message == "Runtime error after the secret cases."
    assert outcome.log == ""
    assert "memory peak" not in outcome.environment


def test_every_timed_call_has_a_sample_and_one_of_the_null_kernel(judge_job: Judge) -> None:
    cases = [
        tiny_case("test", 5),
        tiny_case("small", 64, Stage.TIMING, calls=12),
        tiny_case("large", 50_000, Stage.TIMING, calls=5),
        tiny_case("chain", 64, Stage.TIMING, calls=4, chain=6),
        tiny_case("cold", 64, Stage.TIMING, calls=2, cold=True),
    ]
    outcome = judge_job(HONEST, *cases)
    assert outcome.verdict is Verdict.ACCEPTED
    counted = [(m.case, m.chain, len(m.samples_ns)) for m in outcome.measurements]
    assert counted == [("small", 1, 12), ("large", 1, 5), ("chain", 6, 4), ("cold", 1, 2)]
    for m in outcome.measurements:
        assert len(m.null_samples_ns) == len(m.samples_ns)
        assert min(m.samples_ns) > 0
        assert min(m.null_samples_ns) > 0


@pytest.mark.parametrize(
    ("shape", "links"),
    [({"n": 64}, 1), ({"n": 50_000}, 1), ({"n": 64, "cold": True}, 1), ({"n": 64, "chain": 3}, 3)],
)
def test_time_that_the_kernel_takes_is_in_every_sample(
    judge_job: Judge, shape: dict, links: int
) -> None:
    slow = HONEST + (
        "\nimport time\nhonest = custom_kernel\n"
        "def custom_kernel(data):\n    time.sleep(0.003)\n    return honest(data)\n"
    )
    case = tiny_case("timed", stage=Stage.TIMING, calls=3, **shape)
    (measurement,) = judge_job(slow, case).measurements
    assert min(measurement.samples_ns) > links * 3_000_000


def test_a_timed_kernel_that_is_wrong_once_fails(judge_job: Judge) -> None:
    source = HONEST + (
        "\nhonest, count = custom_kernel, 0\n"
        "def custom_kernel(data):\n    global count\n    count += 1\n    result = honest(data)\n"
        "    if count == 9: data[2][-1] += 1\n    return result\n"
    )
    outcome = judge_job(source, tiny_case("timed", stage=Stage.TIMING, calls=20))
    assert outcome.verdict is Verdict.WRONG_ANSWER
    assert outcome.measurements == ()
    assert outcome.results[0].call == 5  # the ninth call, after three to warm up


def test_setup_gets_the_constants_before_every_case(judge_job: Judge) -> None:
    cases = [tiny_case("a", 5, calls=2), tiny_case("b", 50_000, calls=2)]
    outcome = judge_job(WEIGHTED, *cases, problem="weighted")
    assert outcome.verdict is Verdict.ACCEPTED
    assert outcome.log == "meta {'rank': 0, 'world': 1, 'group': None}\n" * 2


def test_setup_that_keeps_too_much_is_over_the_memory_limit(judge_job: Judge) -> None:
    source = WEIGHTED.replace("global weight", "global weight, kept; kept = bytearray(100 << 20)")
    outcome = judge_job(source, problem="weighted")
    assert outcome.verdict is Verdict.MEMORY_LIMIT
    assert "setup keeps too much" in outcome.message


def test_setup_without_constants_and_teardown_run_once(judge_job: Judge) -> None:
    source = HONEST + (
        "\ndef setup(constants, meta): print('set up', constants)"
        "\ndef teardown(): print('torn down')\n"
    )
    assert judge_job(source).log == "set up {}\ntorn down\n"


def test_a_teardown_that_fails_is_a_runtime_error(judge_job: Judge) -> None:
    outcome = judge_job(HONEST + "\ndef teardown(): raise ValueError('at the end')")
    assert outcome.verdict is Verdict.RUNTIME_ERROR
    assert outcome.message.startswith("ValueError: at the end")


def test_a_submission_of_several_files_finds_its_own(judge_job: Judge) -> None:
    job = tiny_job("from part.scale import custom_kernel")
    files = (*job.files, *tiny_job(HONEST, main="part/scale.py").files)
    outcome = judge_job.raw(
        type(job)(**{f: getattr(job, f) for f in job.__slots__} | {"files": files})
    )
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.ACCEPTED


def test_native_source_is_not_judged_before_it_is_built(judge_job: Judge) -> None:
    assert isinstance(judge_job.raw(tiny_job("int x;", main="k.cpp")), NeedsBuild)


INLINE = (
    """
from torch.utils.cpp_extension import load_inline
try:
    load_inline(name="mine", cpp_sources="int f() { return 1; }", functions=["f"])
except BaseException:
    pass
"""
    + HONEST
)


def test_an_extension_that_is_not_built_asks_for_the_build_stage_past_any_except(
    judge_job: Judge,
) -> None:
    answer = judge_job.raw(tiny_job(INLINE))
    assert isinstance(answer, NeedsBuild)
    assert "mine" in answer.reason


def test_an_extension_that_is_first_wanted_in_a_call_asks_for_the_build_stage(
    judge_job: Judge,
) -> None:
    head, _, body = INLINE.partition("try:")
    lines = ["try:", *body.partition(HONEST)[0].strip("\n").splitlines()]
    lazy = "\n".join(f"    {line}" for line in lines)
    source = f"{head}{HONEST}honest = custom_kernel\ndef custom_kernel(data):\n{lazy}\n"
    answer = judge_job.raw(tiny_job(source + "    return honest(data)\n"))
    assert isinstance(answer, NeedsBuild)
    assert "mine" in answer.reason


def test_an_extension_that_the_build_stage_never_saw_is_the_authors_fault(
    judge_job: Judge, tmp_path
) -> None:
    tmp_path.chmod(0o755)
    outcome = judge_job(INLINE, built=Built(cache=tmp_path))
    assert outcome.verdict is Verdict.RUNTIME_ERROR
    assert "mine" in outcome.message


def test_a_built_submission_that_asks_for_a_build_is_at_fault_itself(judge_job: Judge) -> None:
    # A native module can reach the harness's socket as well as any Python file can.
    asks = """
import socket
for fd in range(3, 64):
    try:
        socket.socket(fileno=fd).send(b'{"kind": "needs_build", "name": "again"}')
    except OSError:
        pass
while True: pass
"""
    outcome = judge_job(asks, built=Built(module=b""))
    assert outcome.verdict is Verdict.RUNTIME_ERROR
    assert "again" in outcome.message


def test_progress_tells_when_the_submission_was_handed_over(judge_job: Judge) -> None:
    told: list[tuple[Progress, bool]] = []
    judge_job(HONEST, watch=Watch(lambda now, loaded: told.append((now, loaded))))
    assert told[0] == (Progress("loading"), False)
    assert told[1] == (Progress("loading"), True)
    assert told[-1] == (Progress("test", 2, 2), True)


def test_progress_times_no_secret_case(judge_job: Judge) -> None:
    told: list[Progress] = []
    cases = (tiny_case("open", 5), *(tiny_case(f"s{n}", 7 + n, secret=True) for n in range(3)))
    judge_job(HONEST, *cases, watch=Watch(lambda now, _loaded: told.append(now)))
    assert {(p.done, p.total) for p in told if p.stage == "secret test"} == {(0, 0)}


@pytest.mark.parametrize(
    "source",
    ["while True: pass", "def custom_kernel(data):\n    while True: pass"],
)
def test_a_job_that_is_taken_away_stops_at_once(box_pool: BoxPool, source: str) -> None:
    limits = Limits(load_s=60, call_s=60)
    box_pool.refill()
    stop_at = time.monotonic() + 4
    watch = Watch(should_stop=lambda: time.monotonic() > stop_at)
    with pytest.raises(StoppedError):
        evaluate(tiny_job(source), tiny_problem("scale", limits), box_pool, watch)
    assert time.monotonic() < stop_at + 5


def test_a_job_over_its_own_limit_ends_although_every_call_is_within_its(
    box_pool: BoxPool,
) -> None:
    limits = Limits(load_s=10, call_s=10, job_s=2, memory_bytes=LIMITS.memory_bytes)
    problem = tiny_problem("scale", limits)
    source = "import time\n" + HONEST.replace("x, factor, y", "time.sleep(0.2); x, factor, y")
    for case in (tiny_case("long", calls=1000), tiny_case("chain", 64, Stage.TIMING, chain=100)):
        began = time.monotonic()
        outcome = evaluate(tiny_job(source, case), problem, box_pool, Watch())
        assert isinstance(outcome, Outcome)
        assert outcome.verdict is Verdict.TIME_LIMIT
        assert "The job as a whole" in outcome.message
        assert time.monotonic() - began < 15


class NeverFrozen(BubblewrapSandbox):
    """As on a machine without a freezer."""

    def isolation(self) -> Isolation:
        return Isolation("reduced", freezer=False, own_uid=True, reasons=("no freezer",))


def test_without_a_freezer_jobs_are_judged_and_marked() -> None:
    sandbox = NeverFrozen()
    pool = BoxPool(sandbox, CpuDevice(), [LIMITS], ready=1)
    cases = [tiny_case("test", 50_000), tiny_case("timed", stage=Stage.TIMING, calls=5)]
    try:
        outcome = evaluate(tiny_job(HONEST, *cases), tiny_problem("scale"), pool, Watch())
    finally:
        pool.close()
        sandbox.close()
    assert isinstance(outcome, Outcome)
    assert (outcome.verdict, outcome.isolation) == (Verdict.ACCEPTED, "reduced")
    assert len(outcome.measurements[0].null_samples_ns) == 5


def test_on_a_machine_with_one_core_jobs_are_judged_and_the_environment_says_so(
    sandbox: BubblewrapSandbox,
) -> None:
    pool = BoxPool(sandbox, CpuDevice(evaluator_core=0, box_core=0), [LIMITS], ready=1)
    try:
        outcome = evaluate(tiny_job(HONEST), tiny_problem("scale"), pool, Watch())
    finally:
        pool.close()
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.ACCEPTED
    assert "shared core" in outcome.environment
