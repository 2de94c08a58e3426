"""Which cores a runner has for itself: no two runners of a host may share one.

A runner holds a lock file for each of its cores while it lives. The files lie where every runner of
the host sees them; runners in containers of their own do not, so give those disjoint CPU sets.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from runners.settings import SettingsError

SHARED = Path("/run/lock")
"""Open to every user on Debian and its kin, and emptied at each boot."""

FOLDER_VARIABLE = "JUDGE_RUNNER_LOCK_DIR"


def usable_cores() -> tuple[int, ...]:
    """The CPU numbers that this process may use, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def runners_that_fit(cores: int) -> int:
    """How many runners a machine holds: each has one core for its clock and one for its boxes."""
    return max(1, cores // 2)


class HeldCores:
    """The cores of one runner, from `hold` until `release` or the end of the process."""

    def __init__(self, files: list[int]) -> None:
        self._files = files

    @classmethod
    def hold(cls, cores: Iterable[int], name: str, folder: Path | None = None) -> HeldCores:
        """Take the cores for the runner of a name. Raises SettingsError, which names who has one.

        folder: where the lock files lie; by default where all runners of this host look.
        """
        held = cls([])
        for core in sorted(set(cores)):
            path = (folder or _folder()) / f"kernel-judge-core-{core}.lock"
            file = _open(path)
            held._files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = os.pread(file, 200, 0).decode(errors="replace").strip() or "another runner"
                held.release()
                raise SettingsError(
                    f"Core {core} belongs to {other} on this machine, and runners that share a core "
                    "spoil each other's times: give this one two cores of its own with --cores A,B "
                    f"({_free_words(usable_cores())}), or stop the other."
                ) from None
            # Only for the sentence above: the lock holds without it.
            with suppress(OSError):
                os.ftruncate(file, 0)
                os.pwrite(file, f"runner {name} (process {os.getpid()})\n".encode(), 0)
        return held

    def release(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def __enter__(self) -> HeldCores:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    return SHARED if os.access(SHARED, os.W_OK) else Path(tempfile.gettempdir())


def _open(path: Path) -> int:
    # Not with O_CREAT at once: in a folder like /tmp that is refused for another user's file.
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    for more in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        try:
            file = os.open(path, flags | more, 0o666)
        except OSError as error:
            fault = error
            continue
        with suppress(OSError):
            os.fchmod(file, 0o666)  # whatever the umask: the next runner may be another user's
        return file
    raise SettingsError(
        f"{path}: the lock of a core cannot be opened ({fault.strerror}); remove the file, or name a "
        f"folder for such locks in {FOLDER_VARIABLE}"
    )


def _free_words(cores: tuple[int, ...]) -> str:
    fit = runners_that_fit(len(cores))
    listed = ",".join(map(str, cores))
    return f"this machine offers cores {listed}: room for {fit} runner{'s' * (fit > 1)}"
