"""The program in a box: loads one submission and calls it whenever the judge says go.

    python -s -P /judge/harness/main.py timed|build

The judge outside holds inputs, expected outputs, clock and verdict; this program only ferries. It
is at the submission's mercy, and nothing it says is believed: a lie here can only make a verdict worse.

Messages are JSON frames on the socket that $JUDGE_CHANNEL names. The judge sends `confine` (with a
system call filter), `load` (with one memfd: the files), then for every case `lay_out` (with two
memfds, inputs and outputs, where they are new), and `tear_down` at the end. Calls themselves need
no message: both sides watch words in shared memory.

    go      in the inputs' memfd, read-only here. Odd: call the kernel. Even: read the channel.
    done    in the outputs' memfd: repeats the go word when the output is complete.
    status  in the outputs' memfd: 1 says that a frame explains what went wrong.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from channel import Channel  # noqa: E402

if __name__ == "__main__":
    # Before the imports that take a second: the judge starts several boxes at once.
    connected = Channel(os.environ["JUDGE_CHANNEL"])
    from serving import serve

    sys.path.remove(HERE)
    # A submission may have files of the same names.
    for name in ("channel", "confine", "loading", "serving"):
        del sys.modules[name]
    serve(connected, sys.argv[1])
