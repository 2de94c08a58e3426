"""User ids of boxes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runners.ports import SandboxError
from runners.sandboxes.uids import UidPool


def test_two_pools_of_a_host_never_lend_the_same_id(tmp_path: Path) -> None:
    pools = [UidPool(tmp_path, first=100, count=6) for _ in range(2)]
    leases = [pool.take() for pool in pools for _ in range(3)]
    assert {lease.uid for lease in leases} == set(range(100, 106))
    with pytest.raises(SandboxError, match="all 6 user ids"):
        pools[0].take()
    for lease in leases:
        lease.release()


def test_a_lease_ends_with_its_process(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            UidPool(tmp_path, first=100, count=1).take()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    lease = UidPool(tmp_path, first=100, count=1).take()
    assert lease.uid == 100
    lease.release()


def test_an_id_that_was_given_back_rests_while_others_are_free(tmp_path: Path) -> None:
    pool = UidPool(tmp_path, first=100, count=3)
    seen = []
    for _ in range(4):
        lease = pool.take()
        seen.append(lease.uid)
        lease.release()
        lease.release()
    assert seen == [100, 101, 102, 100]
