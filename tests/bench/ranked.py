"""Whole ranked runs of the shipped native kernel on this machine, as a runner makes them.

`python -m tests.bench.ranked N` prints a JSON object: lists of one figure for each run, or pair.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from judge.catalog import draw_secret_cases
from judge.catalog import load_problem as read_folder
from judge.comparing import claim, pair_values
from judge.model import Block, Job, Mode, Outcome, Problem, SourceFile
from judge.rules import cases_of_mode
from runners.build import BuildStage
from runners.devices.cpu import CpuDevice
from runners.evaluator.inputs import KEY_BYTES
from runners.evaluator.pool import BoxPool
from runners.evaluator.ranked import evaluate_ranked
from runners.evaluator.session import Watch
from runners.problem import load_problem
from runners.sandboxes.bubblewrap import BubblewrapSandbox

PROBLEM = Path(__file__).parents[2] / "problems" / "topk"


def measure(runs: int) -> dict[str, list[float]]:
    """seconds: of each run, all in. equal_pct: for each pair of the baseline and its copy how far they
    are apart. speedup, half_width_pct: of each run that came to one.
    """
    folder = read_folder(PROBLEM)
    loaded = load_problem(folder.path, folder.problem)
    limits = folder.problem.limits
    figures: dict[str, list[float]] = {
        name: [] for name in ("seconds", "equal_pct", "speedup", "half_width_pct")
    }
    sandbox = BubblewrapSandbox()
    pool = BoxPool(sandbox, CpuDevice(), [limits])
    try:
        with tempfile.TemporaryDirectory(prefix="judge-bench-") as cache:
            built = BuildStage(pool, Path(cache)).prepare(_job(folder.problem), limits, Watch())
            assert not isinstance(built, Outcome), built
            for _ in range(runs):
                pool.refill()
                began = time.monotonic()
                outcome = evaluate_ranked(_job(folder.problem), loaded, pool, Watch(), built)
                assert isinstance(outcome, Outcome)
                figures["seconds"].append(time.monotonic() - began)
                _note(figures, outcome)
    finally:
        pool.close()
        sandbox.close()
    return figures


def _job(problem: Problem) -> Job:
    assert problem.best is not None
    path = PROBLEM / problem.best.file
    secret = draw_secret_cases(problem, os.urandom(KEY_BYTES))
    return Job(
        id=1,
        submission_id=1,
        problem_id=problem.id,
        problem_digest=problem.digest,
        device="cpu",
        mode=Mode.RANKED,
        attempt=1,
        key=os.urandom(KEY_BYTES),
        main=path.name,
        files=(SourceFile(path.name, path.read_bytes()),),
        cases=cases_of_mode(problem, secret, Mode.RANKED),
    )


def _note(figures: dict[str, list[float]], outcome: Outcome) -> None:
    comparison = outcome.comparison
    assert comparison is not None, outcome.message
    for (block, _), values in pair_values(comparison).items():
        if block is not Block.CANDIDATE:
            figures["equal_pct"] += [100 * abs(value) for value in values if value is not None]
    made = claim(comparison, "cpu", "topk")
    if made is not None:
        figures["speedup"].append(made.speedup)
        figures["half_width_pct"].append(100 * (made.high / made.low) ** 0.5 - 100)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
