"""Boxes that are started, have torch imported and wait, with nothing of a submission in them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from judge.model import Limits
from runners.evaluator import frames
from runners.evaluator.call import Conditions
from runners.ports import Box, BoxSpec, Device, Phase, Sandbox, SandboxError
from runners.sandboxes.seccomp import timed_filter_bpf

HARNESS: Final = Path(__file__).resolve().parent.parent / "harness"
HARNESS_INSIDE: Final = "/judge/harness"
CACHE_INSIDE: Final = "/judge/cache"

START_S: Final = 60.0
HIGH_BYTES: Final = 1 << 30

CACHE_CAP_BYTES: Final = 64 << 20
"""Virtual machines report the last-level cache of the whole host; more than this is not evicted."""

EVICTION_FACTOR: Final = 2

Resources = tuple[int, int, int, int]


def environment(threads: int = 1) -> Mapping[str, str]:
    """What every box has as its environment, equal for every submission.

    The malloc settings keep freed memory: else page faults make processes of the same code differ
    by several per cent. Passive OpenMP threads do not spin beside the clock.
    """
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "MKL_NUM_THREADS": str(threads),
        "MALLOC_MMAP_THRESHOLD_": str(HIGH_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(HIGH_BYTES),
        "MALLOC_TOP_PAD_": str(64 << 20),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        # It would compile a helper at import, with torch tensors working as well without it.
        "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",
    }


def harness_command(phase: Phase) -> Sequence[str]:
    """argv of the harness. Not `python -I`: that would ignore the fixed PYTHONHASHSEED; the
    environment is the judge's own, and -s and -P keep other paths out."""
    return (sys.executable, "-s", "-P", f"{HARNESS_INSIDE}/main.py", phase.value)


def box_spec(
    phase: Phase,
    device: Device,
    limits: Limits,
    read_only: Mapping[Path, str] | None = None,
) -> BoxSpec:
    """A box with the harness in it. read_only: more that it sees, host path to path inside."""
    cores = device.box_cores()
    shared = {"JUDGE_SHARED_CORE": "1"} if device.evaluator_core() in cores else {}
    return BoxSpec(
        phase=phase,
        command=harness_command(phase),
        read_only={HARNESS: HARNESS_INSIDE, **(read_only or {})},
        environment={**environment(len(cores)), **shared},
        cores=cores,
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        tmp_bytes=limits.tmp_bytes,
        output_bytes=limits.output_bytes,
    )


def confine(box: Box, phase: Phase) -> None:
    """Give a new box its filter. Answered by `ready` once its imports are done."""
    filter_ = timed_filter_bpf().hex() if phase is Phase.TIMED else ""
    box.send_memory(json.dumps({"kind": "confine", "filter": filter_}).encode(), ())


def await_ready(box: Box, cores: Sequence[int]) -> None:
    """Wait until the harness has imported everything, and leave it these cores alone.

    Raises SandboxError if it does not get ready.
    """
    heard = frames.hear(box, time.monotonic() + START_S, lambda: None)
    if heard != frames.Ready():
        end = box.kill()
        printed = end.output.decode(errors="replace").strip()[-2000:]
        raise SandboxError(f"the harness did not get ready ({heard}); it printed: {printed}")
    box.pin(cores)


class BoxPool:
    """Boxes for the timed phase, each used once. Launch and use it from one thread.

    The caller kills what it takes. `refill` belongs outside timed windows: starting a box costs a
    second of the machine.
    """

    def __init__(
        self, sandbox: Sandbox, device: Device, limits: Sequence[Limits], ready: int = 2
    ) -> None:
        """limits: those of the problems that will be judged. ready: boxes kept for each kind."""
        self.sandbox = sandbox
        self.device = device
        self._ready = ready
        self._kinds = {_resources(kind): kind for kind in limits}
        self._boxes: dict[Resources, deque[Box]] = {kind: deque() for kind in self._kinds}

    @property
    def conditions(self) -> Conditions:
        """How boxes of this pool are run on its device."""
        cores = self.device.box_cores()
        cache = min(self.device.last_level_cache_bytes(), CACHE_CAP_BYTES)
        return Conditions(
            freezer=self.sandbox.isolation().freezer,
            shared_core=self.device.evaluator_core() in cores,
            box_core=cores[0],
            evict_bytes=EVICTION_FACTOR * cache,
        )

    def describe(self) -> Mapping[str, str]:
        """The environment of a run: the device, and what of it does not hold here."""
        facts = dict(self.device.describe())
        facts["sandbox"] = self.sandbox.name
        cache = self.device.last_level_cache_bytes()
        if cache > CACHE_CAP_BYTES:
            facts["eviction"] = (
                f"cold cases evict {EVICTION_FACTOR * CACHE_CAP_BYTES >> 20} MiB, less than twice"
                f" the {cache >> 20} MiB that this machine reports"
            )
        return facts

    def refill(self) -> None:
        """Start what is missing, all at once, and wait until it is ready."""
        started = []
        for kind, limits in self._kinds.items():
            boxes = self._boxes[kind]
            for _ in range(self._ready - len(boxes)):
                box = self._start(limits)
                boxes.append(box)
                started.append(box)
        for box in started:
            await_ready(box, self.device.box_cores())

    def take(self, limits: Limits, cache: Path | None = None) -> Box:
        """A ready box, started now if none is in store.

        cache: folder of built extensions; such a box is always started now.
        """
        return self.take_all(limits, [cache])[0]

    def take_all(self, limits: Limits, caches: Sequence[Path | None]) -> list[Box]:
        """Ready boxes, one for each cache; those that are not in store are started together."""
        stored = [self._from_store(limits) if cache is None else None for cache in caches]
        boxes = []
        started = []
        try:
            for box, cache in zip(stored, caches, strict=True):
                if box is None:
                    box = self._start(limits, cache)
                    started.append(box)
                boxes.append(box)
            for box in started:
                await_ready(box, self.device.box_cores())
        except SandboxError:
            for box in {*boxes, *filter(None, stored)}:
                box.kill()
            raise
        return boxes

    def _from_store(self, limits: Limits) -> Box | None:
        boxes = self._boxes.get(_resources(limits), deque())
        while boxes:
            box = boxes.popleft()
            if box.alive():
                return box
            box.kill()
        return None

    def close(self) -> None:
        """Kill every box in store."""
        for boxes in self._boxes.values():
            while boxes:
                boxes.popleft().kill()

    def _start(self, limits: Limits, cache: Path | None = None) -> Box:
        read_only = {} if cache is None else {cache: CACHE_INSIDE}
        spec = box_spec(Phase.TIMED, self.device, limits, read_only)
        # Importing is most of a start, and nothing is timed meanwhile: the evaluator's core helps.
        cores = tuple(sorted({*spec.cores, self.device.evaluator_core()}))
        box = self.sandbox.launch(replace(spec, cores=cores))
        confine(box, Phase.TIMED)
        return box


def _resources(limits: Limits) -> Resources:
    return limits.memory_bytes, limits.processes, limits.tmp_bytes, limits.output_bytes


def settle_down(device: Device) -> None:
    """Make this process fit to measure: one thread, on the evaluator's core."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {device.evaluator_core()})
