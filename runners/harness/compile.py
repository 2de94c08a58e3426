"""Compiles a native submission inside a build box. Standard library only.

    python -s -P /judge/harness/compile.py

The judge sends one frame, with the command and the name of its result, and two memfds: the packed
files of the submission, and an empty one that the result is copied into. It counts towards the
box's memory limit. Exits as the compiler did; what the compiler prints is the box's output.
"""

import json
import os
import shutil
import socket
import subprocess
import sys

MAX_FRAME_BYTES = 64 << 10
SOURCE = "/tmp/submission"


def unpack(fd: int) -> None:
    with os.fdopen(fd, "rb") as packed:
        manifest = json.loads(packed.read(int.from_bytes(packed.read(8), "little")))
        for name, size in manifest:
            path = os.path.join(SOURCE, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(packed.read(size))


def main() -> int:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(os.environ["JUDGE_CHANNEL"])
    frame, fds, _, _ = socket.recv_fds(channel, MAX_FRAME_BYTES, 2)
    if not frame:
        return 1  # the judge is gone
    told = json.loads(frame)
    unpack(fds[0])
    status = subprocess.call(told["command"], cwd=SOURCE)
    if status == 0:
        with open(told["result"], "rb") as result, os.fdopen(fds[1], "wb") as copy:
            shutil.copyfileobj(result, copy)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
