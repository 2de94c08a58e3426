"""Programs of `judge up`. Each test runs the supervisor in a process of its own: it adopts orphans."""

import subprocess
import sys
from pathlib import Path

PRELUDE = """
import sys, time
from pathlib import Path
from judge.processes import ProcessError, Program, Supervisor, log_tail
log = Path(sys.argv[1])
supervisor = Supervisor()
def start(*argv):
    return supervisor.start(Program("sleeper", argv, {"PATH": "/usr/bin:/bin"}, log))
"""


def supervised(tmp_path: Path, script: str) -> list[str]:
    """What a script says that has a supervisor; bounded."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def alive(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_grandchild_in_a_session_of_its_own_is_ended_as_well(tmp_path: Path) -> None:
    script = """
start("sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' & wait")
while not log.exists() or not log.read_text().strip():
    time.sleep(0.01)
killed = supervisor.stop()
print(log.read_text().strip(), killed)
"""
    pid, killed = supervised(tmp_path, script)
    assert not alive(pid)
    assert killed == "1"


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    script = """
import judge.processes
judge.processes.STOP_S = 0.2
pid = start("sh", "-c", "trap '' TERM; echo up; while true; do sleep 0.1; done")
while not log.exists() or "up" not in log.read_text():
    time.sleep(0.01)
print(pid, supervisor.stop() >= 1)
"""
    pid, killed = supervised(tmp_path, script)
    assert not alive(pid)
    assert killed == "True"


def test_a_program_that_died_is_started_again_but_not_for_ever(tmp_path: Path) -> None:
    script = """
start("sh", "-c", "echo out of luck; exit 7")
restarts = 0
try:
    while True:
        restarts += len(supervisor.check())
        time.sleep(0.01)
except ProcessError as error:
    print(restarts, "luck" in str(error))
supervisor.stop()
"""
    assert supervised(tmp_path, script) == ["3", "True"]


def test_a_killed_supervisor_takes_its_programs_with_it(tmp_path: Path) -> None:
    script = """
import os, signal
print(start("sleep", "300"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        pid = process.communicate(timeout=30)[0].strip()
    end = Path(f"/proc/{pid}/stat")
    for _ in range(3_000):
        if not end.exists() or end.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        subprocess.run(["true"], check=True)  # lets time pass; bounded
    raise AssertionError("the program outlived its supervisor")
