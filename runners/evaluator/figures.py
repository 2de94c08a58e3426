"""What the measuring path itself costs on this machine, taken through a real box.

`python -m runners.evaluator.figures` prints the figures as JSON: nanoseconds, one list per figure.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Final

import torch

from judge.model import Limits
from runners.devices.cpu import CpuDevice
from runners.evaluator.arena import DONE_WORD, GO_WORD, Layout
from runners.evaluator.call import Line, Start, clock_ns
from runners.evaluator.null import NullArm
from runners.evaluator.pool import BoxPool, settle_down
from runners.sandboxes.bubblewrap import BubblewrapSandbox

ROUND_TRIPS: Final = 5_000
CALLS: Final = 200
ELEMENTS: Final = 1024


def measure(boxes: BoxPool) -> dict[str, list[int]]:
    """Samples in nanoseconds, in the order they were taken.

    round_trip: from go to done, both sides spinning, nothing else between. null_call, null_chain_8:
    the whole path with the empty kernel and one output of 1024 floats. freeze, thaw: where boxes
    can be frozen. box_start: from launch until torch is imported and the filter is on.
    """
    settle_down(boxes.device)
    figures: dict[str, list[int]] = {}
    started = clock_ns()
    null = NullArm(boxes, Limits())
    figures["box_start"] = [clock_ns() - started]
    gc.disable()
    try:
        for name, chain in (("null_call", 1), ("null_chain_8", 8)):
            outputs = {"y": (torch.float32, (ELEMENTS,))}
            null.lay_out(Layout.of({}, outputs, {}, chain), Start(frozen=False, cold=False))
            figures[name] = [null.sample_ns() for _ in range(CALLS)]
        line = null.line
        if boxes.conditions.freezer:
            figures["thaw"], figures["freeze"] = [], []
            for _ in range(CALLS):
                figures["thaw"].append(_took_ns(line.box.thaw))
                figures["freeze"].append(_took_ns(line.box.freeze))
            line.box.thaw()
        figures["round_trip"] = round_trips_ns(line, ROUND_TRIPS)
    finally:
        gc.enable()
        null.end()
    return figures


def round_trips_ns(line: Line, count: int) -> list[int]:
    """Times from a go word to its done word. The box must be running."""
    go, words = line.arena.go, line.arena.words
    nonces = (line.chance.integers(1 << 62, size=count) << 1 | 1).tolist()
    taken = []
    for nonce in nonces:
        started = clock_ns()
        go[GO_WORD] = nonce
        while words[DONE_WORD] != nonce:
            pass
        taken.append(clock_ns() - started)
    return taken


def _took_ns(step: Callable[[], None]) -> int:
    started = clock_ns()
    step()
    return clock_ns() - started


def main() -> None:
    sandbox = BubblewrapSandbox()
    boxes = BoxPool(sandbox, CpuDevice(), [Limits()], ready=0)
    try:
        print(json.dumps({"at": time.time(), **measure(boxes)}))
    finally:
        boxes.close()
        sandbox.close()


if __name__ == "__main__":
    main()
