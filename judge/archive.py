"""What somebody handed in becomes `SourceFile`s, or a `Refusal` that says what to do.

Taken are one source file, several files, or one zip. Contents are kept byte by byte. A syntax error
is no matter of this module: it is a verdict.
"""

from __future__ import annotations

import hashlib
import io
import stat
import tomllib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from judge.model import Refusal, SourceFile
from judge.paths import MAX_DEPTH, fault_of_name, name_clash, quoted

MAX_BYTES = 1_000_000
"""All files of a submission together, and also the zip they came in."""

MAX_FILES = 64

MAX_RATIO = 100
"""How many times its packed size a file in a zip may have; source text reaches about 20."""

RATIO_MATTERS_BYTES = 64 * 1024

MANIFEST = "submission.toml"
MAIN_ENDINGS = {".py": "Python", ".cpp": "C++", ".cu": "CUDA C++", ".hip": "HIP C++"}
FURTHER_ENDINGS = (".c", ".cc", ".cuh", ".h", ".hpp", ".inc", ".inl")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".whl")

_ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    UnicodeDecodeError,
    ValueError,
)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The checked files of a submission, sorted by name, and the one that is loaded or compiled."""

    files: tuple[SourceFile, ...]
    main: str


def unpack(uploads: Sequence[tuple[str, bytes]], languages: Sequence[str]) -> Unpacked | Refusal:
    """Check what was uploaded, as (name, content) pairs.

    languages: endings that the problem takes, such as `.py`. The main file is the one that
    `submission.toml` names (`main = "kernel.py"`), else the only source file at the top, else
    `main` with such an ending.
    """
    if not uploads:
        return Refusal(
            "no_files", "Nothing was handed in: attach a source file, several, or one zip."
        )
    zips = [name for name, content in uploads if _is_zip(name, content)]
    if zips and len(uploads) > 1:
        return Refusal(
            "zip_among_files",
            f"{quoted(zips[0])} is a zip among other files: hand in either one zip or plain files.",
        )
    if sum(len(content) for _, content in uploads) > MAX_BYTES:
        return _too_large()
    entries = _unzip(uploads[0][1]) if zips else list(uploads)
    if isinstance(entries, Refusal):
        return entries
    return _checked(entries, languages)


def digest_of_files(files: Sequence[SourceFile]) -> str:
    """SHA-256 (hex) of a submission's names and contents, whatever the order of the files.

    Sorted by name, each name (UTF-8) and each content goes in behind its length, 8 bytes
    big-endian, so that no two different sets of files give the same bytes.
    """
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        for part in (file.name.encode(), file.content):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def _checked(entries: Sequence[tuple[str, bytes]], languages: Sequence[str]) -> Unpacked | Refusal:
    if len(entries) > MAX_FILES:
        return _too_many()
    faults = [fault_of_name(name) for name, _ in entries]
    faults += [name_clash([name for name, _ in entries])]
    faults += [_fault_of_ending(name, languages) for name, _ in entries]
    faults += [_fault_of_text(name, content) for name, content in entries]
    for fault in faults:
        if fault is not None:
            return fault
    files = tuple(sorted((SourceFile(*entry) for entry in entries), key=lambda f: f.name))
    main = _main(files)
    return main if isinstance(main, Refusal) else Unpacked(files, main)


# --- zips


def _is_zip(name: str, content: bytes) -> bool:
    return name.lower().endswith(".zip") or content.startswith(b"PK\x03\x04")


def _unzip(content: bytes) -> list[tuple[str, bytes]] | Refusal:
    """The files in a zip. Nothing is written anywhere, and no more than the limit is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            fault = _fault_of_entries(entries)
            if fault is not None:
                return fault
            files: list[tuple[str, bytes]] = []
            left = MAX_BYTES
            for entry in entries:
                if entry.is_dir():
                    continue
                # Sizes in the directory of a zip are claims: what comes out is counted as well.
                with archive.open(entry) as packed:
                    text = packed.read(left + 1)
                left -= len(text)
                if left < 0:
                    return _too_large()
                files.append((entry.orig_filename, text))
    except _ZIP_FAULTS as error:
        return Refusal(
            "zip_broken",
            f"The zip cannot be read ({error}): make it again, with `zip -r kernel.zip FILES`.",
        )
    if not files:
        return Refusal("no_files", "The zip holds no files: put the source files into it.")
    return _without_common_folder(files)


def _fault_of_entries(entries: Sequence[zipfile.ZipInfo]) -> Refusal | None:
    if len(entries) > MAX_FILES * MAX_DEPTH or sum(not e.is_dir() for e in entries) > MAX_FILES:
        return _too_many()
    for entry in entries:
        name = entry.orig_filename
        kind = stat.S_IFMT(entry.external_attr >> 16)
        fault = fault_of_name(name.removesuffix("/"))
        if fault is not None:
            return fault
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            return Refusal(
                "special_file",
                f"{quoted(name)} in the zip is a link or a special file: put the file itself there "
                "(`zip` follows links unless it is given -y).",
            )
        if entry.flag_bits & 1:
            return Refusal(
                "zip_encrypted",
                f"{quoted(name)} in the zip is encrypted: make the zip without a password.",
            )
        if entry.compress_type not in _PACKINGS:
            return Refusal(
                "zip_packing",
                f"{quoted(name)} is packed in a way that is not taken: make the zip with `zip -r`, "
                "which stores or deflates.",
            )
        # Real deflated text never packs so well; what does is made to swell.
        swollen = entry.file_size > MAX_RATIO * max(entry.compress_size, 1)
        if swollen and entry.file_size > RATIO_MATTERS_BYTES:
            return Refusal(
                "zip_bomb",
                f"{quoted(name)} unpacks to over {MAX_RATIO} times its packed size: hand in the file "
                "without a zip.",
                413,
            )
    if sum(entry.file_size for entry in entries) > MAX_BYTES:
        return _too_large()
    return None


