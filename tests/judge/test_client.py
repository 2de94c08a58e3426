"""The client against a real server that restarts, and against servers that are no judge."""

import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from judge.client import JudgeClient, Target
from judge.model import JobState, Mode, SourceFile, Verdict
from judge.transport import ApiRefusal, ServerUnreachable
from judge.wire import ProgressBody, SubmissionBody
from tests.live import HandRunner, LiveJudge, free_port

KERNEL = SourceFile("topk.py", b"def custom_kernel(data):\n    return data\n")
BENCHMARK = Target("topk", "cpu", Mode.BENCHMARK)


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[LiveJudge]:
    live = LiveJudge(tmp_path / "state")
    live.start()
    try:
        yield live
    finally:
        live.stop()


@pytest.mark.slow
def test_a_verdict_reaches_its_watcher_through_a_killed_server(judge: LiveJudge) -> None:
    with JudgeClient(judge.url, judge.newcomer("ada")) as client, ThreadPoolExecutor(1) as pool:
        receipt = client.submit(BENCHMARK, [KERNEL])
        seen: list[SubmissionBody] = []
        lost = threading.Event()

        def watch() -> None:
            seen.extend(client.watch(receipt.submission_id, on_trouble=lambda why: lost.set()))

        watching = pool.submit(watch)
        judge.kill()
        assert lost.wait(30)
        judge.start()
        runner = HandRunner(judge)
        lease = runner.claim(receipt.job_id)
        runner.beat(lease, ProgressBody(stage="timing", done=3, total=8))
        runner.finish(lease, Verdict.ACCEPTED)
        runner.close()
        watching.result(60)
    assert seen[-1].state is JobState.DONE
    assert seen[-1].verdict is Verdict.ACCEPTED
    assert seen[-1].geomean_ns is not None


@pytest.mark.slow
def test_a_refusal_carries_sentence_code_and_status(judge: LiveJudge) -> None:
    with JudgeClient(judge.url, judge.newcomer("bob")) as client:
        with pytest.raises(ApiRefusal) as unknown:
            next(client.watch(4_000))
        assert unknown.value.status == 404
        assert unknown.value.detail
        assert unknown.value.code
        with pytest.raises(ApiRefusal) as forbidden:
            client.invites(1)
        assert (forbidden.value.status, forbidden.value.code) == (403, "role_forbidden")


def test_silence_names_the_address() -> None:
    port = free_port()
    with (
        JudgeClient(f"http://127.0.0.1:{port}") as client,
        pytest.raises(ServerUnreachable, match=f"127.0.0.1:{port}"),
    ):
        client.health()


def test_a_watcher_gives_up_after_its_patience_and_says_how_to_look_later() -> None:
    with (
        JudgeClient(f"http://127.0.0.1:{free_port()}") as client,
        pytest.raises(ServerUnreachable, match="judge status 7"),
    ):
        list(client.watch(7, patience_s=0.3))


class Stranger(http.server.BaseHTTPRequestHandler):
    """A web server that is no judge: a page for `health`, an error page for all else."""

    def do_GET(self) -> None:
        body = b"<h1>It works!</h1>"
        self.send_response(200 if self.path.endswith("/health") else 502)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_is_no_judge_is_told_from_one(stranger: str) -> None:
    with JudgeClient(stranger) as client:
        with pytest.raises(ServerUnreachable, match="does not know"):
            client.health()
        with pytest.raises(ServerUnreachable, match="is not a judge's API"):
            client.whoami()
