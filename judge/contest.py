"""`contest.toml` becomes a `Contest`, or a list of what to mend."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from judge.model import Contest, Mode, Quota
from judge.tables import DeclarationError, Table, read_table


def load_contest(file: Path) -> Contest:
    """Read a contest file. Raises DeclarationError with every fault, each with its remedy."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        fault = f"{file}: there is no such file; write one, or set JUDGE_CONTEST_FILE to yours"
        raise DeclarationError([fault]) from error
    except UnicodeDecodeError as error:
        fault = f"{file}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise DeclarationError([fault]) from error
    return parse_contest(text, file.name)


def parse_contest(text: str, file: str = "contest.toml") -> Contest:
    """A contest from the text of its file. file: how messages call it.

    Times must have an offset from UTC, and opens < freezes <= closes. A mode without a quota is
    unlimited. Raises DeclarationError with every fault.
    """
    top = read_table(text, file)
    title = top.text("title", "Autumn kernels")
    problems = top.texts("problems", "topk")
    devices = top.texts("devices", "cpu")
    opens = top.moment("opens")
    freezes = top.moment("freezes", required=False)
    closes = top.moment("closes")
    _check_order(top, opens, freezes, closes)
    quotas = _quotas(top.table("quotas"))
    team_size = top.whole("team_size", default=1, example=3)
    open_registration = top.flag("open_registration", default=False)
    show_sources = top.flag("show_sources_after_close", default=False)
    top.refuse_unknown()
    top.settle()
    assert opens is not None
    assert closes is not None
    return Contest(
        title=title,
        problems=problems,
        devices=devices,
        opens=opens.astimezone(UTC),
        freezes=freezes.astimezone(UTC) if freezes else None,
        closes=closes.astimezone(UTC),
        quotas=quotas,
        team_size=team_size,
        open_registration=open_registration,
        show_sources_after_close=show_sources,
    )


def _quotas(table: Table) -> dict[Mode, Quota]:
    quotas: dict[Mode, Quota] = {}
    for mode in Mode:
        if table.has(mode):
            quota = table.table(mode)
            count = quota.whole("count", example=50)
            quotas[mode] = Quota(count, quota.whole("per_s", example=3600))
            quota.refuse_unknown()
    table.refuse_unknown()
    return quotas


def _check_order(
    top: Table, opens: datetime | None, freezes: datetime | None, closes: datetime | None
) -> None:
    if opens and closes and opens >= closes:
        top.fault("closes", "must be later than opens", "write a later time, or open earlier")
    elif opens and freezes and opens >= freezes:
        top.fault("freezes", "must be later than opens", "write a later time, or leave it out")
    elif freezes and closes and freezes > closes:
        top.fault("freezes", "must not be later than closes", "write an earlier time")
