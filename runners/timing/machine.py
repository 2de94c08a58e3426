"""What the kernel tells about cores, load and clocks: readers, and pure parsers of what they read."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CPUS: Final = Path("/sys/devices/system/cpu")
STAT: Final = Path("/proc/stat")
SCHEDSTAT: Final = Path("/proc/self/schedstat")
CPUINFO: Final = Path("/proc/cpuinfo")

SPIN_STEPS: Final = 20_000
SPINS: Final = 20
"""Of so many equal spins the fastest counts: an interruption only ever makes one longer."""

clock_ns = time.perf_counter_ns


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Clock ticks of one core since the machine started, as `/proc/stat` counts them.

    busy: running anything at all. stolen: the hypervisor ran somebody else. whole: all ticks.
    """

    busy: int
    stolen: int
    whole: int

    def since(self, before: CoreTime) -> CoreTime:
        return CoreTime(
            self.busy - before.busy, self.stolen - before.stolen, self.whole - before.whole
        )


def core_times(stat: str) -> Mapping[int, CoreTime]:
    """The cores' lines of `/proc/stat`.

    Their columns (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal; what follows
    is counted in `user` already.
    """
    found = {}
    for line in stat.splitlines():
        name, *columns = line.split()
        if not name.startswith("cpu") or name == "cpu":
            continue
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, [*columns, *"0" * 8][:8])
        busy = user + nice + system + irq + softirq
        found[int(name[3:])] = CoreTime(busy, steal, busy + idle + iowait + steal)
    return found


def cores_of_list(text: str) -> frozenset[int]:
    """The cores of a list as sysfs writes it, such as `0,4-6`."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cores.update(range(int(first), int(last or first) + 1))
    return frozenset(cores)


def is_virtual(cpuinfo: str) -> bool:
    """Whether the processor says that it runs below a hypervisor (x86: CPUID leaf 1, ECX bit 31)."""
    return any(
        "hypervisor" in line.partition(":")[2].split()
        for line in cpuinfo.splitlines()
        if line.startswith("flags")
    )


def turbo_of(no_turbo: str | None, boost: str | None) -> bool | None:
    """Whether cores may run above their base frequency; None where the kernel tells neither way.

    no_turbo: of intel_pstate. boost: of every other driver.
    """
    if no_turbo is not None:
        return no_turbo == "0"
    return None if boost is None else boost == "1"


def waited_ns(schedstat: str) -> int:
    """How long a process was ready to run while its core ran others: the second number of schedstat."""
    return int(schedstat.split()[1])


@dataclass(frozen=True, slots=True)
class Cores:
    """What stays as it is about the two cores that measuring needs.

    usable: those this process may use. siblings: of the evaluator's core, itself included.
    governors: by core; a core is missing where the kernel tells no governor.
    """

    evaluator: int
    box: int
    usable: frozenset[int]
    siblings: frozenset[int]
    governors: Mapping[int, str]
    turbo: bool | None
    virtual: bool


def read_cores(evaluator: int, box: int, usable: Collection[int]) -> Cores:
    """Look at two cores of this machine."""
    governors = {
        core: governor
        for core in (evaluator, box)
        if (governor := _line(CPUS / f"cpu{core}" / "cpufreq" / "scaling_governor")) is not None
    }
    siblings = _line(CPUS / f"cpu{evaluator}" / "topology" / "thread_siblings_list")
    return Cores(
        evaluator=evaluator,
        box=box,
        usable=frozenset(usable),
        siblings=cores_of_list(siblings or str(evaluator)),
        governors=governors,
        turbo=turbo_of(
            _line(CPUS / "intel_pstate" / "no_turbo"), _line(CPUS / "cpufreq" / "boost")
        ),
        virtual=is_virtual(CPUINFO.read_text(errors="replace")),
    )


@dataclass(slots=True)
class Disturbance:
    """What disturbed the evaluator and its two cores while it measured.

    Used as `with disturbance.watch():` around measuring, and `rest` and `spin` in between.
    stolen, whole: clock ticks of both cores while watched. switches: times the evaluator was taken
    off its core; waited_ns: how long it then waited, None where the kernel does not count it.
    load: largest share of a core that others used while measuring rested. spins_ns: by core, the
    fastest of equal spins, once per look.
    """

    cores: tuple[int, ...]
    watched_ns: int = 0
    stolen: int = 0
    whole: int = 0
    switches: int = 0
    waited_ns: int | None = 0
    load: dict[int, float] = field(default_factory=dict)
    spins_ns: dict[int, list[int]] = field(default_factory=dict)

    @contextmanager
    def watch(self) -> Iterator[None]:
        before, began_ns = _read_times(self.cores), clock_ns()
        switches, waited = _switches(), _waited_ns()
        try:
            yield
        finally:
            self.watched_ns += clock_ns() - began_ns
            self.switches += _switches() - switches
            now_waited = _waited_ns()
            if self.waited_ns is None or waited is None or now_waited is None:
                self.waited_ns = None
            else:
                self.waited_ns += now_waited - waited
            for core, now in _read_times(self.cores).items():
                passed = now.since(before[core])
                self.stolen += passed.stolen
                self.whole += passed.whole

    def rest(self, seconds: float) -> None:
        """Leave the cores alone for a while, and see who else uses them."""
        before = _read_times(self.cores)
        time.sleep(seconds)
        for core, now in _read_times(self.cores).items():
            passed = now.since(before[core])
            share = passed.busy / passed.whole if passed.whole else 0.0
            self.load[core] = max(share, self.load.get(core, 0.0))

    def spin(self) -> None:
        """Run the same loop on each core: how fast it turns there now. Returns to its own cores."""
        home = os.sched_getaffinity(0)
        try:
            for core in self.cores:
                os.sched_setaffinity(0, {core})
                self.spins_ns.setdefault(core, []).append(fastest_spin_ns())
        finally:
            os.sched_setaffinity(0, home)

    @property
    def steal(self) -> float:
        """Share of the cores' time that the hypervisor gave to others."""
        return self.stolen / self.whole if self.whole else 0.0

    @property
    def drift(self) -> float:
        """How much longer the slowest look's spin took than the quickest look's, on one core."""
        return max((max(s) / min(s) - 1 for s in self.spins_ns.values()), default=0.0)

    @property
    def switches_per_s(self) -> float:
        return self.switches / (self.watched_ns / 1e9) if self.watched_ns else 0.0

    @property
    def waited(self) -> float | None:
        """Share of the time that the evaluator waited for its own core."""
        if self.waited_ns is None or not self.watched_ns:
            return None
        return self.waited_ns / self.watched_ns


def fastest_spin_ns(steps: int = SPIN_STEPS, spins: int = SPINS) -> int:
    """Nanoseconds of a fixed loop, the quickest of several.

    Of this thread's own time: what others took of the core is told by itself.
    """
    taken = []
    for _ in range(spins):
        began_ns = time.thread_time_ns()
        for _ in range(steps):
            pass
        taken.append(time.thread_time_ns() - began_ns)
    return min(taken)


def _read_times(cores: Sequence[int]) -> dict[int, CoreTime]:
    times = core_times(STAT.read_text())
    return {core: times[core] for core in cores if core in times}


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _waited_ns() -> int | None:
    text = _line(SCHEDSTAT)
    return None if text is None else waited_ns(text)


def _line(path: Path) -> str | None:
    with suppress(OSError):
        return path.read_text().strip()
    return None
