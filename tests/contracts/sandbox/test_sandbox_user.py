"""Boxes of a runner without root."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import runners
from tests.contracts.sandbox.lab import PRELUDE

pytestmark = pytest.mark.box


def test_an_ordinary_user_gets_a_working_box_that_is_marked_as_reduced() -> None:
    python = Path("/usr/bin/python3")
    if os.geteuid() != 0 or not python.exists():
        pytest.skip("needs root and the system's Python")
    pyseccomp = pytest.importorskip("pyseccomp")
    script = textwrap.dedent(f"""
        import json, sys
        sys.path[:0] = [{str(Path(runners.__file__).parent.parent)!r}, "/box-test"]
        import importlib.util
        place = importlib.util.spec_from_file_location("pyseccomp", {pyseccomp.__file__!r})
        module = importlib.util.module_from_spec(place)
        place.loader.exec_module(module)
        sys.modules["pyseccomp"] = module
        from runners.ports import BoxSpec, Phase
        from runners.sandboxes.bubblewrap import BubblewrapSandbox
        sandbox = BubblewrapSandbox()
        spec = BoxSpec(Phase.TIMED, [sys.executable, "-I", "-c", sys.argv[1]], {{}}, {{}},
                       (0,), 256 << 20, 64, 16 << 20, 1 << 16)
        box = sandbox.launch(spec)
        answer = json.loads(box.channel.recv(1 << 16))
        end = box.kill()
        sandbox.close()
        print(json.dumps([sandbox.isolation().level, sandbox.isolation().own_uid, answer]))
    """)
    code = PRELUDE + textwrap.dedent("""
        pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
        say([os.getuid(), len(pids), os.path.exists("/work"), error_of(os.open, "/x", os.O_CREAT),
             libc.unshare(0x10000000), error_of(socket.socket, socket.AF_INET)])
        time.sleep(60)
    """)
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = subprocess.run(
        [*drop, str(python), "-c", script, code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    level, own_uid, answer = json.loads(done.stdout)
    assert (level, own_uid) == ("reduced", False)
    assert answer == [65534, 2, False, "EROFS", -1, "EPERM"]
