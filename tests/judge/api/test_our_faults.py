"""What happens when the judge itself fails: the one shape, our blame, and no thread that dies."""

from __future__ import annotations

from datetime import datetime

from tests.judge.api.conftest import MovableClock, until


class BrokenClock(MovableClock):
    """A clock that fails while it is told to."""

    broken = False

    def __call__(self) -> datetime:
        if self.broken:
            raise RuntimeError("the clock is broken")
        return super().__call__()


def test_a_bug_is_a_500_of_the_one_shape_and_everything_works_on_after_it(own_judge):
    clock = BrokenClock()
    with own_judge(clock=clock) as judge:
        clock.broken = True
        answer = judge.connect().get("/contest")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
        assert set(answer.json()) == {"detail", "code"}
        assert "clock is broken" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        # The dispatcher reads the clock each second; it must outlive the same fault.
        until(lambda: "RuntimeError" in judge.connect().get("/health").json()["detail"])
        clock.broken = False
        until(lambda: judge.connect().get("/health").json()["ok"])
        judge.newcomer().submit()


def test_a_store_that_fails_is_a_503_that_asks_to_try_again(own_judge):
    with own_judge() as judge:
        author = judge.newcomer()
        judge.app.parts.store.close()
        answer = judge.organizer.http.post("/admin/announcements", json={"text": "Hello"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert int(answer.headers["Retry-After"]) > 0
        taken = author.http.post(
            "/submissions",
            data={"problem": "topk", "device": "cpu", "mode": "test"},
            files={"files": ("topk.py", b"def custom_kernel(data): ...")},
        )
        assert taken.status_code == 503
