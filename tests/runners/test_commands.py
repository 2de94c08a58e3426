"""What the runner's commands cost before they do anything."""

import subprocess
import sys


def test_the_worker_process_does_not_load_torch() -> None:
    program = "import runners.commands, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
