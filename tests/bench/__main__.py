"""`make bench`: figures of this machine, through the real server, queue, runner and boxes.

Prints a table and writes `bench-results/bench.json`. Nothing here passes or fails: the table shows
what was asked for beside what was found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judge.client import JudgeClient, Target
from judge.model import JobState, Mode, SourceFile
from runners.sandboxes import figures as boxes
from runners.sandboxes.bubblewrap import BubblewrapSandbox
from tests.bench.figures import Row, as_json, table
from tests.bench.load import hand_in_for, submission_request
from tests.bench.simulation import simulation_rows
from tests.live import ROOT, LiveJudge, LiveRunner, children_of

RESULTS = Path("bench-results")
WARM_RUNS = 15
RANKED_RUNS = 2
LOAD_CLIENTS = 16
LOAD_S = 5.0
LOAD_ROUNDS = 3
KERNEL = "baseline_torch.py"

CONTEST = """
title = "Bench"
problems = ["topk"]
devices = ["cpu"]
opens = 2026-01-01T00:00:00Z
closes = 2036-01-01T00:00:00Z
team_size = 1
open_registration = true
show_sources_after_close = false
[quotas]
test = { count = 10_000_000, per_s = 3600 }
"""


@contextmanager
def live_judge() -> Iterator[LiveJudge]:
    with tempfile.TemporaryDirectory(prefix="judge-bench-") as folder:
        contest = Path(folder) / "contest.toml"
        contest.write_text(CONTEST)
        judge = LiveJudge(Path(folder) / "state", {"JUDGE_CONTEST_FILE": str(contest)})
        judge.start()
        try:
            yield judge
        finally:
            judge.stop()


def resident_mb(pid: int) -> float:
    """Resident memory of one process in MB (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def descendants(pid: int) -> list[int]:
    below = children_of(pid)
    return below + [deeper for child in below for deeper in descendants(child)]


def throughput(judge: LiveJudge) -> list[Row]:
    """Durably accepted submissions per second; no runner is up, so only intake is measured."""
    source = (ROOT / "problems" / "topk" / "submissions" / KERNEL).read_bytes()
    requests = [
        submission_request(judge.url, judge.newcomer(f"Loader {n}"), source)
        for n in range(LOAD_CLIENTS)
    ]
    rates, p99s = [], []
    for _ in range(LOAD_ROUNDS):
        taken_ms, passed_s = hand_in_for(judge.url, requests, LOAD_S)
        rates.append(len(taken_ms) / passed_s)
        p99s.append(sorted(taken_ms)[int(0.99 * len(taken_ms))])
    return [
        Row("durably accepted submissions, 16 clients, SQLite", "1/s", tuple(rates), "> 1,000"),
        Row("the same, p99 of one request", "ms", tuple(p99s), "< 100"),
    ]


def warm_verdicts(judge: LiveJudge) -> list[Row]:
    """From POST to the final verdict in test mode, with evaluator and box pre-started."""
    source = (ROOT / "problems" / "topk" / "submissions" / KERNEL).read_bytes()
    runner = LiveRunner(judge)
    runner.start()
    seconds = []
    try:
        with JudgeClient(judge.url, judge.newcomer("Latency")) as client:
            for run in range(WARM_RUNS + 2):
                began = time.perf_counter()
                receipt = client.submit(
                    Target("topk", "cpu", Mode.TEST), [SourceFile(KERNEL, source)]
                )
                *_, last = client.watch(receipt.submission_id)
                if last.state is not JobState.DONE or last.verdict != "accepted":
                    raise RuntimeError(f"the bench kernel was not accepted: {last}")
                if run >= 2:  # the first ones warm caches and the runner itself
                    seconds.append(time.perf_counter() - began)
                time.sleep(2.5)  # until the next box is ready
        whole = [resident_mb(runner.pid), *map(resident_mb, descendants(runner.pid))]
        memory = [
            Row("memory of an idle runner: worker", "MB", (whole[0],)),
            Row("memory of an idle runner: with evaluator and ready boxes", "MB", (sum(whole),)),
        ]
    finally:
        runner.stop()
    return [Row("POST to verdict, test mode, warm", "s", tuple(seconds), "< 1.5"), *memory]


def idle_server(judge: LiveJudge) -> list[Row]:
    return [Row("memory of the idle server", "MB", (resident_mb(judge.pid),), "< 150")]


def box_rows() -> list[Row]:
    sandbox = BubblewrapSandbox()
    try:
        return [
            Row(f"box: {f.name}", "us", tuple(ns / 1e3 for ns in f.samples_ns))
            for f in boxes.measure(sandbox)
        ]
    finally:
        sandbox.close()


def protocol_rows() -> list[Row]:
    """In a process of its own: measuring pins it to one core."""
    printed = subprocess.run(
        [sys.executable, "-m", "runners.evaluator.figures"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    figures: dict[str, list[int]] = {k: v for k, v in json.loads(printed).items() if k != "at"}
    bounds = {"round_trip": "< 1"}
    return [
        Row(f"protocol: {name}", "us", tuple(ns / 1e3 for ns in samples), bounds.get(name, ""))
        for name, samples in figures.items()
    ]


def ranked_rows() -> list[Row]:
    """Ranked runs of the fastest shipped top-k kernel; in a process of its own, as above."""
    printed = subprocess.run(
        [sys.executable, "-m", "tests.bench.ranked", str(RANKED_RUNS)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    found: dict[str, list[float]] = json.loads(printed)
    told = {
        "seconds": ("ranked top-k run, all in", "s", "< 120"),
        "equal_pct": ("ranked: baseline against its copy, each box pair", "%", ""),
        "speedup": ("ranked: shipped native kernel over plain torch", "x", ""),
        "half_width_pct": ("ranked: half-width of its interval", "%", "< 1 to rank"),
    }
    return [
        Row(what, unit, tuple(found[name]), bound)
        for name, (what, unit, bound) in told.items()
        if found[name]
    ]


def main() -> int:
    rows = [*simulation_rows(), *protocol_rows(), *box_rows(), *ranked_rows()]
    with live_judge() as judge:
        time.sleep(1)
        rows += [*idle_server(judge), *warm_verdicts(judge)]
    with live_judge() as judge:
        rows += throughput(judge)
    print(table(rows))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bench.json").write_text(as_json(rows))
    print(f"Every sample is in {RESULTS / 'bench.json'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
