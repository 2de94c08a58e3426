"""Contents that no submission has seen: counter-based streams from a job's 128-bit key."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

KEY_BYTES = 16


class Draw(IntEnum):
    """What a stream is for. Streams of different purposes never overlap."""

    TEST = 1
    WARM_UP = 2
    TIMED = 3
    CONSTANTS = 4
    REHEARSAL = 5
    NULL = 6


def stream(key: bytes, draw: Draw, case: int, call: int) -> np.random.Generator:
    """The stream for one call of one case.

    key: 16 random bytes. case, call: indices, 0 or more. Philox-4x64 has a counter of 256 bits,
    whose lowest word counts the blocks drawn: streams of different (draw, case, call) are apart by
    at least 2^64 blocks.
    Raises ValueError for a key of another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a job's key has {KEY_BYTES} bytes, got {len(key)}")
    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    counter = np.array([0, call, case, draw], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=words, counter=counter))


def unpredictable() -> np.random.Generator:
    """A stream from a key of the OS, for what a box must not foresee.

    A box sees some of what is drawn, poison and go words; that must not tell the rest, such as
    which elements will be sampled. A faster generator's state could be worked out from its output.
    """
    return np.random.Generator(np.random.Philox())
