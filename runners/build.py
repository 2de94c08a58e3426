"""The build stage: compiles submissions in a box of its own, and keeps what came of it by digest.

Two kinds: a native source (`.cpp`, by the tvm-ffi ABI) becomes a shared object; a Python submission
that asks for inline C++ extensions is run once in a build box, and the folder they were compiled
into is mounted read-only into its timed boxes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from judge.model import Job, Limits, Outcome, Progress
from judge.text import plain
from runners.build_cache import FOLDER_BYTES, BuildCache, KeptModule
from runners.endings import Ending, Failure
from runners.evaluator.arena import sealable_memfd, sealed_file
from runners.evaluator.pool import CACHE_INSIDE, HARNESS, HARNESS_INSIDE, BoxPool, box_spec
from runners.evaluator.program import NATIVE_MODULE, Built, Program, is_native
from runners.evaluator.session import Budget, StoppedError, Watch
from runners.evaluator_link import judge_error
from runners.ports import BoxEnd, BoxSpec, Phase
from runners.problem import LoadedProblem
from runners.warm_run import warm_run

COMPILER: Final = "g++"
PATH_INSIDE: Final = "/usr/bin:/bin"

FLAGS: Final = ("-std=c++20", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared")
"""How native submissions are compiled. `-march=native` is right because a module is built on the
machine that runs it; `-ffast-math` is left to the author (`#pragma GCC optimize`), since it changes
what NaN and infinities do."""

MEMORY_BYTES: Final = 4 << 30
TMP_BYTES: Final = 1 << 30
PROCESSES: Final = 256
OUTPUT_BYTES: Final = 8 << 20
MODULE_BYTES: Final = 64 << 20
POLL_S: Final = 0.1

LOG_HEAD_CHARS: Final = 64 << 10
LOG_TAIL_CHARS: Final = 128 << 10

MESSAGE_CHARS: Final = 500
_ERROR_LINE: Final = re.compile(r"^.*\b(?:fatal error|error|undefined reference)\b.*$", re.M)


def have_compiler() -> bool:
    """Whether native and inline C++ submissions can be built here."""
    return shutil.which(COMPILER, path=PATH_INSIDE) is not None


class BuildStage:
    """Builds in boxes of the pool's sandbox, on the pool's device. Used from the pool's thread."""

    def __init__(self, boxes: BoxPool, cache: Path) -> None:
        """cache: directory for what was built; it may be shared by the runners of a machine."""
        self._boxes = boxes
        self._cache = BuildCache(cache)

    def prepare(self, job: Job, limits: Limits, watch: Watch) -> Built | Outcome | None:
        """What is known before a timed box is taken.

        A native submission is built, or taken from the cache; for a Python one, the extensions that
        an earlier job compiled, or None. An Outcome tells that it cannot be built.
        """
        if not is_native(job.main):
            folder = self._cache.folder(_key(job, _extension_toolchain()))
            return None if folder is None else Built(cache=folder.path, log=folder.log)
        if not job.main.endswith(".cpp"):
            device = self._boxes.device.name
            said = f"The {device} device builds .cpp files only, not {job.main}."
            return _failed(job, Failure(Ending.BUILD, said))
        if not have_compiler():
            return _no_compiler(job)
        key = _key(job, _native_toolchain())
        module = self._cache.module(key)
        if module is None:
            watch.progress(Progress("building"), True)
            made = self._compile(job, build_limits(limits), watch)
            if isinstance(made, Outcome):
                return made
            self._cache.keep_module(key, made)
            module = made
        return Built(module=module.content, log=module.log)

    def extensions(self, job: Job, problem: LoadedProblem, watch: Watch) -> Built | Outcome:
        """Run a Python submission once in a build box, and keep the extensions that it compiled."""
        if not have_compiler():
            return _no_compiler(job)
        watch.progress(Progress("building"), True)
        limits = build_limits(problem.problem.limits)
        with self._cache.new_folder() as folder:
            guard = Watch(watch.progress, lambda: watch.should_stop() or folder.is_too_large())
            spec = self._extension_spec(limits, folder.path)
            try:
                budget = Budget(limits, time.monotonic(), guard)
                failure, end = warm_run(job, problem, self._boxes, spec, budget)
            except StoppedError:
                if not folder.is_too_large():
                    raise
                return _failed(job, Failure(Ending.BUILD_OUTPUT, _mib(FOLDER_BYTES)))
            said = _text(end.output)
            failure = _failure(failure, end, limits)
            if failure is not None:
                return _failed(job, failure, said)
            kept = self._cache.keep_folder(_key(job, _extension_toolchain()), folder, said)
        return Built(cache=kept.path, log=kept.log)

    def _compile(self, job: Job, limits: Limits, watch: Watch) -> KeptModule | Outcome:
        spec = self._spec(limits, (sys.executable, "-s", "-P", f"{HARNESS_INSIDE}/compile.py"))
        files = sealed_file("submission", Program("source", job.main, job.files).pack())
        result = sealable_memfd("module")
        try:
            box = self._boxes.sandbox.launch(spec)
            try:
                told = {"command": native_command(job.main), "result": f"/tmp/{NATIVE_MODULE}"}
                box.send_memory(json.dumps(told).encode(), (files, result))
                deadline = time.monotonic() + limits.build_s
                end = box.wait(POLL_S)
                while end is None and time.monotonic() < deadline:
                    watch.check()
                    end = box.wait(POLL_S)
                failure = Failure(Ending.BUILD_TIME, f"{limits.build_s:g} s") if not end else None
            finally:
                end = box.kill()
            said = _text(end.output)
            failure = _failure(failure, end, limits)
            if failure is None and end.exit_code != 0:
                failure = Failure(Ending.BUILD, first_error(said))
            if failure is None and os.fstat(result).st_size > MODULE_BYTES:
                failure = Failure(Ending.BUILD_OUTPUT, _mib(MODULE_BYTES))
            if failure is not None:
                return _failed(job, failure, said)
            # Read, not mapped: a box that shortens the file meanwhile cannot hurt the reader.
            return KeptModule(os.pread(result, MODULE_BYTES, 0), said)
        finally:
            os.close(files)
            os.close(result)

    def _spec(self, limits: Limits, command: Sequence[str]) -> BoxSpec:
        return BoxSpec(
            phase=Phase.BUILD,
            command=command,
            read_only={HARNESS: HARNESS_INSIDE},
            environment=_environment({}),
            cores=self._boxes.device.box_cores(),
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            tmp_bytes=limits.tmp_bytes,
            output_bytes=limits.output_bytes,
        )

    def _extension_spec(self, limits: Limits, folder: Path) -> BoxSpec:
        spec = box_spec(Phase.BUILD, self._boxes.device, limits)
        environment = _environment(spec.environment) | {"TORCH_EXTENSIONS_DIR": CACHE_INSIDE}
        return replace(spec, environment=environment, writable={folder: CACHE_INSIDE})


