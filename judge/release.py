"""An organizer's release of a held submission, with all that follows from it."""

from __future__ import annotations

from datetime import datetime

from judge.model import Refusal, Ruling
from judge.ports import Store
from judge.records import JobRecord
from judge.views import Views


def release(
    store: Store, views: Views, submission_id: int, by: int, now: datetime
) -> JobRecord | Refusal:
    """Let a held submission go, and with it those that were held for it alone.

    by: the organizer's token id. One that would change a band and was run only once is not published
    but queued to be confirmed. One whose kernel has another run that is held for a reason of its own
    stays held for that. Refuses: submission_unknown, job_unfinished, kernel_held (for that already).
    """
    record = store.record(submission_id)
    ruling = views.ruling_at_release(record) if record is not None and record.held else Ruling()
    if record is not None and ruling.hold and ruling.hold == record.hold:
        detail = f"Submission {submission_id} stays as it is. {record.hold}"
        return Refusal("kernel_held", detail, 409)
    released = store.moderate(submission_id, "", by, now, ruling)
    if isinstance(released, JobRecord) and not released.held:
        for follower in views.held_for(released):
            release(store, views, follower, by, now)
    return released
