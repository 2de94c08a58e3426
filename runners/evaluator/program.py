"""What is handed to a box: the files of a submission, or the module built from them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from judge.model import Job, SourceFile

NATIVE_MODULE = "custom_kernel.so"


@dataclass(frozen=True, slots=True)
class Built:
    """What the build stage left of a submission.

    module: the shared object of a native submission. cache: host folder with the extensions that
    an inline C++ submission compiled, mounted read-only at `/judge/cache`. log: compiler output.
    """

    module: bytes | None = None
    cache: Path | None = None
    log: str = ""


@dataclass(frozen=True, slots=True)
class NeedsBuild:
    """The submission cannot be judged before the build stage has run. reason: one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Program:
    """kind: `python`, `native`, or `null` for the judge's own empty kernel, which has no files."""

    kind: str
    main: str = ""
    files: tuple[SourceFile, ...] = field(default=())

    def frame(self) -> bytes:
        return json.dumps({"kind": "load", "program": self.kind, "main": self.main}).encode()

    def pack(self) -> bytes:
        """Manifest and contents: 8 bytes length of the manifest, the manifest, the files."""
        manifest = json.dumps([[file.name, len(file.content)] for file in self.files]).encode()
        contents = b"".join(file.content for file in self.files)
        return len(manifest).to_bytes(8, "little") + manifest + contents


NULL = Program("null")


def is_native(main: str) -> bool:
    return not main.endswith(".py")


def program_of(job: Job, built: Built | None) -> Program | NeedsBuild:
    """The program a box loads for the job."""
    if not is_native(job.main):
        return Program("python", job.main, job.files)
    if built is None or built.module is None:
        return NeedsBuild(f"{job.main} is compiled before it is judged")
    return Program("native", NATIVE_MODULE, (SourceFile(NATIVE_MODULE, built.module),))
