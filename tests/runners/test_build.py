"""The build stage: real compilers in real boxes, and a cache that trusts nothing a box left."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from judge.model import Job, Limits, Mode, Outcome, Progress, SourceFile, Verdict
from runners.build import LOG_HEAD_CHARS, LOG_TAIL_CHARS, BuildStage, bounded, first_error
from runners.build_cache import (
    FOLDER_BYTES,
    FOLDER_ENTRIES,
    BuildCache,
    NewFolder,
    copy_regular_files,
)
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Built
from runners.evaluator.session import StoppedError, Watch
from tests.runners.conftest import tiny_problem

NATIVE = (Path(__file__).parents[1] / "faults" / "submissions" / "native.cpp").read_text()
LIMITS = Limits(build_s=120)


def job(source: str, main: str = "kernel.cpp", *more: SourceFile) -> Job:
    return Job(
        id=3,
        submission_id=3,
        problem_id="double",
        problem_digest="0" * 64,
        device="cpu",
        mode=Mode.TEST,
        attempt=1,
        key=bytes(16),
        main=main,
        files=(SourceFile(main, source.encode()), *more),
        cases=(),
    )


class Heard:
    """Collects the stages that a build tells."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.watch = Watch(self._note)

    def _note(self, progress: Progress, loaded: bool) -> None:
        self.stages.append(progress.stage)


@pytest.fixture
def stage(box_pool: BoxPool, tmp_path: Path) -> BuildStage:
    if shutil.which("g++") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("g++ is missing")
        pytest.skip("g++ is missing")
    return BuildStage(box_pool, tmp_path / "cache")


def failed(built: Built | Outcome | None) -> Outcome:
    assert isinstance(built, Outcome), built
    assert built.verdict is Verdict.COMPILE_ERROR
    return built


@pytest.mark.box
@pytest.mark.slow
def test_a_source_is_built_once_and_again_when_it_changes(stage: BuildStage) -> None:
    heard = Heard()
    first = stage.prepare(job(NATIVE), LIMITS, heard.watch)
    assert isinstance(first, Built)
    assert first.module is not None
    assert first.module.startswith(b"\x7fELF")
    again = stage.prepare(job(NATIVE), LIMITS, heard.watch)
    assert again == first
    assert heard.stages == ["building"]
    stage.prepare(job(NATIVE + "// changed\n"), LIMITS, heard.watch)
    assert heard.stages == ["building", "building"]


@pytest.mark.box
@pytest.mark.slow
def test_headers_beside_the_main_file_are_found(stage: BuildStage) -> None:
    header = SourceFile("sub/twice.h", b"inline int twice(int x) { return 2 * x; }\n")
    source = '#include "sub/twice.h"\nextern "C" int f() { return twice(2); }\n'
    assert isinstance(stage.prepare(job(source, "main.cpp", header), LIMITS, Watch()), Built)


@pytest.mark.box
@pytest.mark.slow
def test_a_compile_error_names_file_line_and_fault(stage: BuildStage) -> None:
    told = failed(stage.prepare(job("int x = undeclared;\n"), LIMITS, Watch()))
    assert told.message.startswith("kernel.cpp:1:9: error: ")
    assert told.message in told.log


@pytest.mark.box
@pytest.mark.slow
def test_a_build_that_takes_too_long_is_a_compile_error_that_says_so(stage: BuildStage) -> None:
    told = failed(stage.prepare(job(NATIVE), replace(LIMITS, build_s=0.2), Watch()))
    assert told.message == "Building took longer than its limit of 0.2 s."


@pytest.mark.box
@pytest.mark.slow
def test_a_build_can_be_stopped(stage: BuildStage) -> None:
    with pytest.raises(StoppedError):
        stage.prepare(job(NATIVE), LIMITS, Watch(should_stop=lambda: True))


@pytest.mark.box
@pytest.mark.slow
def test_a_flood_of_compiler_output_keeps_its_head_and_tail(stage: BuildStage) -> None:
    source = "".join(f"unknown_type_{n} value_{n};\n" for n in range(4_000))
    told = failed(stage.prepare(job(source), LIMITS, Watch()))
    assert "unknown_type_0" in told.log
    assert "unknown_type_3999" in told.log
    assert "left out" in told.log


