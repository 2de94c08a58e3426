"""A Docker Engine of the test's own, and a base image made on this machine: nothing is pulled."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

PACKAGES = "python3,python3-pip,bubblewrap,g++,util-linux,libgomp1"
NEEDED = ("dockerd", "docker", "docker-compose", "debootstrap")
START_S = 60


def missing() -> str | None:
    """Why no engine can be had here, or None."""
    if os.geteuid() != 0:
        return "Docker Engine is started by the test itself, which needs root"
    absent = [program for program in NEEDED if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (scripts/install-system-packages)"
    return None


class Engine:
    """`dockerd` with data, socket and network rules of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{folder / 'docker.sock'}",
            "DOCKER_BUILDKIT": "0",
            "COMPOSE_DOCKER_CLI_BUILD": "0",
        }

    def start(self) -> None:
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    *("--data-root", self._folder / "data"),
                    *("--exec-root", self._folder / "exec"),
                    *("--pidfile", self._folder / "pid"),
                    *("--host", self.environment["DOCKER_HOST"]),
                    *("--iptables=false", "--ip6tables=false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + START_S
        while self.run("docker", "info", check=False).returncode != 0:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < end, (self._folder / "log").read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def run(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a client command against this engine; its output is in the error if it fails."""
        done = subprocess.run(
            argv,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert not check or done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done

    def import_base(self, name: str) -> None:
        """Make the base image: Debian as on this host, with this environment's Python packages.

        They go where Debian's python3 looks, so that a build on the base fetches nothing.
        """
        root = self._folder / "root"
        suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
        self.run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, root)
        version = subprocess.run(
            ["chroot", root, "python3", "-c", "import sys; print(*sys.version_info[:2])"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert version == [str(part) for part in sys.version_info[:2]], (
            f"{suite} has Python {'.'.join(version)}, the tests run on {platform.python_version()}"
        )
        packages = root / "usr" / "local" / "lib" / f"python{'.'.join(version)}" / "dist-packages"
        shutil.copytree(
            sysconfig.get_path("purelib"),
            packages,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__", "_editable_impl_*", "kernel_judge-*"),
        )
        # Debian 12's Python is older than the tests' own by a patch, and redis asks it for one more.
        pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--constraint", "constraints.txt")
        self.run(sys.executable, *pip, "--target", packages, "async-timeout")
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packer:
            done = subprocess.run(
                ["docker", "import", "-", name],
                env=self.environment,
                stdin=packer.stdout,
                capture_output=True,
                text=True,
                timeout=600,
            )
        assert packer.returncode == 0
        assert done.returncode == 0, done.stderr
        shutil.rmtree(root)
