"""What the program in a box does once it is connected: load one submission, call it at every go word."""

from __future__ import annotations

import gc
import mmap
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import confine
import loading
import torch
from channel import Channel

HEAD_BYTES = 4096
STATUS_WORD = 8

Kernel = Callable[[Any], Any]
Report = Callable[[BaseException], None]


class Memory:
    """The two shared memfds, mapped. Inputs are read-only: writing to one ends the process."""

    def __init__(self, fds: list[int]) -> None:
        inputs_fd, outputs_fd = fds
        populate = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self.inputs = mmap.mmap(inputs_fd, 0, populate, mmap.PROT_READ)
        self.outputs = mmap.mmap(outputs_fd, 0, populate, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(inputs_fd)
        os.close(outputs_fd)
        self.go = memoryview(self.inputs)[:HEAD_BYTES].cast("Q")
        self.words = memoryview(self.outputs)[:HEAD_BYTES].cast("Q")

    def tensor(self, spec: dict[str, Any], memory: mmap.mmap) -> torch.Tensor:
        dtype, shape = getattr(torch, spec["dtype"]), spec["shape"]
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that it cannot mark a tensor read-only
            flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=spec["offset"])
        return flat.view(shape)


class Case:
    """One case: for each position of a chain the `data` that is handed over, and its outputs."""

    def __init__(self, layout: dict[str, Any], memory: Memory, program: loading.Program) -> None:
        self.names = layout["names"]
        inputs = [
            memory.tensor(item, memory.inputs) if "dtype" in item else item["value"]
            for item in layout["data"]
        ]
        self.outputs = [
            tuple(memory.tensor(spec, memory.outputs) for spec in specs)
            for specs in layout["outputs"]
        ]
        self.handed = layout["output_in_data"]
        self.data = [
            program.prepare((*inputs, *(outputs if self.handed else ())), outputs)
            for outputs in self.outputs
        ]


def settle(
    returned: Any, outputs: tuple[torch.Tensor, ...], names: list[str], handed: bool
) -> None:
    """Bring what the kernel returned to the judge's outputs; raises BadReturnError for what does not fit."""
    if returned is None and not handed:
        raise loading.BadReturnError("custom_kernel returned None: return the output tensor")
    tensors = (returned,) if isinstance(returned, torch.Tensor) else returned
    if not isinstance(tensors, (tuple, list)):
        raise loading.BadReturnError(
            f"custom_kernel returned a {type(returned).__name__}: return a tensor, or a tuple of"
            f" tensors in the order {', '.join(names)}"
        )
    if len(tensors) != len(outputs):
        raise loading.BadReturnError(
            f"custom_kernel returned {len(tensors)} tensors, expected {len(outputs)}:"
            f" {', '.join(names)}"
        )
    for name, tensor, output in zip(names, tensors, outputs, strict=True):
        if tensor is output:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise loading.BadReturnError(
                f"custom_kernel returned a {type(tensor).__name__} for output {name!r}: return a"
                " tensor"
            )
        got, expected = describe(tensor), describe(output)
        if got != expected:
            raise loading.BadReturnError(
                f"custom_kernel returned {got} for output {name!r}, expected {expected}"
            )
        output.copy_(tensor.detach())


def describe(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}{list(tensor.shape)} on {tensor.device.type}"


def serve_calls(case: Case, memory: Memory, kernel: Kernel, report: Report, last: int) -> None:
    """Call the kernel for every odd go word after `last`; return at an even one."""
    go, words, names, handed = memory.go, memory.words, case.names, case.handed
    # What a kernel returns that wrote to the handed outputs: the one tensor, or the tuple of them.
    handed_back = [outputs if len(outputs) > 1 else outputs[0] for outputs in case.outputs]
    slots = list(zip(case.data, case.outputs, handed_back, strict=True))
    share_core = os.environ.get("JUDGE_SHARED_CORE") == "1"
    # Giving a lock back is a locked instruction: it completes every store before it, streaming
    # stores too. Taking it again belongs outside the time from go to done.
    fence = threading.Lock()
    complete_stores = fence.release
    position = 0
    while True:
        data, outputs, expected = slots[position]
        fence.acquire()
        while (word := go[0]) == last:
            if share_core:
                os.sched_yield()
        last = word
        if not word & 1:
            return
        try:
            returned = kernel(data)
            if returned is not expected:
                settle(returned, outputs, names, handed)
        except BaseException as error:
            report(error)
            words[STATUS_WORD] = 1
        complete_stores()
        words[0] = word
        position = (position + 1) % len(slots)


def serve(channel: Channel, mode: str) -> None:
    """Do as the judge says until it ends this box. mode: `timed` or `build`."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    loading.import_what_submissions_use(mode, needs_build=lambda name: leave(channel, name))
    frame, _ = channel.receive()
    confine.hide_memory()
    if frame["filter"]:
        confine.apply_filter(bytes.fromhex(frame["filter"]))
    # What exists by now stays: the collector need not walk it during calls.
    gc.collect()
    gc.freeze()
    channel.send(kind="ready")

    def report(error: BaseException) -> None:
        channel.send(kind="fault", **loading.explain(error))

    frame, fds = channel.receive()
    try:
        program = loading.load(frame["program"], frame["main"], fds[0])
    except BaseException as error:
        report(error)
        channel.wait_for_the_end()
    channel.send(
        kind="loaded", setup=program.setup is not None, teardown=program.teardown is not None
    )

    memory = None
    while True:
        frame, fds = channel.receive()
        try:
            if frame["kind"] == "tear_down":
                program.teardown()
                channel.send(kind="torn_down")
                continue
            if fds:
                memory = Memory(fds)
            assert memory is not None
            if frame["set_up"] and program.setup is not None:
                constants = {
                    name: memory.tensor(spec, memory.inputs)
                    for name, spec in frame["layout"]["constants"].items()
                }
                program.setup(constants, frame["meta"])
            case = Case(frame["layout"], memory, program)
        except BaseException as error:
            report(error)
            channel.wait_for_the_end()
            raise
        last = memory.go[0]  # once `laid_out` is said, the next word may come at any time
        channel.send(kind="laid_out")
        serve_calls(case, memory, program.kernel, report, last)


def leave(channel: Channel, name: str) -> None:
    """The submission wants an extension that is not built: say so, and let no `except` go on."""
    channel.send(kind="needs_build", name=name)
    channel.wait_for_the_end()
