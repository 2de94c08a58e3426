"""The memory an evaluator shares with one box: two sealed memfds and what lies where in them."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from runners.problem import Inputs, OutputShapes, Scalar, Tensors

Bytes = npt.NDArray[np.uint8]

ALIGN: Final = 64
GUARD_BYTES: Final = 64
HEAD_BYTES: Final = 4096
"""The words lie in a page of their own before the tensors, each in its own cache line."""

GO_WORD: Final = 0
DONE_WORD: Final = 0
STATUS_WORD: Final = 8

# Not in the standard library's fcntl module before Python 3.13; from linux/fcntl.h.
F_ADD_SEALS: Final = 1033
F_SEAL_SEAL: Final = 0x1
F_SEAL_SHRINK: Final = 0x2
F_SEAL_GROW: Final = 0x4
F_SEAL_FUTURE_WRITE: Final = 0x10
MFD_NOEXEC_SEAL: Final = 0x8


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor lies. offset: bytes from the start of its region."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def size_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def spec(self, base: int) -> dict[str, Any]:
        """As the harness gets it. base: where the region starts in its memfd."""
        return {
            "dtype": str(self.dtype).removeprefix("torch."),
            "shape": list(self.shape),
            "offset": base + self.offset,
        }


def place(tensors: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> tuple[Slot, ...]:
    """Slots one after the other, aligned, without guards."""
    slots, offset = [], 0
    for name, (dtype, shape) in tensors.items():
        slot = Slot(name, dtype, tuple(shape), offset)
        slots.append(slot)
        offset += aligned(slot.size_bytes)
    return tuple(slots)


def extent(slots: tuple[Slot, ...]) -> int:
    """Bytes that the slots of a region take."""
    return max((aligned(slot.offset + slot.size_bytes) for slot in slots), default=0)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tensors of one case lie.

    inputs, scalars: what `generate` gives, by name; `order` tells how they follow each other.
    outputs: for each position of a chain its own slots, each with guard words before and after.
    output_in_data: whether a kernel is handed its outputs.
    """

    output_in_data: bool
    order: tuple[str, ...]
    inputs: tuple[Slot, ...]
    scalars: Mapping[str, Scalar]
    constants: tuple[Slot, ...]
    outputs: tuple[tuple[Slot, ...], ...]

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        outputs: OutputShapes,
        constants: Tensors,
        chain: int = 1,
        output_in_data: bool = True,
    ) -> Layout:
        return cls(
            output_in_data=output_in_data,
            order=tuple(inputs),
            inputs=place(_shapes(inputs)),
            scalars={
                name: value for name, value in inputs.items() if not isinstance(value, torch.Tensor)
            },
            constants=place(_shapes(constants)),
            outputs=tuple(_guarded(outputs, chain)),
        )

    @property
    def input_bytes(self) -> int:
        return extent(self.inputs)

    @property
    def constant_bytes(self) -> int:
        return extent(self.constants)

    @property
    def output_bytes(self) -> int:
        """All positions, with the guard after the last slot."""
        slots = [slot for position in self.outputs for slot in position]
        return extent(tuple(slots)) + GUARD_BYTES

    def pack(self, inputs: Inputs) -> Bytes:
        """The tensors as they will lie in the region, so that one copy reveals them all."""
        return pack(self.inputs, inputs, self.input_bytes)

    def matches(self, inputs: Inputs) -> bool:
        """Whether other inputs have the same names, shapes and scalars."""
        if tuple(inputs) != self.order:
            return False
        shapes = {slot.name: (slot.dtype, slot.shape) for slot in self.inputs}
        return all(
            shapes.get(name) == (value.dtype, tuple(value.shape))
            if isinstance(value, torch.Tensor)
            else name in self.scalars and repr(self.scalars[name]) == repr(value)
            for name, value in inputs.items()
        )

    def guards(self) -> tuple[slice, ...]:
        """Every stretch of the output region that belongs to no output."""
        spans, start = [], 0
        for position in self.outputs:
            for slot in position:
                spans.append(slice(start, slot.offset))
                start = slot.offset + slot.size_bytes
        spans.append(slice(start, self.output_bytes))
        return tuple(spans)

    def spec(self) -> dict[str, Any]:
        """What the harness needs to build `data` for every position."""
        places = {slot.name: slot.spec(self.input_base) for slot in self.inputs}
        return {
            "data": [places.get(name, {"value": self.scalars.get(name)}) for name in self.order],
            "outputs": [[slot.spec(HEAD_BYTES) for slot in slots] for slots in self.outputs],
            "names": [slot.name for slot in self.outputs[0]],
            "output_in_data": self.output_in_data,
            "constants": {slot.name: slot.spec(HEAD_BYTES) for slot in self.constants},
        }

    @property
    def input_base(self) -> int:
        """Constants come first in the memfd of the inputs."""
        return HEAD_BYTES + self.constant_bytes


