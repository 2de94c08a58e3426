"""`judge doctor --timing`: measure, find causes, print, and leave the figures for the runner."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from judge.cli.talk import Exit, WrongUse, answer, print_json, say
from runners.devices import open_device
from runners.doctor import Finding, exit_of, line_of
from runners.ports import Device, Sandbox
from runners.sandboxes.bubblewrap import BubblewrapSandbox
from runners.timing import Examination
from runners.timing.causes import Seen, causes
from runners.timing.machine import Cores, read_cores
from runners.timing.measure import Bench, measure_copies, measure_costs, open_bench, watch_alone
from runners.timing.neighbour import beside, neighbour_finding, why_not
from runners.timing.report import Measured, table, whole, write_file
from runners.timing.resolution import CONFIDENCE


def examine(wish: Examination) -> Exit:
    """Measure and print; the exit code is the doctor's.

    Raises WrongUse for cores that cannot be used, or a neighbour that this machine has no room for;
    SandboxError where a box fails.
    """
    try:
        device = open_device(wish.device, wish.evaluator_core, wish.box_core)
    except ValueError as error:
        raise WrongUse(str(error)) from error
    cores = read_cores(device.evaluator_core(), device.box_cores()[0], os.sched_getaffinity(0))
    if wish.neighbour and (refused := why_not(cores)):
        raise WrongUse(refused)
    sandbox = BubblewrapSandbox()
    try:
        found, findings = measure(sandbox, device, cores, wish)
    finally:
        sandbox.close()
    _tell(wish, found, findings)
    return exit_of(findings)


def measure(
    sandbox: Sandbox, device: Device, cores: Cores, wish: Examination
) -> tuple[Measured, tuple[Finding, ...]]:
    """The figures, and what disturbs them here. Raises SandboxError."""
    with open_bench(sandbox, device) as bench:
        costs = measure_costs(bench, say)
        freezer = bench.boxes.conditions.freezer
        if not freezer:
            watch_alone(bench.disturbance)
            found = Measured(costs, ())
        else:
            bench.start_duel()
            series = measure_copies(bench, wish.longest_s, say)
            others = cores.usable - {cores.evaluator, cores.box}
            found = Measured(costs, series, beside(bench, others, say) if wish.neighbour else None)
        seen = _seen(bench, cores, found)
    findings = causes(seen)
    return found, findings if found.beside is None else (*findings, neighbour_finding(found.beside))


def _seen(bench: Bench, cores: Cores, found: Measured) -> Seen:
    disturbance = bench.disturbance
    longest = found.series[-1].estimate if found.series else None
    return Seen(
        cores=cores,
        freezer=bench.boxes.conditions.freezer,
        memory=found.costs.memory,
        steal=disturbance.steal,
        load=dict(disturbance.load),
        drift=disturbance.drift,
        switches_per_s=disturbance.switches_per_s,
        waited=disturbance.waited,
        bias=(longest.mean, longest.half_width(CONFIDENCE)) if longest else None,
        resolves=found.resolves,
    )


def _tell(wish: Examination, found: Measured, findings: tuple[Finding, ...]) -> None:
    at = datetime.now(UTC)
    try:
        say(f"figures are in {write_file(wish.state_dir, found, at)}")
    except OSError as error:
        say(f"figures are not kept: {error}")
    if wish.as_json:
        print_json(whole(found, findings, at))
        return
    for line in (*table(found), "", *map(line_of, findings)):
        answer(line)
