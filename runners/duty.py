"""A runner's day: it tests itself, enrols, answers rings, and steps back while it may not judge."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from rq.exceptions import StopRequested

from judge.model import RunnerState
from judge.wire import HelloBody
from judge.wire.runners import MAX_DOCTOR_BYTES
from runners.enrolment import Enrolment
from runners.rings import Rings
from runners.self_test import SelfTest
from runners.settings import WorkerSettings
from runners.stop import Stop
from runners.worker import Worker

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""How long after a failed self-test the next one begins."""

DOCTOR_FILE = "doctor-timing.json"
"""Where `judge doctor --timing` leaves its figures in the state folder."""


class Duty:
    """Runs one worker until told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        worker: Worker,
        enrolment: Enrolment,
        rings: Rings,
        stop: Stop,
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._enrolment = enrolment
        self._rings = rings
        self._stop = stop

    def run(self) -> None:
        """Until a signal. Raises EnrolmentRefusedError, ConversationEndedError."""
        with self._stop.on_signals():
            try:
                while not self._stop():
                    self._turn()
            except StopRequested:
                pass  # the signal came on the edge of a wait

    def _turn(self) -> None:
        """From a self-test until it is time for the next."""
        test = self._worker.self_test()
        if test is None:
            return
        log.log(
            logging.INFO if test.passed else logging.ERROR,
            *("self-test passed=%s detail=%r", test.passed, test.detail),
        )
        standing = self._enrolment.greet(self._hello(test))
        if standing is None:
            return
        if standing.state is RunnerState.QUARANTINED:
            log.warning("in quarantine why=%r next_self_test_s=%s", standing.why, standing.retest_s)
            due_s = standing.retest_s
            self._enrolment.sit_out(due_s if due_s is None or test.passed else max(due_s, RETRY_S))
        elif not test.passed:
            self._stop.wait(RETRY_S)
        else:
            self._rings.listen(self._worker.answer, self._enrolment.hindered)

    def _hello(self, test: SelfTest) -> HelloBody:
        ready = self._worker.ready
        return HelloBody(
            runner=self._settings.name,
            isolation="full" if ready.isolation == "full" else "reduced",
            self_test=test.body(),
            reasons=list(ready.reasons),
            environment=dict(ready.environment),
            problem_digests=self._worker.digests(),
            doctor=doctor_figures(self._settings.evaluator.state_dir),
        )


def doctor_figures(state_dir: Path) -> dict[str, Any] | None:
    """What the doctor found when it last timed this machine; None if it never did, or not readably."""
    path = state_dir / DOCTOR_FILE
    try:
        with path.open("rb") as file:
            text = file.read(MAX_DOCTOR_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("doctor's figures unreadable file=%s fault=%s", path, error)
        return None
    try:
        found = json.loads(text) if len(text) <= MAX_DOCTOR_BYTES else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        log.warning(
            "doctor's figures left out file=%s remedy=run judge doctor --timing --json", path
        )
        return None
    return found
