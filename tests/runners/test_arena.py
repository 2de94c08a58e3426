"""Shared memory: nobody can resize it, inputs are read-only beyond the evaluator, guards cover all gaps."""

import mmap
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runners.evaluator.arena import ALIGN, GUARD_BYTES, HEAD_BYTES, Arena, Layout, sealed_file

DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.complex128, torch.int64]
SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
OUTPUTS = st.dictionaries(
    st.text("abc", min_size=1), st.tuples(st.sampled_from(DTYPES), SHAPES), min_size=1, max_size=4
)


@pytest.fixture
def arena():
    made = Arena(1000, 5000)
    yield made
    made.close()


def test_neither_part_can_be_resized_or_sealed_further(arena: Arena) -> None:
    for fd in arena.fds:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 10)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 1 << 20)


def test_the_inputs_cannot_be_mapped_writable_or_written_through_their_descriptor(
    arena: Arena,
) -> None:
    inputs, outputs = arena.fds
    with pytest.raises(PermissionError):
        mmap.mmap(inputs, 0)
    with pytest.raises(PermissionError):
        os.pwrite(inputs, b"x", 0)
    mmap.mmap(outputs, 0).close()


def test_what_the_evaluator_writes_is_seen_through_a_read_only_mapping(arena: Arena) -> None:
    seen = mmap.mmap(arena.fds[0], 0, prot=mmap.PROT_READ)
    arena.inputs[:3] = (1, 2, 3)
    arena.go[0] = 2**64 - 2
    assert seen[HEAD_BYTES : HEAD_BYTES + 3] == b"\x01\x02\x03"
    assert int.from_bytes(seen[:8], "little") == 2**64 - 2
    seen.close()


def test_a_sealed_file_cannot_be_changed() -> None:
    fd = sealed_file("test", b"content")
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"x", 0)
    assert os.read(fd, 100) == b"content"
    os.close(fd)


@given(OUTPUTS, st.integers(1, 4))
def test_every_byte_of_the_output_region_is_an_output_or_guarded(outputs, chain: int) -> None:
    layout = Layout.of({}, outputs, {}, chain)
    owners = np.zeros(layout.output_bytes, dtype=int)
    for guard in layout.guards():
        owners[guard] += 1
    for slots in layout.outputs:
        for slot in slots:
            owners[slot.offset : slot.offset + slot.size_bytes] += 1
            assert slot.offset % ALIGN == 0
    assert (owners == 1).all()


@given(OUTPUTS)
def test_guards_lie_on_both_sides_of_every_output(outputs) -> None:
    layout = Layout.of({}, outputs, {})
    edges = [0, *(e for s in layout.outputs[0] for e in (s.offset, s.offset + s.size_bytes))]
    edges.append(layout.output_bytes)
    gaps = [stop - start for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    assert min(gaps) >= GUARD_BYTES


def test_packed_inputs_lie_where_their_slots_say() -> None:
    inputs = {
        "a": torch.arange(5, dtype=torch.int16),
        "k": 3,
        "b": torch.tensor(2.5, dtype=torch.bfloat16),
        "none": torch.empty(0, 7),
        "t": torch.arange(6.0).reshape(2, 3).T,
    }
    layout = Layout.of(inputs, {"y": (torch.float32, (1,))}, {})
    block = layout.pack(inputs)
    for slot in layout.inputs:
        lying = torch.from_numpy(block[slot.offset : slot.offset + slot.size_bytes])
        assert torch.equal(lying.view(slot.dtype).view(slot.shape), inputs[slot.name])


def test_inputs_of_other_shapes_names_or_scalars_do_not_match_a_layout() -> None:
    inputs = {"a": torch.zeros(3), "k": 1}
    layout = Layout.of(inputs, {"y": (torch.float32, (1,))}, {})
    assert layout.matches({"a": torch.ones(3), "k": 1})
    assert not layout.matches({"a": torch.zeros(4), "k": 1})
    assert not layout.matches({"a": torch.zeros(3, dtype=torch.float64), "k": 1})
    assert not layout.matches({"a": torch.zeros(3), "k": 2})
    assert not layout.matches({"a": torch.zeros(3), "k": True})
    assert not layout.matches({"k": 1, "a": torch.zeros(3)})
    assert not layout.matches({"a": 1, "k": torch.zeros(3)})
