"""Promises of what is handed in: files byte by byte, or a refusal that says what to do."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.archive import MAX_BYTES, MAX_FILES, Unpacked, digest_of_files, unpack
from judge.model import Refusal, SourceFile

LANGUAGES = (".py", ".cpp")
KERNEL = b"def custom_kernel(data):\n    return data\n"


def taken(uploads: Sequence[tuple[str, bytes]]) -> Unpacked:
    unpacked = unpack(uploads, LANGUAGES)
    assert isinstance(unpacked, Unpacked), unpacked
    return unpacked


def refused(uploads: Sequence[tuple[str, bytes]]) -> Refusal:
    refusal = unpack(uploads, LANGUAGES)
    assert isinstance(refusal, Refusal)
    assert refusal.detail.endswith(".")
    return refusal


def zipped(
    files: Sequence[tuple[str | zipfile.ZipInfo, bytes]], packing: int = zipfile.ZIP_DEFLATED
) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", packing) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return raw.getvalue()


# --- what is taken


def test_one_file_is_kept_byte_by_byte_and_is_the_main_one() -> None:
    content = "\ufeff# ü\r\nx = 1\r".encode()
    assert taken([("topk.py", content)]) == Unpacked((SourceFile("topk.py", content),), "topk.py")


def test_zip_gives_the_same_as_its_files() -> None:
    files = [("kernel.cpp", b"int x;"), ("parts/tile.h", b"int y;")]
    assert taken([("k.zip", zipped(files))]) == taken(files)
    assert taken([("no-ending", zipped(files))]) == taken(files)


def test_folder_around_everything_in_a_zip_is_left_out() -> None:
    unpacked = taken([("k.zip", zipped([("mine/kernel.py", KERNEL), ("mine/a/b.h", b"int y;")]))])
    assert [file.name for file in unpacked.files] == ["a/b.h", "kernel.py"]
    assert unpacked.main == "kernel.py"


def test_syntax_error_is_no_refusal_here() -> None:
    assert taken([("topk.py", b"def (:\n")]).main == "topk.py"


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (["kernel.py", "lib/a.py", "lib/__init__.py"], "kernel.py"),
        (["main.py", "other.py"], "main.py"),
        (["main.cpp", "other.py", "tile.h"], "main.cpp"),
    ],
)
def test_main_file_is_the_only_one_at_the_top_or_called_main(names: list[str], main: str) -> None:
    assert taken([(name, b"x = 1\n") for name in names]).main == main


def test_manifest_names_the_main_file_and_is_kept() -> None:
    manifest = ("submission.toml", b'main = "b.py"\n')
    unpacked = taken([("a.py", KERNEL), ("b.py", KERNEL), manifest])
    assert unpacked.main == "b.py"
    assert len(unpacked.files) == 3


def test_empty_init_file_of_a_package_is_taken() -> None:
    assert len(taken([("k.py", KERNEL), ("lib/__init__.py", b"")]).files) == 2


# --- what is refused


@pytest.mark.parametrize(
    ("manifest", "word"),
    [
        (b"main = \n", "not TOML"),
        (b'main = "c.py"\n', "must name one of the files"),
        (b"main = 3\n", "must name one of the files"),
        (b'man = "a.py"\n', '"man"'),
        (b'main = "t.h"\n', "cannot be the main file"),
        (b'main = "submission.toml"\n', "cannot be the main file"),
    ],
)
def test_faulty_manifest_is_refused(manifest: bytes, word: str) -> None:
    files = [("a.py", KERNEL), ("t.h", b"int x;"), ("submission.toml", manifest)]
    refusal = refused(files)
    assert refusal.code == "bad_manifest"
    assert word in refusal.detail


@pytest.mark.parametrize("names", [["a.py", "b.py"], ["lib/a.py", "t.h"], ["main.py", "main.cpp"]])
def test_unclear_main_file_is_refused(names: list[str]) -> None:
    refusal = refused([(name, b"x = 1\n") for name in names])
    assert refusal.code == "main_unknown"
    assert "submission.toml" in refusal.detail


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/kernel.py",
        "../kernel.py",
        "a/../../kernel.py",
        "a//kernel.py",
        "./kernel.py",
        "a\\kernel.py",
        "C:kernel.py",
        "C:/kernel.py",
        "ker\0nel.py",
        "ker\nnel.py",
        "ker\u202enel.py",
        "ker\udc80nel.py",
        "nul.py",
        "a/COM1.h.py",
        "-o.py",
        "a /kernel.py",
        "a./kernel.py",
        "kernel.py ",
        "ke\u0301rnel.py",
        "a/" * 8 + "kernel.py",
        "k" * 300 + ".py",
    ],
)
def test_path_trick_is_refused_as_file_and_in_a_zip(name: str) -> None:
    assert refused([(name, KERNEL)]).code == "bad_path"
    if name and "\udc80" not in name:
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name
        assert refused([("k.zip", zipped([(info, KERNEL)]))]).code == "bad_path"


@pytest.mark.parametrize(
    ("uploads", "code", "status"),
    [
        ([], "no_files", 400),
        ([("topk.py", b"")], "empty_file", 400),
        ([("topk.py", b" \n\t\n")], "empty_file", 400),
        ([("topk.py", b"x = '\0'")], "not_text", 400),
        ([("topk.py", b"x = '\xff'")], "not_text", 400),
        ([("topk.py", "x = 1".encode("utf-16"))], "not_text", 400),
        ([("topk.txt", b"x = 1")], "wrong_extension", 400),
        ([("topk", b"x = 1")], "wrong_extension", 400),
        ([("topk.cu", b"x")], "language_not_taken", 400),
        ([("topk.py", KERNEL), ("lib/x.hip", b"x")], "language_not_taken", 400),
        ([("topk.tar.gz", b"x")], "nested_archive", 400),
        ([("topk.py", b"#" * (MAX_BYTES + 1))], "too_large", 413),
        ([("a.py", b"#" * MAX_BYTES), ("b.py", b"#")], "too_large", 413),
        ([(f"k{n}.py", KERNEL) for n in range(MAX_FILES + 1)], "too_many_files", 413),
        ([("a.py", KERNEL), ("a.py", KERNEL)], "name_clash", 400),
        ([("a.py", KERNEL), ("A.py", KERNEL)], "name_clash", 400),
        ([("a.py", KERNEL), ("a.py/b.py", KERNEL)], "name_clash", 400),
        ([("a.py", KERNEL), ("b.zip", zipped([("c.py", KERNEL)]))], "zip_among_files", 400),
    ],
)
def test_bad_upload_is_refused(uploads: list[tuple[str, bytes]], code: str, status: int) -> None:
    refusal = refused(uploads)
    assert (refusal.code, refusal.status) == (code, status)


def test_refusal_of_a_language_names_those_that_are_taken() -> None:
    assert ".py or .cpp" in refused([("topk.cu", b"x")]).detail


def special(kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("kernel.py")
    info.create_system = 3
    info.external_attr = (kind | 0o777) << 16
    return info


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_link_or_special_file_in_a_zip_is_refused(kind: int) -> None:
    raw = zipped([(special(kind), b"/etc/passwd")])
    assert refused([("k.zip", raw)]).code == "special_file"


def test_bomb_is_refused_before_it_is_unpacked() -> None:
    refusal = refused([("k.zip", zipped([("k.py", b"#" * MAX_BYTES)]))])
    assert (refusal.code, refusal.status) == ("zip_bomb", 413)


def test_many_small_files_that_are_too_large_together_are_refused() -> None:
    text = bytes(range(32, 127)) * 600
    files = [(f"k{n}.py", text) for n in range(20)]
    assert refused([("k.zip", zipped(files))]).code == "too_large"


def test_zip_that_lies_about_its_sizes_is_refused() -> None:
    raw = bytearray(zipped([("k.py", KERNEL * 9_000)]))
    directory = raw.index(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = struct.pack("<I", 50)
    assert refused([("k.zip", bytes(raw))]).code == "zip_broken"


def test_encrypted_zip_is_refused() -> None:
    raw = bytearray(zipped([("k.py", KERNEL)]))
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    assert refused([("k.zip", bytes(raw))]).code == "zip_encrypted"


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_uncommon_packing_is_refused(packing: int) -> None:
    assert refused([("k.zip", zipped([("k.py", KERNEL)], packing))]).code == "zip_packing"


def test_zip_in_a_zip_is_refused() -> None:
    inner = zipped([("k.py", KERNEL)])
    assert refused([("k.zip", zipped([("k.py", KERNEL), ("i.zip", inner)]))]).code == (
        "nested_archive"
    )


def test_doubled_name_in_a_zip_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        raw = zipped([("k.py", KERNEL), ("k.py", b"x = 2")])
    assert refused([("k.zip", raw)]).code == "name_clash"


def test_zip_without_files_is_refused() -> None:
    assert refused([("k.zip", zipped([]))]).code == "no_files"


@given(st.binary(max_size=200))
def test_any_bytes_called_a_zip_give_a_refusal(raw: bytes) -> None:
    assert refused([("k.zip", raw)]).code in ("zip_broken", "no_files")


GOOD_ZIP = zipped([("kernel.py", KERNEL), ("lib/a.py", b"x = 1\n" * 50)])


@given(st.integers(0, len(GOOD_ZIP) - 1), st.integers(1, 255), st.integers(0, len(GOOD_ZIP)))
def test_damaged_zip_gives_files_or_a_refusal_never_an_exception(
    place: int, flip: int, length: int
) -> None:
    raw = bytearray(GOOD_ZIP)
    raw[place] ^= flip
    for damaged in (bytes(raw), GOOD_ZIP[:length]):
        assert isinstance(unpack([("k.zip", damaged)], LANGUAGES), Unpacked | Refusal)


@given(st.lists(st.tuples(st.text(max_size=12), st.binary(max_size=40)), max_size=4))
def test_any_upload_gives_files_or_a_refusal(uploads: list[tuple[str, bytes]]) -> None:
    assert isinstance(unpack(uploads, LANGUAGES), Unpacked | Refusal)


# --- digests

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FILES = st.dictionaries(NAMES, st.binary(max_size=6), max_size=4).map(
    lambda files: tuple(SourceFile(*item) for item in files.items())
)


@given(FILES, FILES)
def test_digests_are_equal_for_equal_sets_of_files_only(
    one: tuple[SourceFile, ...], other: tuple[SourceFile, ...]
) -> None:
    same = set(one) == set(other)
    assert (digest_of_files(one) == digest_of_files(other)) == same
    assert digest_of_files(one) == digest_of_files(one[::-1])


def test_moving_bytes_between_name_and_content_changes_the_digest() -> None:
    assert digest_of_files([SourceFile("ab", b"c")]) != digest_of_files([SourceFile("a", b"bc")])
    assert digest_of_files([SourceFile("a", b""), SourceFile("b", b"")]) != digest_of_files(
        [SourceFile("a", b"b")]
    )


def test_digest_stays_what_receipts_have_promised() -> None:
    assert digest_of_files([SourceFile("topk.py", b"x = 1\n")]) == (
        "8e38afbcdf0097e383a5c04256e8d5e789177f4316f4c42f6516acee3e44cd5f"
    )
