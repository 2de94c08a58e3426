"""What the build stage keeps on disk: shared objects and folders of extensions, by digest.

Nothing that a box left is followed or trusted: links and special files are dropped, sizes and
counts are bounded, and what is kept is a copy that no box can write to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER_BYTES: Final = 256 << 20
FOLDER_ENTRIES: Final = 2_000
FOLDER_DEPTH: Final = 16
CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptModule:
    """A shared object and what its compiler said."""

    content: bytes
    log: str


@dataclass(frozen=True, slots=True)
class KeptFolder:
    """A folder of extensions, readable by all, and what was said while they were compiled."""

    path: Path
    log: str


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder that a box writes to. It counts what lies in it, since the disk is the host's."""

    path: Path

    def is_too_large(self) -> bool:
        """Whether it holds over 256 MiB or 2,000 entries, is too deep, or cannot be looked through."""
        total = 0
        try:
            for count, entry in enumerate(_entries(self.path)):
                try:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                except FileNotFoundError:
                    continue  # the box is at work
                if count >= FOLDER_ENTRIES or total > FOLDER_BYTES:
                    return True
        except _UnfitError:
            return True
        return False


class BuildCache:
    """One directory, which only the runner can enter. Keys are hexadecimal digests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for kind in ("native", "extensions"):
            (directory / kind).mkdir(mode=0o700, parents=True, exist_ok=True)

    def module(self, key: str) -> KeptModule | None:
        path = self._directory / "native" / f"{key}.so"
        try:
            return KeptModule(path.read_bytes(), path.with_suffix(".log").read_text("utf-8"))
        except FileNotFoundError:
            return None

    def keep_module(self, key: str, module: KeptModule) -> None:
        path = self._directory / "native" / f"{key}.so"
        _write(path.with_suffix(".log"), module.log.encode())
        _write(path, module.content)

    def folder(self, key: str) -> KeptFolder | None:
        path = self._directory / "extensions" / key
        try:
            return KeptFolder(path, (path.parent / f"{key}.log").read_text("utf-8"))
        except FileNotFoundError:
            return None

    @contextmanager
    def new_folder(self) -> Iterator[NewFolder]:
        """An empty folder for a build box; removed in the end."""
        parent = tempfile.mkdtemp(dir=self._directory, prefix="new-")
        try:
            path = Path(parent) / "out"
            path.mkdir()
            with _of_bounded_size(path):
                yield NewFolder(path)
        finally:
            _remove(parent)

    def keep_folder(self, key: str, left: NewFolder, log: str) -> KeptFolder:
        """Copy what a box has left, once the box has ended; regular files only.

        A folder that another runner has kept meanwhile stays: boxes may be looking into it.
        """
        path = self._directory / "extensions" / key
        with tempfile.TemporaryDirectory(dir=self._directory, prefix="copy-") as parent:
            copy = Path(parent) / "copy"
            copy_regular_files(left.path, copy)
            try:
                copy.rename(path)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        # The log comes last: without it the folder does not count.
        _write(path.parent / f"{key}.log", log.encode())
        return KeptFolder(path, log)


@contextmanager
def _of_bounded_size(path: Path) -> Iterator[None]:
    """Give a folder a file system of its own that is full at its limits, where that can be done.

    Looking at a folder misses files that were opened and then removed: they fill the disk unseen.
    Without the right to mount, looking is all there is.
    """
    options = f"size={FOLDER_BYTES},nr_inodes={FOLDER_ENTRIES},mode=0700,nosuid,nodev"
    mount = ["mount", "-t", "tmpfs", "-o", options, "judge-build", str(path)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


def copy_regular_files(source: Path, target: Path) -> None:
    """Copy a tree that a stranger made: links and special files are left out.

    Stops at the limits of a folder; what lies beyond them is left out too.
    """
    target.mkdir()
    target.chmod(0o755)
    left = FOLDER_BYTES
    with contextlib.suppress(_UnfitError):
        for count, entry in enumerate(_entries(source)):
            if count >= FOLDER_ENTRIES:
                return
            copy = target / Path(entry.path).relative_to(source)
            if entry.is_dir(follow_symlinks=False):
                copy.mkdir()
                copy.chmod(0o755)
            elif entry.is_file(follow_symlinks=False):
                left -= _copy_file(entry.path, copy, left)


def _copy_file(source: str, target: Path, limit: int) -> int:
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise _UnfitError from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return 0
        with target.open("wb") as copy:
            shutil.copyfileobj(file, copy, CHUNK_BYTES)
    target.chmod(0o644)
    return found.st_size


class _UnfitError(Exception):
    """A tree that no compiler leaves: too deep, or closed to its reader."""


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a directory, parents first, no link followed; bounded by its reader.

    Raises _UnfitError on the way.
    """
    waiting = [(str(directory), 1)]
    while waiting:
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as found:
                for entry in found:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
        except FileNotFoundError:
            continue  # removed meanwhile by the box
        except (PermissionError, NotADirectoryError) as error:
            raise _UnfitError from error
        if waiting and waiting[-1][1] > FOLDER_DEPTH:
            raise _UnfitError


def _remove(tree: str) -> None:
    """Remove what a box has left. Not by `shutil`: a deep tree would exhaust its recursion."""
    # Without root, a folder that the box has closed must be opened first.
    subprocess.run(["chmod", "-R", "u+rwX", "--", tree], stderr=subprocess.DEVNULL, check=False)
    subprocess.run(["rm", "-rf", "--", tree], check=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).rename(path)
