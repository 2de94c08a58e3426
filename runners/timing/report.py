"""What the doctor found out about timing, as a table, as JSON, and as a file for the runner to show."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from judge.stats import median
from runners.doctor import Finding
from runners.timing.measure import Costs
from runners.timing.neighbour import Beside, neighbour_figures
from runners.timing.resolution import CONFIDENCE, Series, quantile, smallest_differences

FILE: Final = "doctor-timing.json"


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a machine. series: none where boxes cannot be frozen. beside: where it was tried."""

    costs: Costs
    series: tuple[Series, ...]
    beside: Beside | None = None

    @property
    def resolves(self) -> Mapping[int, float]:
        """The smallest difference told, by seconds of measuring."""
        return smallest_differences(self.series) if self.series else {}


def figures(found: Measured) -> Mapping[str, float]:
    """Every figure by a name that ends in its unit; what was not measured is left out.

    aa_sd_..._pct: standard deviation between box pairs of a kernel against its copy. resolves_...:
    the smallest difference that is told at 95 %.
    """
    told = {
        "round_trip_median_us": median(found.costs.round_trip_ns) / 1e3,
        "round_trip_p99_us": quantile(found.costs.round_trip_ns, 0.99) / 1e3,
        "null_call_median_us": median(found.costs.null_call_ns) / 1e3,
        "null_call_p99_us": quantile(found.costs.null_call_ns, 0.99) / 1e3,
        "box_start_cold_s": found.costs.starts.cold_s,
        "box_start_warm_s": median(found.costs.starts.warm_s),
        "box_from_pool_s": median(found.costs.starts.pool_s),
    }
    for series in found.series:
        after = f"{series.asked_s:g}s"
        told[f"aa_sd_{after}_pct"] = percent(series.spread)
        told[f"aa_mean_{after}_pct"] = percent(series.estimate.mean)
    for seconds, smallest in found.resolves.items():
        told[f"resolves_in_{seconds}s_pct"] = percent(smallest)
    if found.beside is not None:
        told |= neighbour_figures(found.beside)
    return {name: float(f"{value:.4g}") for name, value in told.items()}


def percent(log_ratio: float) -> float:
    """A log ratio as a difference in per cent."""
    return 100 * math.expm1(log_ratio)


def table(found: Measured) -> Sequence[str]:
    """The figures as lines of plain text."""
    told = figures(found)
    lines = [
        _line("round trip", told["round_trip_median_us"], "us", told["round_trip_p99_us"]),
        _line("null call", told["null_call_median_us"], "us", told["null_call_p99_us"]),
        f"{'box start, cold':<34}{told['box_start_cold_s']:>9.2f} s",
        f"{'box start, warm':<34}{told['box_start_warm_s']:>9.2f} s",
        f"{'box taken from the pool':<34}{told['box_from_pool_s']:>9.4f} s",
    ]
    if found.series:
        lines.append("a kernel against its copy:")
    for series in found.series:
        estimate = series.estimate
        lines.append(
            f"{f'  after {series.asked_s:g} s of measuring':<34}"
            f"{percent(series.spread):>9.3f} %  between pairs; mean {percent(estimate.mean):+.3f} %"
            f" within {percent(estimate.half_width(CONFIDENCE)):.3f} %"
            f"  ({len(series.values)} boxes per arm, {series.calls} calls each,"
            f" {series.measured_s:.1f} s)"
        )
    if found.resolves:
        lines.append("the smallest difference told at 95 %:")
    for seconds, smallest in found.resolves.items():
        lines.append(f"{f'  in {seconds} s of measuring':<34}{percent(smallest):>9.3f} %")
    return lines


def whole(found: Measured, findings: Sequence[Finding], at: datetime) -> dict[str, Any]:
    """Figures, findings, and the box pairs behind them, fit for JSON."""
    return {
        "at": at.isoformat(),
        "figures": dict(figures(found)),
        "findings": [asdict(finding) for finding in findings],
        "series": [asdict(series) for series in found.series],
    }


def write_file(state_dir: Path, found: Measured, at: datetime) -> Path:
    """Leave the figures where the runner looks for them; whole, or as they were before.

    Raises OSError where the folder cannot be written.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / FILE
    partial = path.with_suffix(f".{os.getpid()}")
    told = {"at": at.isoformat(), "figures": dict(figures(found))}
    partial.write_text(json.dumps(told, indent=1) + "\n")
    partial.replace(path)
    return path


def _line(name: str, middle: float, unit: str, p99: float) -> str:
    return f"{name:<34}{middle:>9.2f} {unit}  (p99 {p99:.2f} {unit})"
