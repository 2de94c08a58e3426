"""How fast boxes are on this machine: launch, freeze, thaw, kill."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runners.ports import BoxSpec, Phase, Sandbox, SandboxError
from runners.sandboxes.bubblewrap import BubblewrapSandbox

_CONNECT = (
    "import os, socket;"
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
    "s.connect(os.environ['JUDGE_CHANNEL']);"
)
_SPIN = _CONNECT + "\nwhile True: pass"
# Shown in every box: it ends at once, and never connects.
_SHORTEST_PROGRAM = ("/usr/bin/setpriv", "--version")


@dataclass(frozen=True, slots=True)
class Figure:
    """Times of one step in nanoseconds, in the order they were taken."""

    name: str
    samples_ns: tuple[int, ...]

    @property
    def median_us(self) -> float:
        return statistics.median(self.samples_ns) / 1000

    @property
    def middle_half_us(self) -> tuple[float, float]:
        """First and third quartile."""
        low, _, high = statistics.quantiles(self.samples_ns, n=4)
        return low / 1000, high / 1000


def measure(sandbox: Sandbox, rounds: int = 30) -> tuple[Figure, ...]:
    """Launch, freeze, thaw and kill of a box that spins on one core; freezes come ten per box.

    `start and end` is a program that does nothing: all that a box costs beside its program.
    """
    cores = sorted(os.sched_getaffinity(0))
    spec = BoxSpec(
        phase=Phase.TIMED,
        command=[sys.executable, "-I", "-S", "-c", _SPIN],
        read_only={},
        environment={},
        cores=(cores[-1],),
        memory_bytes=256 << 20,
        processes=16,
        tmp_bytes=1 << 20,
        output_bytes=1 << 16,
    )
    samples: dict[str, list[int]] = {
        name: [] for name in ("start and end", "launch", "freeze", "thaw", "kill")
    }
    for _ in range(rounds):
        if sandbox.isolation().own_uid:
            samples["start and end"].append(_time(lambda: _start_and_end(sandbox, spec)))
        began_ns = time.perf_counter_ns()
        box = sandbox.launch(spec)
        samples["launch"].append(time.perf_counter_ns() - began_ns)
        if sandbox.isolation().freezer:
            for _ in range(10):
                _let_it_run()
                samples["freeze"].append(_time(box.freeze))
                samples["thaw"].append(_time(box.thaw))
        samples["kill"].append(_time(box.kill))
    return tuple(Figure(name, tuple(taken)) for name, taken in samples.items() if taken)


def table(figures: Sequence[Figure]) -> str:
    """The figures as plain text, microseconds."""
    lines = [f"{'step':<16}{'n':>6}{'median us':>12}{'middle half us':>22}"]
    for figure in figures:
        low, high = figure.middle_half_us
        spread = f"{low:.0f} - {high:.0f}"
        n = len(figure.samples_ns)
        lines.append(f"{figure.name:<16}{n:>6}{figure.median_us:>12.0f}{spread:>22}")
    return "\n".join(lines)


def _let_it_run() -> None:
    """A box that has not run since its thaw counts as frozen still: that would measure nothing."""
    until_ns = time.perf_counter_ns() + 2_000_000
    while time.perf_counter_ns() < until_ns:
        pass


def _time(step: Callable[[], object]) -> int:
    began_ns = time.perf_counter_ns()
    step()
    return time.perf_counter_ns() - began_ns


def _start_and_end(sandbox: Sandbox, spec: BoxSpec) -> None:
    try:
        box = sandbox.launch(replace(spec, command=_SHORTEST_PROGRAM))
    except SandboxError:
        return
    box.kill()


def main() -> None:
    """Print the figures of bubblewrap boxes."""
    sandbox = BubblewrapSandbox()
    print(table(measure(sandbox)))
    sandbox.close()


if __name__ == "__main__":
    main()
