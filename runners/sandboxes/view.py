"""What a box can see of the host's files."""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runners.ports import BoxSpec, Phase
from runners.sandboxes.channel import PATH_INSIDE

_OWN_PACKAGES = ("judge", "leaderboard", "runners")
_TOP_LINKS = ("bin", "lib", "lib32", "lib64", "sbin")
_COMPILER_PARTS = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/include",
    "/usr/local/cuda",
    "/opt/rocm",
    "/etc/alternatives",
)
_SHARED_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class View:
    """Paths that every box of a phase sees read-only, under their own names.

    links: path to what it points to. masked: directories below these that show empty.
    """

    paths: tuple[Path, ...]
    links: Mapping[str, str]
    masked: tuple[Path, ...]


def view_of(phase: Phase, tools: Sequence[Path] = ()) -> View:
    """System libraries and this interpreter with its packages; compilers in the build phase.

    tools: single programs that must be there, such as setpriv. The judge's own packages show empty:
    a box gets judge code only by what its `BoxSpec` names.
    """
    paths = [*_system_libraries(), *tools]
    links = {f"/{name}": str(Path("/", name).readlink()) for name in _TOP_LINKS if _is_link(name)}
    if phase is Phase.BUILD:
        paths += [Path(part) for part in _COMPILER_PARTS]
        paths += [Path("/", name) for name in _TOP_LINKS if not _is_link(name)]
        paths.append(Path(sysconfig.get_path("include")))
    interpreter, more_links = _interpreter()
    paths += interpreter
    kept = _outermost(path for path in paths if path.exists())
    masked = [
        Path(packages) / name
        for packages in site.getsitepackages()
        for name in _OWN_PACKAGES
        if (Path(packages) / name).is_dir()
    ]
    return View(kept, _outside(links | more_links, kept), tuple(masked))


def _is_link(name: str) -> bool:
    return Path("/", name).is_symlink()


def _system_libraries() -> list[Path]:
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    directories = [Path("/usr/lib64"), Path("/etc/ld.so.cache")]
    if multiarch:
        directories += [Path("/usr/lib") / multiarch]
        if not _is_link("lib"):
            directories += [Path("/lib") / multiarch]
    if not _is_link("lib64"):
        directories.append(Path("/lib64"))
    return directories


def _interpreter() -> tuple[list[Path], dict[str, str]]:
    """Parts of the running Python, and the links by which its program is found."""
    links: dict[str, str] = {}
    program = Path(sys.executable)
    while program.is_symlink():
        target = program.readlink()
        links[str(program)] = str(target)
        program = program.parent / target
    parts = [program, program.resolve(), Path(sysconfig.get_path("stdlib"))]
    parts += [Path(packages) for packages in site.getsitepackages()]
    if sys.prefix != sys.base_prefix:
        parts.append(Path(sys.prefix))
    if sys.base_prefix in ("/usr", "/usr/local"):
        library = sysconfig.get_config_var("INSTSONAME")
        if library:
            parts.append(Path(sys.base_prefix, "lib", library))
    else:
        parts.append(Path(sys.base_prefix, "lib"))
    return parts, links


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Without those that lie below another one."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(kept)


def _outside(links: Mapping[str, str], paths: Sequence[Path]) -> dict[str, str]:
    return {
        link: target
        for link, target in links.items()
        if not any(Path(link).is_relative_to(path) for path in paths)
    }


def small_files(uid: int) -> Mapping[str, bytes]:
    """Files of `/etc` that libraries ask for, with nothing of the host in them."""
    return {
        "/etc/passwd": f"root:x:0:0::/:/bin/false\nbox:x:{uid}:{uid}::/tmp:/bin/false\n".encode(),
        "/etc/group": f"root:x:0:\nbox:x:{uid}:\n".encode(),
        "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "/etc/hosts": b"127.0.0.1 localhost box\n",
    }


def mounts(view: View, spec: BoxSpec, files: Mapping[str, int], channel: Path) -> tuple[str, ...]:
    """Bubblewrap's arguments for everything that is seen inside, in the order they are done.

    files: path inside to an open file with its content. channel: the socket, on the host.
    """
    binds = [(path, str(path)) for path in view.paths]
    extra = [*spec.read_only.items(), (channel, PATH_INSIDE)]
    arguments = ["--size", str(spec.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp"]
    # A missing parent would be made 0700, and the box's user could not pass it.
    inside = [target for _, target in binds + extra] + [
        *files,
        *view.links,
        *spec.writable.values(),
    ]
    for parent in _parents(inside, view.paths):
        arguments += ["--dir", parent]
    for source, target in binds:
        arguments += ["--ro-bind", str(source), target]
    for link, points_to in view.links.items():
        arguments += ["--symlink", points_to, link]
    for path in view.masked:
        arguments += ["--size", "4096", "--perms", "0555", "--tmpfs", str(path)]
        arguments += ["--remount-ro", str(path)]
    for target, fd in files.items():
        arguments += ["--perms", "0444", "--file", str(fd), target]
    for source, target in extra:
        arguments += ["--ro-bind", str(source), target]
    for source, target in spec.writable.items():
        arguments += ["--bind", str(source), target]
    shared_bytes = min(spec.tmp_bytes, _SHARED_MEMORY_BYTES)
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--size", str(shared_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"]
    return (*arguments, "--remount-ro", "/dev", "--remount-ro", "/")


def _parents(targets: Iterable[str], bound: Sequence[Path]) -> list[str]:
    """Directories above the targets that no bind brings along, outermost first."""
    found: set[PurePosixPath] = set()
    for target in targets:
        found.update(PurePosixPath(target).parents)
    inside = {PurePosixPath(path) for path in bound}
    return [
        str(parent)
        for parent in sorted(found)
        if str(parent) not in ("/", "/tmp")
        and not any(parent.is_relative_to(path) for path in inside)
    ]
