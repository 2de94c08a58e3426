"""`make bench-honesty`: kernels of a known difference, judged by box pairs and by the usual loop.

Every kernel repeats one small operation: 400 times, or 1, 2 or 5 % more often. In each round each of
them, and a copy of the first, is judged once by each path, in turns: as a candidate against the
baseline in box pairs until the stopping rule is content, and by a loop as most boards have it, one
process, one input, the mean of up to 100 calls. The table tells what either path made of it, and
`bench-results/honesty.json` holds every number. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from judge.catalog import load_problem as read_folder
from judge.comparing import CONFIDENCE, LOOKS, next_look
from judge.model import Block, Pair, SourceFile, Stage
from judge.pairs import pair_value
from judge.stats import Estimate
from runners.devices.cpu import CpuDevice
from runners.evaluator.pair import Duel, Side
from runners.evaluator.pool import BoxPool, settle_down
from runners.evaluator.program import Program
from runners.evaluator.session import Budget, Watch
from runners.problem import LoadedProblem, load_problem
from runners.sandboxes.bubblewrap import BubblewrapSandbox
from tests.bench.orders import Judged, Looped, Round, rows_of, table
from tests.bench.repeats import (
    BASE,
    LOOP,
    constant_from,
    constant_of,
    kernels,
    truths_of,
    write_folder,
)

RESULTS: Final = Path("bench-results")
MEASURING_S: Final = 60.0
"""The most that one comparison may measure, starts of boxes not counted."""

CALIBRATION_PAIRS: Final = 8


@dataclass(slots=True)
class Bench:
    """The folder's problem, and a pool of boxes for it."""

    problem: LoadedProblem
    folder: Path
    boxes: BoxPool

    def side(self, name: str) -> Side:
        path = self.folder / "submissions" / f"{name}.py"
        return Side(Program("python", path.name, (SourceFile(path.name, path.read_bytes()),)))

    def judged(self, name: str) -> Judged:
        """One comparison with the baseline: candidate pairs until the stopping rule ends it.

        Pairs after the last completed look do not count, as in a ranked run.
        """
        with self._duel() as duel:
            values: list[float] = []
            seconds = 0.0
            wanted: int | None = LOOKS[0]
            while wanted is not None:
                value, taken_s = self._pair(duel, ("baseline", name))
                values.append(value)
                seconds += taken_s
                fitting = max(LOOKS[0], int(MEASURING_S / (seconds / len(values))))
                wanted = next_look(values, fitting)
        counted = max(look for look in LOOKS if look <= len(values))
        return Judged(tuple(values[:counted]), seconds)

    def looped(self, name: str) -> Looped:
        """What the usual loop makes of a kernel, on the core that boxes have."""
        path = self.folder / "submissions" / f"{name}.py"
        core = str(self.boxes.device.box_cores()[0])
        printed = subprocess.run(
            [sys.executable, "-c", LOOP, str(path), core],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        told = json.loads(printed)
        return Looped(told["mean_ns"], told["error_ns"], told["seconds"])

    def calibrate(self) -> tuple[Estimate, float]:
        """Log ratio of the baseline over a kernel of twice its repetitions; seconds of one pair."""
        began = time.monotonic()
        with self._duel() as duel:
            values = [self._pair(duel, ("baseline", "double"))[0] for _ in range(CALIBRATION_PAIRS)]
        return Estimate.of(values), (time.monotonic() - began) / CALIBRATION_PAIRS

    @contextmanager
    def _duel(self) -> Iterator[Duel]:
        case = next(c for c in self.problem.problem.cases if c.stage is Stage.TIMING)
        duel = Duel(
            self.problem,
            [(0, case)],
            secrets.token_bytes(16),
            self.boxes,
            self.problem.problem.limits,
        )
        try:
            yield duel
        finally:
            duel.end()

    def _pair(self, duel: Duel, names: tuple[str, str]) -> tuple[float, float]:
        """The log ratio of a box pair, and its seconds without the start of its boxes."""
        self.boxes.refill()
        began = time.monotonic()
        sides = (self.side(names[0]), self.side(names[1]))
        pair = duel.pair(Block.CANDIDATE, 0, sides, Budget(duel.limits, began, Watch()))
        seconds = time.monotonic() - began
        value = pair_value(pair) if isinstance(pair, Pair) else None
        if value is None:
            raise RuntimeError(f"a kernel of the bench was not measured: {pair}")
        return value, seconds


@contextmanager
def open_bench() -> Iterator[Bench]:
    device = CpuDevice()
    settle_down(device)
    with tempfile.TemporaryDirectory(prefix="judge-honesty-") as parent:
        folder = Path(parent) / "repeats"
        write_folder(folder)
        problem = load_problem(folder, read_folder(folder).problem)
        sandbox = BubblewrapSandbox()
        boxes = BoxPool(sandbox, device, [problem.problem.limits])
        try:
            yield Bench(problem, folder, boxes)
        finally:
            boxes.close()
            sandbox.close()


def run_round(bench: Bench) -> Round:
    """Every kernel once by each path, one after the other."""
    looped, judged = {}, {}
    for kernel in kernels():
        looped[kernel.name] = bench.looped(kernel.name)
        judged[kernel.name] = bench.judged(kernel.name)
    return Round(judged, looped)


def write_results(rounds: Sequence[Round], truths: Mapping[int, float], constant: float) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "honesty.json"
    told = {
        "at": datetime.now(UTC).isoformat(),
        "base_repeats": BASE,
        "constant_repeats": constant,
        "true_log_differences": truths,
        "rows": [asdict(row) for row in rows_of(rounds, truths)],
        "rounds": [asdict(one) for one in rounds],
    }
    path.write_text(json.dumps(told, indent=1) + "\n")
    return path


def time_needed(count: int, pair_s: float) -> str:
    """How long a bench of so many rounds takes at least and at most, in words."""
    comparisons = count * len(kernels())
    least, most = (comparisons * pairs * pair_s / 60 for pairs in (LOOKS[0], LOOKS[-1]))
    return (
        f"{count} rounds of {len(kernels())} kernels: {least:.0f} to {most:.0f} minutes"
        f" ({pair_s:.1f} s a box pair, {LOOKS[0]} to {LOOKS[-1]} pairs a kernel);"
        " Ctrl-C ends it after the last whole round"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.honesty", description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="rounds; 40 by default")
    count: int = parser.parse_args(arguments).count
    if count < 1:
        parser.error("--count must be 1 or more")
    rounds: list[Round] = []
    with open_bench() as bench:
        double, pair_s = bench.calibrate()
        constant = constant_from(double)
        truths = truths_of(constant)
        low, high = sorted(constant_of(bound) / BASE for bound in double.interval(CONFIDENCE))
        said = (
            f"a call takes {low:+.2%} to {high:+.2%} besides its {BASE} repetitions,"
            f" taken as {constant / BASE:+.2%}"
        )
        print(f"{said}; {time_needed(count, pair_s)}", file=sys.stderr)
        try:
            while len(rounds) < count:
                rounds.append(run_round(bench))
                write_results(rounds, truths, constant)
                print(f"round {len(rounds)} of {count}", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    if not rounds:
        return 130
    print(table(rows_of(rounds, truths)))
    print(f"Every number is in {RESULTS / 'honesty.json'}.")
    return 0 if len(rounds) == count else 130


if __name__ == "__main__":
    sys.exit(main())
