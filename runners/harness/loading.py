"""How the harness loads a submission, and how it tells of what goes wrong in it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import linecache
import operator
import os
import signal
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

SUBMISSION = "/tmp/submission"
CACHE = "/judge/cache"

MAX_NAME_CHARS = 200
MAX_TEXT_CHARS = 2_000
MAX_TRACE_CHARS = 6_000
MAX_FRAMES = 20


class BadReturnError(Exception):
    """What custom_kernel returned does not fit the outputs."""


class NoKernelError(Exception):
    """The submission lacks its entry point."""


class BuildFailedError(Exception):
    """An inline extension does not compile."""


@dataclass
class Program:
    """A loaded submission. prepare: makes what `kernel` takes of (inputs and outputs, outputs)."""

    kernel: Callable[[Any], Any]
    setup: Callable[[Any, Any], Any] | None
    prepare: Callable[[tuple[Any, ...], tuple[torch.Tensor, ...]], Any]
    teardown: Callable[[], Any] | None = None


def load(kind: str, main: str, fd: int) -> Program:
    """The program of a `load` frame. fd: memfd with the files."""
    if kind == "null":
        os.close(fd)
        # The empty kernel is handed its outputs beside the data, so that it works for every problem.
        return Program(
            kernel=operator.itemgetter(1),
            setup=None,
            prepare=lambda data, outputs: (data, outputs if len(outputs) > 1 else outputs[0]),
        )
    write_files(fd)
    path = os.path.join(SUBMISSION, main)
    return load_native(path) if kind == "native" else load_python(path)


def write_files(fd: int) -> None:
    with os.fdopen(fd, "rb") as file:
        manifest = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, size in manifest:
            path = os.path.join(SUBMISSION, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as copy:
                copy.write(file.read(size))


def load_python(path: str) -> Program:
    sys.path.insert(0, SUBMISSION)
    if not os.path.exists(os.path.join(SUBMISSION, "task.py")):
        # Contestants' files often take their type names from a module of this name.
        task = types.ModuleType("task")
        task.input_t, task.output_t = tuple, torch.Tensor  # type: ignore[attr-defined]
        sys.modules["task"] = task
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, "custom_kernel", None)
    if not callable(kernel):
        raise NoKernelError(
            f"{os.path.basename(path)} defines no custom_kernel: add `def custom_kernel(data):`"
        )
    setup, teardown = getattr(module, "setup", None), getattr(module, "teardown", None)
    return Program(
        kernel,
        setup if callable(setup) else None,
        lambda data, _: data,
        teardown if callable(teardown) else None,
    )


def load_native(path: str) -> Program:
    """A shared object that exports `custom_kernel` by the tvm-ffi ABI; it writes to its outputs."""
    import tvm_ffi

    module = tvm_ffi.load_module(path)
    try:
        function = module.custom_kernel
    except AttributeError:
        raise NoKernelError(
            "the source exports no custom_kernel: add"
            " TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, ...)"
        ) from None

    def prepare(data: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> Any:
        given = tuple(
            tvm_ffi.from_dlpack(item) if isinstance(item, torch.Tensor) else item for item in data
        )
        return given, outputs if len(outputs) > 1 else outputs[0]

    def kernel(prepared: Any) -> Any:
        function(*prepared[0])
        return prepared[1]

    return Program(kernel, None, prepare)


def explain(error: BaseException) -> dict[str, str]:
    """The fields of a `fault` frame. Survives exceptions whose own methods raise."""
    own = isinstance(error, (BadReturnError, NoKernelError))
    return {
        "fault": kind_of(error),
        "type": "" if own else attempt(lambda: type(error).__name__)[:MAX_NAME_CHARS],
        "message": attempt(lambda: str(error)),
        "trace": "" if own else attempt(lambda: trace(error), MAX_TRACE_CHARS),
    }


def kind_of(error: BaseException) -> str:
    if isinstance(error, BadReturnError):
        return "bad_return"
    if isinstance(error, NoKernelError):
        return "no_kernel"
    if isinstance(error, BuildFailedError):
        return "build"
    if isinstance(error, SyntaxError):
        return "syntax"
    if isinstance(error, MemoryError) or "can't allocate memory" in attempt(lambda: str(error)):
        return "memory"
    return "exception"


def attempt(text: Callable[[], Any], limit: int = MAX_TEXT_CHARS) -> str:
    try:
        return str(text())[:limit]
    except BaseException:
        return "(the exception cannot be printed)"


def trace(error: BaseException) -> str:
    """Innermost frames of the submission's own files, as Python writes them."""
    lines = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename.startswith(SUBMISSION):
            name = os.path.relpath(code.co_filename, SUBMISSION)
            source = linecache.getline(code.co_filename, step.tb_lineno).strip()
            lines.append(f'  File "{name}", line {step.tb_lineno}, in {code.co_name}\n    {source}')
        step = step.tb_next
    return "\n".join(lines[-MAX_FRAMES:])


def import_what_submissions_use(mode: str, needs_build: Callable[[str], None]) -> None:
    """Import now, while nothing of a submission is here, what may not be set up later.

    needs_build: called in a timed box for an inline extension that the cache lacks; never returns.
    """
    if importlib.util.find_spec("tvm_ffi") is not None:
        importlib.import_module("tvm_ffi")
        # Its handler spends seconds on a backtrace: a crash would look like a call without end.
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    extensions = importlib.import_module("torch.utils.cpp_extension")
    extensions_of_mode = Recording if mode == "build" else Replaying
    for name in ("load", "load_inline"):
        setattr(extensions, name, extensions_of_mode(getattr(extensions, name), needs_build))


class Recording:
    """`load` and `load_inline` in a build box: compile into the cache and note what came of it."""

    built: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, compile_: Callable[..., Any], _: Callable[[str], None]) -> None:
        self._compile = compile_

    def __call__(self, name: str, *args: Any, **options: Any) -> Any:
        options.pop("build_directory", None)
        try:
            made = self._compile(name, *args, **options)
        except Exception as error:
            # A frame holds its beginning only; the judge keeps what a build box prints as the log.
            print(error, file=sys.stderr, flush=True)
            raise BuildFailedError(str(error)) from None
        is_module = isinstance(made, types.ModuleType)
        path = made.__file__ if is_module else made
        self.built.append(
            {
                "name": name,
                "module": made.__name__ if is_module else None,
                "path": os.path.relpath(path, CACHE),
            }
        )
        with open(os.path.join(CACHE, "extensions.json"), "w") as index:
            json.dump(self.built, index)
        return made


class Replaying:
    """`load` and `load_inline` in a timed box: the same calls give what they built before."""

    calls: ClassVar[dict[str, int]] = {}

    def __init__(self, _: Callable[..., Any], needs_build: Callable[[str], None]) -> None:
        self._needs_build = needs_build

    def __call__(self, name: str, *args: Any, **options: Any) -> Any:
        index_path = os.path.join(CACHE, "extensions.json")
        built = []
        if os.path.exists(index_path):
            with open(index_path) as index:
                built = [entry for entry in json.load(index) if entry["name"] == name]
        nth = self.calls[name] = self.calls.get(name, -1) + 1
        if nth >= len(built):
            self._needs_build(str(name))
        path = os.path.join(CACHE, built[nth]["path"])
        module_name = built[nth]["module"]
        if module_name is None:
            torch.ops.load_library(path)  # type: ignore[no-untyped-call]
            return path
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
