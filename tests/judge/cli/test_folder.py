"""Files of a contestant's disk."""

from pathlib import Path

import pytest

from judge.cli.folder import Note, make_folder, note_for, read_submission
from judge.cli.talk import WrongUse
from judge.model import SourceFile
from judge.wire import ProblemBody

TOPK = ProblemBody(
    id="topk",
    title="Top-K router",
    version=3,
    digest="d" * 64,
    devices=["cpu"],
    languages=[".py", ".cpp"],
    cases=[],
    tolerances={},
    limits={},
    files=["statement.md", "starter.py"],
)
FILES = {"statement.md": b"# Top-K\n", "starter.py": b"def custom_kernel(data): ...\n"}


def test_a_file_is_handed_in_byte_exact(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    assert read_submission(tmp_path / "k.py") == (SourceFile("k.py", b"\xef\xbb\xbfx = 1\r\n"),)


def test_a_folder_is_handed_in_without_hidden_files_and_caches(tmp_path: Path) -> None:
    for name in ("main.py", "lib/tile.py", ".git/config", "__pycache__/main.pyc", ".env"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
    assert [file.name for file in read_submission(tmp_path)] == ["lib/tile.py", "main.py"]


def test_a_fresh_folder_can_be_handed_in_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    make_folder(folder, TOPK, FILES)
    note = note_for(folder)
    assert note == Note("topk", 3, ("statement.md",))
    assert [file.name for file in read_submission(folder, note)] == ["starter.py"]
    assert note_for(folder / "starter.py") == note


def test_a_fresh_folder_never_overwrites(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(WrongUse, match="exists already"):
        make_folder(folder, TOPK, FILES)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil.py", "/etc/passwd", ".bashrc", "a\\b.py"])
def test_a_judge_cannot_write_outside_the_fresh_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(WrongUse, match="not written here"):
        make_folder(tmp_path / "mine", TOPK, {name: b"x"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["missing.py", "empty", "/dev/zero"])
def test_what_cannot_be_handed_in_is_wrong_use(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongUse):
        read_submission(tmp_path / what)