def _without_common_folder(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Names without the folder that all files lie in: people zip a folder as often as its files."""
    first = files[0][0].split("/")[0]
    if all(name.startswith(f"{first}/") for name, _ in files):
        return [(name.removeprefix(f"{first}/"), content) for name, content in files]
    return files


# --- texts


def _fault_of_ending(name: str, languages: Sequence[str]) -> Refusal | None:
    if name == MANIFEST:
        return None
    ending = ending_of(name)
    taken = " or ".join(languages)
    if ending in ARCHIVES:
        detail = f"{quoted(name)} is an archive: hand in the files themselves, or one zip of them."
        return Refusal("nested_archive", detail)
    if ending in MAIN_ENDINGS and ending not in languages:
        detail = f"{quoted(name)} is {MAIN_ENDINGS[ending]}, which this problem does not take: "
        return Refusal("language_not_taken", f"{detail}write the kernel as {taken}.")
    if ending not in (*MAIN_ENDINGS, *FURTHER_ENDINGS):
        detail = f"{quoted(name)} is no source file that is taken here: hand in {taken}"
        return Refusal(
            "wrong_extension", f"{detail} (with {', '.join(FURTHER_ENDINGS)} beside them)."
        )
    return None


def ending_of(name: str) -> str:
    """A name's ending with its dot, such as `.py`; empty where it has none."""
    base = name.rsplit("/", 1)[-1]
    dot = base.rfind(".")
    return base[dot:] if dot > 0 else ""


def _fault_of_text(name: str, content: bytes) -> Refusal | None:
    # An empty __init__.py makes a folder a package and is rightly empty.
    if not content.strip() and not name.endswith("/__init__.py"):
        detail = f"{quoted(name)} is empty: save the file, then hand it in again."
        return Refusal("empty_file", detail)
    if b"\0" in content:
        detail = f"{quoted(name)} has a NUL byte at offset {content.index(0)}: "
        return Refusal("not_text", f"{detail}hand in source text, not a binary or UTF-16 file.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"{quoted(name)} is not UTF-8 text (byte 0x{content[error.start]:02x} at offset "
        return Refusal("not_text", f"{detail}{error.start}): save it as UTF-8.")
    return None


# --- the main file


def _main(files: Sequence[SourceFile]) -> str | Refusal:
    for file in files:
        if file.name == MANIFEST:
            return _main_of_manifest(file, [f.name for f in files])
    top = [f.name for f in files if "/" not in f.name and ending_of(f.name) in MAIN_ENDINGS]
    if len(top) == 1:
        return top[0]
    named_main = [name for name in top if name.startswith("main.")]
    if len(named_main) == 1:
        return named_main[0]
    which = f"{', '.join(map(quoted, top))} are candidates" if top else "none lies at the top"
    return Refusal(
        "main_unknown",
        f"Which file holds the kernel is not clear ({which}): call it main.py or main.cpp, or add "
        f'{MANIFEST} with the line main = "FILE".',
    )


def _main_of_manifest(manifest: SourceFile, names: Sequence[str]) -> str | Refusal:
    remedy = 'write one line: main = "FILE"'
    try:
        table = tomllib.loads(manifest.content.decode())
    except tomllib.TOMLDecodeError as error:
        return Refusal("bad_manifest", f"{MANIFEST} is not TOML: {error}; {remedy}.")
    unknown = sorted(set(table) - {"main"})
    if unknown:
        detail = f"{MANIFEST}: {quoted(unknown[0])} is no key that is known here"
        return Refusal("bad_manifest", f"{detail}; {remedy}.")
    main = table.get("main")
    if not isinstance(main, str) or main not in names:
        detail = f'{MANIFEST}: "main" must name one of the files'
        return Refusal("bad_manifest", f"{detail}; {remedy}.")
    if ending_of(main) not in MAIN_ENDINGS:
        return Refusal(
            "bad_manifest",
            f"{MANIFEST}: {quoted(main)} cannot be the main file; name one that ends in "
            f"{' or '.join(MAIN_ENDINGS)}.",
        )
    return main


def _too_large() -> Refusal:
    return Refusal(
        "too_large",
        f"The files are larger than {MAX_BYTES:,} bytes together: remove what the kernel does not need; "
        "tables can be computed when it loads.",
        413,
    )


def _too_many() -> Refusal:
    return Refusal(
        "too_many_files", f"There are over {MAX_FILES} files: join some, or remove some.", 413
    )