@pytest.mark.box
def test_a_language_that_the_device_lacks_is_a_compile_error(stage: BuildStage) -> None:
    assert "kernel.cu" in failed(stage.prepare(job("", "kernel.cu"), LIMITS, Watch())).message


def test_the_first_error_is_what_the_author_reads_first() -> None:
    said = "a.h:1:2: warning: hm\nkernel.cpp:7:3: error: no\nkernel.cpp:9:1: error: later\n"
    assert first_error(said) == "kernel.cpp:7:3: error: no"
    assert first_error("/usr/bin/ld: x.o: undefined reference to `f'").startswith("/usr/bin/ld")
    assert "log" in first_error("killed")


def test_output_up_to_the_bound_is_kept_whole() -> None:
    whole = "x" * (LOG_HEAD_CHARS + LOG_TAIL_CHARS)
    assert bounded(whole) == whole
    cut = bounded("a" + whole + "z")
    assert cut[0] == "a"
    assert cut[-1] == "z"
    assert "2 characters" in cut


def test_only_regular_files_are_taken_from_a_box(tmp_path: Path) -> None:
    left = tmp_path / "left"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "module.so").write_bytes(b"code")
    (left / "link").symlink_to("/etc/passwd")
    (left / "folder_link").symlink_to("/etc")
    os.mkfifo(left / "fifo")
    copy_regular_files(left, tmp_path / "copy")
    found = sorted(
        p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*")
    )
    assert found == ["deep", "deep/module.so"]
    assert (tmp_path / "copy" / "deep" / "module.so").stat().st_mode & 0o777 == 0o644


def test_a_folder_with_too_many_entries_is_noticed(tmp_path: Path) -> None:
    folder = NewFolder(tmp_path)
    for n in range(FOLDER_ENTRIES):
        (tmp_path / str(n)).touch()
    assert not folder.is_too_large()
    (tmp_path / "one more").touch()
    assert folder.is_too_large()


def deep_tree(at: Path, levels: int) -> None:
    """As a box can make it, level by level: no path to its end could be named."""
    here = os.open(at, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_tree_deeper_than_any_path_is_too_large_and_can_be_removed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.new_folder() as folder:
        deep_tree(folder.path, 1_500)
        assert folder.is_too_large()
        copy_regular_files(folder.path, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["extensions", "native"]


def test_a_kept_folder_is_never_taken_from_under_a_box_that_looks_into_it(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for content in ("first", "second"):
        with cache.new_folder() as folder:
            (folder.path / "module.so").write_text(content)
            kept = cache.keep_folder("ab", folder, "")
    assert (kept.path / "module.so").read_text() == "first"


SPEAKS_FOR_THE_HARNESS = """
import socket
for fd in range(3, 64):
    try:
        socket.socket(fileno=fd).send(b'{"kind": "needs_build", "name": "again"}')
    except OSError:
        pass
while True: pass
"""


@pytest.mark.box
@pytest.mark.slow
def test_a_submission_that_asks_for_a_build_while_it_is_built_is_left_to_the_timed_box(
    stage: BuildStage,
) -> None:
    asks = job(SPEAKS_FOR_THE_HARNESS, "kernel.py")
    assert isinstance(stage.extensions(asks, tiny_problem("scale"), Watch()), Built)


def test_what_is_kept_is_found_again_and_nothing_else(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.new_folder() as folder:
        (folder.path / "extensions.json").write_text("[]")
        cache.keep_folder("ab", folder, "said")
    kept = cache.folder("ab")
    assert kept is not None
    assert kept.log == "said"
    assert (kept.path / "extensions.json").read_text() == "[]"
    assert cache.folder("cd") is None
    assert cache.module("ab") is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["extensions", "native"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder its own file system")
def test_a_build_folder_is_full_at_its_limit_even_by_a_file_without_a_name(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with cache.new_folder() as folder:
        full = pytest.raises(OSError, match="No space left")
        with tempfile.TemporaryFile(dir=folder.path) as hidden, full:
            os.posix_fallocate(hidden.fileno(), 0, FOLDER_BYTES + 1)
        (folder.path / "module.so").write_bytes(b"code")
        cache.keep_folder("ab", folder, "said")
    kept = cache.folder("ab")
    assert kept is not None
    assert (kept.path / "module.so").read_bytes() == b"code"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["extensions", "native"]