def build_limits(limits: Limits) -> Limits:
    """What a build may use. Its time is the problem's; the rest is the same for all problems."""
    return replace(
        limits,
        load_s=limits.build_s,
        call_s=limits.build_s,
        job_s=limits.build_s,
        memory_bytes=max(MEMORY_BYTES, limits.memory_bytes),
        output_bytes=OUTPUT_BYTES,
        tmp_bytes=TMP_BYTES,
        processes=PROCESSES,
    )


def native_command(main: str) -> list[str]:
    """The compiler's argv inside a build box, where the submission's folder is the current one."""
    includes, library = _tvm_ffi()
    return [
        *(COMPILER, *FLAGS),
        *(f"-I{path}" for path in includes),
        *("-I.", main, "-o", f"/tmp/{NATIVE_MODULE}"),
        *(f"-L{library.parent}", f"-l{library.stem.removeprefix('lib')}"),
    ]


def first_error(said: str) -> str:
    """The line of a compiler's output that an author should read first."""
    found = _ERROR_LINE.search(said)
    line = found[0].strip() if found else "The compiler failed; its output is in the log."
    return line[:MESSAGE_CHARS]


def bounded(said: str) -> str:
    """Head and tail of long output, with a mark where the middle is missing."""
    left_out = len(said) - LOG_HEAD_CHARS - LOG_TAIL_CHARS
    if left_out <= 0:
        return said
    mark = f"\n[... {left_out} characters of the build's output left out ...]\n"
    return said[:LOG_HEAD_CHARS] + mark + said[-LOG_TAIL_CHARS:]


def _text(output: bytes) -> str:
    return bounded(plain(output.decode(errors="replace"), limit=2 * OUTPUT_BYTES))


def _failure(seen: Failure | None, end: BoxEnd, limits: Limits) -> Failure | None:
    """Why the build failed; None where it did not, or where judging will tell."""
    if end.out_of_memory:
        return Failure(Ending.BUILD_MEMORY, _mib(limits.memory_bytes))
    if end.output_exceeded:
        return Failure(Ending.BUILD_OUTPUT, _mib(limits.output_bytes))
    if seen is None:
        return None
    if seen.ending in (Ending.BUILD_TIME, Ending.LOAD_TIME, Ending.CALL_TIME, Ending.JOB_TIME):
        return Failure(Ending.BUILD_TIME, f"{limits.build_s:g} s")
    if seen.ending is Ending.BUILD:
        return Failure(Ending.BUILD, first_error(seen.message))
    return None


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


def _failed(job: Job, failure: Failure, said: str = "") -> Outcome:
    return Outcome(
        job_id=job.id,
        attempt=job.attempt,
        verdict=failure.verdict,
        message=failure.message,
        log=said,
    )


def _no_compiler(job: Job) -> Outcome:
    return judge_error(
        job,
        f"this runner has no {COMPILER}, its operator must install it (Debian: apt install g++)",
    )


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    # ninja and its like come as wheels, beside Python.
    path = f"{PATH_INSIDE}:{Path(sys.executable).parent}"
    return {**base, "PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}


def _key(job: Job, toolchain: str) -> str:
    """SHA-256 over files, main file, toolchain and flags, each behind its length."""
    digest = hashlib.sha256()
    parts = [toolchain.encode(), job.main.encode()]
    for file in sorted(job.files, key=lambda file: file.name):
        parts += [file.name.encode(), file.content]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


@functools.cache
def _native_toolchain() -> str:
    return "\n".join((_compiler_and_cpu(), *FLAGS, *map(str, _tvm_ffi()[0])))


@functools.cache
def _extension_toolchain() -> str:
    return "\n".join((_compiler_and_cpu(), version("torch"), sys.version, sysconfig.get_platform()))


@functools.cache
def _compiler_and_cpu() -> str:
    """What `-march=native` and the compiler's own version depend on."""
    told = ""
    if have_compiler():
        command = [COMPILER, "--version"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return "\n".join((told, version("apache-tvm-ffi"), platform.machine(), cpu))


@functools.cache
def _tvm_ffi() -> tuple[tuple[str, ...], Path]:
    """Where its headers and its library lie."""
    from tvm_ffi import libinfo

    includes = (libinfo.find_include_path(), libinfo.find_dlpack_include_path())
    return tuple(map(str, includes)), Path(libinfo.find_libtvm_ffi())
