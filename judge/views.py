"""What a given viewer is told: records and boards as wire bodies, redacted once for every door."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from judge.boards import Boards, frozen_at
from judge.model import (
    JobState,
    Mode,
    Outcome,
    Problem,
    Refusal,
    Role,
    Ruling,
)
from judge.notices import NoticeBoard
from judge.pace import Pace
from judge.ports import Clock, Store
from judge.records import Identity, JobRecord, OpenContest
from judge.rules import may_see, place_and_eta
from judge.text import moment
from judge.tokens import token_hash
from judge.told import Standpoint, ranked_body, submission_body, without_raw_times
from judge.wire import (
    AnnouncementBody,
    BoardBody,
    BoardRefBody,
    CaseBody,
    ContestBody,
    ProblemBody,
    QuotaBody,
    RankedBoardBody,
    SubmissionBody,
    SubmissionListBody,
)

STATEMENT: Final = "statement.md"
PAGE_LENGTH: Final = 50
MAX_ID: Final = 2**63 - 1


class Views:
    """Answers questions of people. Every door (API, pages) asks here, so none tells more."""

    def __init__(
        self,
        store: Store,
        opened: OpenContest,
        notices: NoticeBoard,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._store = store
        self._opened = opened
        self._files = opened.files
        self._pace = pace
        self._clock = clock
        self._notices = notices
        self._boards = Boards(store, opened.problems)

    # --- people
    def identify(self, token: str) -> Identity | None:
        """Whom a token speaks for."""
        return self._store.identify(token_hash(token))

    # --- contest and problems
    def contest(self) -> ContestBody:
        """The contest as everybody may see it."""
        contest, notices = self._opened.contest, self._notices.now
        return ContestBody(
            title=contest.title,
            now=self._clock(),
            opens=contest.opens,
            freezes=contest.freezes,
            closes=contest.closes,
            devices=list(contest.devices),
            problems=list(contest.problems),
            quotas=[
                QuotaBody(mode=mode, count=quota.count, per_s=quota.per_s)
                for mode, quota in contest.quotas.items()
            ],
            intake_open=notices.intake_open,
            intake_reason=notices.intake_reason,
            announcements=[
                AnnouncementBody(at=at, text=text) for at, text in notices.announcements
            ],
        )

    def problems(self, viewer: Identity | None = None) -> list[ProblemBody]:
        """The contest's problems, in its order; none before it opens."""
        found = (self.problem(problem_id, viewer) for problem_id in self._opened.contest.problems)
        return [body for body in found if isinstance(body, ProblemBody)]

    def problem(self, problem: str, viewer: Identity | None = None) -> ProblemBody | Refusal:
        """A problem with its public cases. Organizers see it before the contest opens."""
        found = self._visible(problem, viewer)
        if isinstance(found, Refusal):
            return found
        limits = found.limits
        return ProblemBody(
            id=found.id,
            title=found.title,
            version=found.version,
            digest=found.digest,
            devices=[d for d in found.devices if d in self._opened.contest.devices],
            languages=list(found.languages),
            cases=[CaseBody.of(case) for case in found.cases if not case.secret],
            tolerances={name: (t.value, t.reason) for name, t in found.tolerances.items()},
            limits={name: getattr(limits, name) for name in type(limits).__dataclass_fields__},
            files=sorted(self._files.get(found.id, {})),
            baseline=None if found.baseline is None else found.baseline.name,
            best=None if found.best is None else found.best.name,
        )

    def problem_file(
        self, problem: str, name: str, viewer: Identity | None = None
    ) -> bytes | Refusal:
        """A public file of a problem, byte-exact."""
        found = self._visible(problem, viewer)
        if isinstance(found, Refusal):
            return found
        content = self._files.get(problem, {}).get(name)
        if content is None:
            offered = ", ".join(sorted(self._files.get(problem, {}))) or "none"
            detail = f"Problem {problem} has no public file of that name; it offers: {offered}."
            return Refusal("file_unknown", detail, 404)
        return content

    def statement(self, problem: str) -> str:
        """A problem's statement as Markdown; empty where it has none or is not shown yet."""
        content = self.problem_file(problem, STATEMENT)
        return "" if isinstance(content, Refusal) else content.decode("utf-8", "replace")

    # --- submissions
    def record(self, submission_id: int, viewer: Identity) -> JobRecord | Refusal:
        """A submission's record if the viewer may open it.

        Somebody else's does not exist for a contestant: a different answer would tell that it does.
        """
        record = self._store.record(submission_id) if 1 <= submission_id <= MAX_ID else None
        if record is None or not may_see(viewer.role, _owns(viewer, record)):
            return _unknown_submission(submission_id)
        return record

    def submission(self, submission_id: int, viewer: Identity) -> SubmissionBody | Refusal:
        """Everything the viewer may know of one submission."""
        record = self.record(submission_id, viewer)
        return record if isinstance(record, Refusal) else self.body(record, viewer)

    def body(self, record: JobRecord, viewer: Identity) -> SubmissionBody:
        """A record as its viewer may know it."""
        queue = self._store.unfinished() if record.state is JobState.QUEUED else ()
        ended = record.mode is Mode.RANKED and record.state is JobState.DONE
        runs = self._store.runs(record.submission.id) if ended else ()
        return self._body(record, viewer, queue, runs)

    def history(self, viewer: Identity) -> list[SubmissionBody]:
        """The newest submissions of the viewer's team; of all teams for an organizer."""
        everybody = viewer.role is Role.ORGANIZER
        listed = self.page(viewer, None, None, PAGE_LENGTH, everybody)
        return [] if isinstance(listed, Refusal) else listed.submissions

    def page(
        self, viewer: Identity, problem: str | None, before: int | None, limit: int, everybody: bool
    ) -> SubmissionListBody | Refusal:
        """One page of history, newest first. everybody: all teams', which is for organizers."""
        if everybody and viewer.role is not Role.ORGANIZER:
            return Refusal(
                "role_forbidden", "Only organizers may list everybody's submissions.", 403
            )
        if problem is not None and problem not in self._opened.problems:
            return self._unknown_problem()
        if not everybody and viewer.team_id is None:
            return SubmissionListBody(submissions=[], next_before=None)
        team_id = None if everybody else viewer.team_id
        records = self._store.history(team_id, problem, before, limit + 1)
        queued = any(record.state is JobState.QUEUED for record in records)
        queue = self._store.unfinished() if queued else ()
        shown = records[:limit]
        return SubmissionListBody(
            submissions=[self._body(record, viewer, queue) for record in shown],
            next_before=shown[-1].submission.id if len(records) > limit else None,
        )

    def source(self, submission_id: int, name: str, viewer: Identity) -> bytes | Refusal:
        """One file of a submission, byte-exact.

        After the contest everybody with a token may read it where the contest says so.
        """
        record = self._store.record(submission_id) if 1 <= submission_id <= MAX_ID else None
        contest = self._opened.contest
        opened = contest.show_sources_after_close and self._over()
        if record is None or not (opened or may_see(viewer.role, _owns(viewer, record))):
            return _unknown_submission(submission_id)
        for file in self._store.files(submission_id):
            if file.name == name:
                return file.content
        names = ", ".join(record.file_names)
        return Refusal("file_unknown", f"Submission {submission_id} has the files {names}.", 404)

    def log(self, submission_id: int, viewer: Identity) -> str | Refusal:
        """The whole kept log of a submission; empty while there is none."""
        record = self.record(submission_id, viewer)
        if isinstance(record, Refusal):
            return record
        if record.outcome is None:
            return ""
        return Standpoint.of(viewer, record, self._over()).may_know(record.outcome).log

    # --- boards
    def boards(self) -> list[BoardRefBody]:
        """Every board there is, in the contest's order."""
        refs = []
        for problem in self.problems():
            for device in problem.devices:
                board = self.board(problem.id, device)
                ranked = self.ranked_board(problem.id, device)
                assert isinstance(board, BoardBody)
                assert isinstance(ranked, RankedBoardBody)
                refs.append(
                    BoardRefBody(
                        problem=problem.id,
                        title=problem.title,
                        device=device,
                        ranked=sum(entry.rank is not None for entry in ranked.entries),
                        entries=len(board.entries),
                    )
                )
        return refs

    def board(
        self, problem: str, device: str, viewer: Identity | None = None
    ) -> BoardBody | Refusal:
        """A practice table as it stands, or as it stood at the freeze while that lasts.

        Organizers see through the freeze. Refuses: problem_unknown, board_unknown.
        """
        found = self._of_board(problem, device, viewer)
        if isinstance(found, Refusal):
            return found
        now = self._clock()
        return self._boards.body(found, device, now, self._until(now, viewer))

    def ranked_board(
        self, problem: str, device: str, viewer: Identity | None = None
    ) -> RankedBoardBody | Refusal:
        """A ranked board, with the promises of `board`."""
        found = self._of_board(problem, device, viewer)
        if isinstance(found, Refusal):
            return found
        now = self._clock()
        return self._boards.ranked_body(found, device, now, self._until(now, viewer))

    def board_of_mode(
        self, problem: str, device: str, mode: Mode, viewer: Identity | None = None
    ) -> BoardBody | RankedBoardBody | Refusal:
        """The board of a mode; there is none of tests, which are not timed."""
        match mode:
            case Mode.BENCHMARK:
                return self.board(problem, device, viewer)
            case Mode.RANKED:
                return self.ranked_board(problem, device, viewer)
            case Mode.TEST:
                detail = "There is no board of tests; ask for mode=ranked or mode=benchmark."
                return Refusal("board_unknown", detail, 404)

    def ruling(self, record: JobRecord, outcome: Outcome) -> Ruling:
        """What follows from an outcome beyond its verdict, before the store takes it."""
        return self._boards.ruling(record, outcome)

    def ruling_at_release(self, record: JobRecord) -> Ruling:
        """What follows from the release of a held run, before the store takes it."""
        return self._boards.ruling_at_release(record)

    def held_for(self, record: JobRecord) -> tuple[int, ...]:
        """The submissions that are held because this one is, and for nothing else."""
        return self._boards.held_for(record)

    # --- how it is done
    def _of_board(self, problem: str, device: str, viewer: Identity | None) -> Problem | Refusal:
        found = self._visible(problem, viewer)
        if isinstance(found, Refusal):
            return found
        offered = [d for d in found.devices if d in self._opened.contest.devices]
        if device in offered:
            return found
        detail = f"Problem {problem} has no board for that device; it has: {', '.join(offered)}."
        return Refusal("board_unknown", detail, 404)

    def _until(self, now: datetime, viewer: Identity | None) -> datetime | None:
        """The moment that boards are shown of: None is now, as it always is for organizers."""
        organizer = viewer is not None and viewer.role is Role.ORGANIZER
        return None if organizer else frozen_at(self._opened.contest, now)

    def _over(self) -> bool:
        return self._clock() >= self._opened.contest.closes

    def _visible(self, problem: str, viewer: Identity | None) -> Problem | Refusal:
        contest = self._opened.contest
        found = self._opened.problems.get(problem)
        if found is None:
            return self._unknown_problem()
        organizer = viewer is not None and viewer.role is Role.ORGANIZER
        if not organizer and self._clock() < contest.opens:
            detail = f"The contest opens at {moment(contest.opens)}; its problems are shown then."
            return Refusal("contest_not_open", detail, 404)
        return found

    def _unknown_problem(self) -> Refusal:
        offered = ", ".join(self._opened.contest.problems)
        detail = f"There is no problem of that name; the contest has: {offered}."
        return Refusal("problem_unknown", detail, 404)

    def _body(
        self,
        record: JobRecord,
        viewer: Identity,
        queue: Sequence[JobRecord],
        runs: Sequence[Outcome] = (),
    ) -> SubmissionBody:
        """A record as its viewer may know it. runs: outcomes of its attempts; none in a list."""
        place = place_and_eta(
            queue,
            record,
            self._pace.recent_s(record.device),
            self._pace.runners(record.device, self._clock()),
        )
        standpoint = Standpoint.of(viewer, record, self._over())
        ranked = ranked_body(record, self._boards.claim_of(record), runs, standpoint)
        shown = record if runs else without_raw_times(record)
        return submission_body(shown, standpoint, place, ranked)


def _unknown_submission(submission_id: int) -> Refusal:
    detail = (
        f"There is no submission {str(submission_id)[:20]} of yours; `judge history` lists them."
    )
    return Refusal("submission_unknown", detail, 404)


def _owns(viewer: Identity, record: JobRecord) -> bool:
    return viewer.team_id is not None and viewer.team_id == record.submission.team_id