def _guarded(outputs: OutputShapes, chain: int) -> list[tuple[Slot, ...]]:
    positions, offset = [], GUARD_BYTES
    for _ in range(chain):
        slots = []
        for name, (dtype, shape) in outputs.items():
            slot = Slot(name, dtype, tuple(shape), offset)
            slots.append(slot)
            offset += aligned(slot.size_bytes) + GUARD_BYTES
        positions.append(tuple(slots))
    return positions


def _shapes(values: Inputs | Tensors) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    return {
        name: (value.dtype, tuple(value.shape))
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    }


def pack(slots: tuple[Slot, ...], values: Inputs | Tensors, size: int) -> Bytes:
    """The bytes of the tensors, each at its slot's offset."""
    block = np.zeros(size, dtype=np.uint8)
    for slot in slots:
        value = values[slot.name]
        assert isinstance(value, torch.Tensor)
        if slot.size_bytes:
            flat = value.contiguous().reshape(-1).view(torch.uint8).numpy()
            block[slot.offset : slot.offset + slot.size_bytes] = flat
    return block


class Arena:
    """Shared memory of one box. The box sees `inputs` read-only and can resize neither part.

    go: written by the evaluator, in the inputs' memfd. done, status: written by the box. All three
    are 64-bit words behind memoryviews that are read and written whole.
    """

    def __init__(self, input_bytes: int, output_bytes: int) -> None:
        """input_bytes: constants and inputs; output_bytes: outputs and guards. Both pre-touched."""
        self.input_capacity = input_bytes
        self.output_capacity = output_bytes
        self._fds: list[int] = []
        inputs = self._share("judge-inputs", HEAD_BYTES + input_bytes, read_only=True)
        outputs = self._share("judge-outputs", HEAD_BYTES + output_bytes, read_only=False)
        self.go = memoryview(inputs)[:ALIGN].cast("Q")
        self.words = memoryview(outputs)[: 2 * ALIGN].cast("Q")
        self.inputs: Bytes = np.frombuffer(inputs, dtype=np.uint8)[HEAD_BYTES:]
        self.outputs: Bytes = np.frombuffer(outputs, dtype=np.uint8)[HEAD_BYTES:]

    @property
    def fds(self) -> tuple[int, ...]:
        """The memfds to hand over: inputs, outputs."""
        return tuple(self._fds)

    def fits(self, layout: Layout) -> bool:
        return (
            layout.constant_bytes + layout.input_bytes <= self.input_capacity
            and layout.output_bytes <= self.output_capacity
        )

    def close(self) -> None:
        """Close the descriptors. The mapping goes with the last array that looks into it."""
        while self._fds:
            os.close(self._fds.pop())

    def _share(self, name: str, size: int, read_only: bool) -> mmap.mmap:
        fd = sealable_memfd(name)
        self._fds.append(fd)
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        # Whoever touches a page first is charged for it: that must not be the box.
        np.frombuffer(memory, dtype=np.uint8)[:] = 0
        seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL
        fcntl.fcntl(fd, F_ADD_SEALS, seals | (F_SEAL_FUTURE_WRITE if read_only else 0))
        return memory


def sealable_memfd(name: str) -> int:
    """A new memfd that can be sealed, and cannot be executed where the kernel knows how to say so."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | MFD_NOEXEC_SEAL)
    except OSError:
        return os.memfd_create(name, flags)  # before Linux 6.3


def sealed_file(name: str, content: bytes) -> int:
    """A memfd with this content that nobody can change any more."""
    fd = sealable_memfd(name)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
    return fd
