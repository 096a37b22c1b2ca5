"""Endpoints that fail: what ends the run, what is asked again, and what becomes an error."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shell import Done, farm
from tests.adapters.loopback import Wire, answer
from tests.eval.asking import (
    KEY,
    Evaluation,
    everything_in,
    finish,
    gone,
    is_gone,
    wait_until,
    worker_of,
    write_models,
    write_tasks,
)
from tests.eval.endpoint import (
    Asked,
    Behaviour,
    ModelServer,
    after,
    answers,
    at_first,
    refuses,
)

PRICES = 'currency = "EUR"\n[models.m]\ninput = 1000000\noutput = 1000000\n'  # 1 for each token


def evaluation_of(
    folder: Path,
    url: str,
    *models: str,
    tasks: int = 6,
    more: Sequence[str] = (),
    **settings: Any,
) -> Evaluation:
    return Evaluation(
        store=str(folder / "store"),
        tasks=write_tasks(folder, tasks),
        models=write_models(folder, url, *models, **settings),
        more=more,
    )


def outcomes(evaluation: Evaluation) -> dict[str, int]:
    """How often each outcome came, of the model `m`."""
    return {word: n for word, n in evaluation.report()["outcomes"]["m"].items() if n}


def assert_pending(done: Done, *words: str) -> None:
    """Hold that a run ended as pending, in one message with these words."""
    assert (done.code, len(done.failures)) == (1, 1), done.err
    for word in words:
        assert word in done.failures[0], done.failures[0]
    assert done.events[-1]["event"] == "run.pending"


async def cut(asked: Asked, wire: Wire) -> None:
    """Break off in the middle of the body."""
    whole = answer(asked.text)
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
    await wire.send(b"content-length: %d\r\n\r\n" % len(whole) + whole[: len(whole) // 2])
    wire.hang_up()


async def cut_stream(asked: Asked, wire: Wire) -> None:
    """Break off a stream before it says that it is done."""
    await wire.begin()
    delta = {"index": 0, "delta": {"content": "rig"}, "finish_reason": None}
    piece = {"id": "c", "object": "chat.completion.chunk", "choices": [delta]}
    await wire.chunk(b"data: " + json.dumps(piece).encode() + b"\n\n")
    wire.hang_up()


async def html(asked: Asked, wire: Wire) -> None:
    """Be somebody else's error page."""
    await wire.reply(b"<html><body>gateway</body></html>", content_type="text/html")


async def reset(asked: Asked, wire: Wire) -> None:
    """Break the connection without a word."""
    wire.reset()


@pytest.mark.parametrize(
    ("status", "way_out"),
    [(401, "check the key"), (403, "check the key"), (404, "check base_url and model")],
)
def test_a_refused_key_or_model_ends_the_run_after_a_few_calls(
    status: int, way_out: str, tmp_path: Path
) -> None:
    """Sixty trials are not burnt; the same command goes on once the server is mended."""
    with ModelServer(refuses(status)) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=60)
        done = evaluation.run()
        assert_pending(done, "m: ", str(status), way_out, "continue with: farm eval")
        assert server.total <= 3 + 8  # three in a row, and what was out meanwhile
        assert outcomes(evaluation) == {"pending": 60}
        server.behaviour = answers
        before = server.total
        assert evaluation.run().code == 0
        assert server.total == before + 60
        assert "error" not in outcomes(evaluation)


def test_a_dead_endpoint_ends_the_run(tmp_path: Path) -> None:
    """Nobody listens at the port; later somebody does."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        evaluation = evaluation_of(tmp_path, url, tasks=60, patience_s=0.4)
        done = evaluation.run()
        assert_pending(done, "m: ", "start the endpoint or check base_url")


def test_connections_that_break_end_the_run_when_patience_is_over(tmp_path: Path) -> None:
    """A server that lives and resets every call; the same command finds it mended."""
    with ModelServer(reset) as server:
        evaluation = evaluation_of(tmp_path, server.url, patience_s=0.4)
        done = evaluation.run()
        assert_pending(done, "m: ", "start the endpoint")
        server.behaviour = answers
        assert evaluation.run().code == 0


@pytest.mark.parametrize(
    ("behaviour", "settings"),
    [
        (refuses(429, retry_after="0"), {}),
        (refuses(500), {}),
        (refuses(503), {}),
        (cut, {}),
        (cut_stream, {"stream": True}),
        (html, {}),
        (reset, {}),
        (refuses(200, b'{"error": {"message": "overloaded", "code": 503}}'), {}),
        (after(5.0), {"timeout_s": 0.3}),
    ],
    ids=["429", "500", "503", "cut", "cut-stream", "html", "reset", "error-in-200", "slow"],
)
def test_what_may_pass_is_asked_again_and_told(
    behaviour: Behaviour, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Once for each trial; the retries are events, and cost no answer and no verdict."""

    async def then(asked: Asked, wire: Wire) -> None:
        if not asked.received.json.get("stream"):
            await answers(asked, wire)
            return
        piece = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
        delta = {"index": 0, "delta": {"content": asked.text}, "finish_reason": "stop"}
        await wire.begin()
        await wire.chunk(b"data: " + json.dumps({**piece, "choices": [delta]}).encode() + b"\n\n")
        await wire.chunk(b"data: [DONE]\n\n")
        await wire.chunk(b"")

    with ModelServer(at_first(1, behaviour, then)) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=3, **settings)
        done = evaluation.run()
        assert done.code == 0, done.err
        assert set(server.calls.values()) == {2}
        retried = [event for event in done.events if event["event"] == "call.retried"]
        assert {(one["model"], one["task"]) for one in retried} == {
            ("m", "t0"), ("m", "t1"), ("m", "t2"),
        }  # fmt: skip
        spending = evaluation.spending()
        assert (spending["calls"], spending["retries"], spending["failed"]) == (6, 3, 3)
        assert spending["wasted"] == 0
        assert outcomes(evaluation) == {"correct": 2, "wrong": 1}


def test_retry_after_holds_back_the_whole_endpoint(tmp_path: Path) -> None:
    """One call is told to come back in a second; until then nobody knocks."""
    with ModelServer() as server:
        first = iter([True])

        async def behave(asked: Asked, wire: Wire) -> None:
            busy = next(first, False)
            await (refuses(429, retry_after="1") if busy else answers)(asked, wire)

        server.behaviour = behave
        evaluation = evaluation_of(tmp_path, server.url, tasks=6, concurrency=1)
        assert evaluation.run().code == 0
        times = [when for when, _ in server.log]
        assert times[1] - times[0] >= 1
        assert len(times) == 7
        assert any(event["event"] == "endpoint.paused" for event in evaluation.events())


def test_trials_that_go_on_failing_leave_their_shards_to_be_asked_again(tmp_path: Path) -> None:
    """Released, listed, and published by a later run that asks for the missing answers alone."""

    async def behave(asked: Asked, wire: Wire) -> None:
        bad = asked.key.task in ("t1", "t4")
        await (refuses(500) if bad else answers)(asked, wire)

    with ModelServer(behave) as server:
        more = ("--shards", "3")
        evaluation = evaluation_of(tmp_path, server.url, tasks=12, attempts=2, more=more)
        done = evaluation.run()
        assert_pending(done, "m|t", "500", "--accept-errors", "farm eval")
        report = evaluation.report()
        assert report["runs"]["m"]["complete"] is False
        assert "error" not in outcomes(evaluation)  # not published, so not asked yet
        status = farm("status", "--store", evaluation.store).json
        leases = [shard["lease"] for shard in status["shards"]]
        assert [lease["Worker"] for lease in leases if not lease["Done"]] == [""] * (
            status["active_shards"] - status["completed_shards"]
        )
        server.behaviour = answers
        before = server.calls.copy()
        assert evaluation.run().code == 0
        assert {k.task for k in server.calls if server.calls[k] > before[k]} == {"t1", "t4"}
        assert outcomes(evaluation) == {"correct": 8, "wrong": 4}


def test_accepted_errors_are_errors_and_never_wrong_answers(tmp_path: Path) -> None:
    """What fails for now is published as it is; means are over what was answered."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await (refuses(500) if asked.key.task in ("t1", "t4") else answers)(asked, wire)

    with ModelServer(behave) as server:
        more = ("--shards", "3", "--accept-errors")
        evaluation = evaluation_of(tmp_path, server.url, tasks=12, attempts=2, more=more)
        done = evaluation.run()
        assert done.code == 0, done.err
        report = evaluation.report()
        assert outcomes(evaluation) == {"correct": 6, "wrong": 4, "error": 2}
        (row,) = report["leaderboard"]
        assert row["mean_score"] == pytest.approx(6 / 10)
        assert row["n_missing"] == 2
        assert b"500" in evaluation.run("--stream", "-").out
        assert farm("verify", "--store", evaluation.store).code == 0


def test_a_request_that_will_never_be_answered_is_an_error_at_once(tmp_path: Path) -> None:
    """A 400 is final: one call, no retry, published, and the rest goes on."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await (refuses(400) if asked.key.task == "t1" else answers)(asked, wire)

    with ModelServer(behave) as server:
        evaluation = evaluation_of(tmp_path, server.url)
        done = evaluation.run()
        assert done.code == 0, done.err
        assert set(server.calls.values()) == {1}
        assert outcomes(evaluation) == {"correct": 3, "wrong": 2, "error": 1}


@pytest.mark.parametrize("bound", [("--max-tokens", "70"), ("--max-cost", "70")])
def test_a_budget_ends_the_run_and_a_higher_one_goes_on(
    bound: tuple[str, str], tmp_path: Path
) -> None:
    """Seven tokens a call: ten calls, and those that were out when the tenth ended."""
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    with ModelServer() as server:
        more = ("--prices", str(prices))
        evaluation = evaluation_of(tmp_path, server.url, tasks=40, concurrency=2, more=more)
        done = evaluation.run(*bound)
        assert_pending(done, bound[0], "raise it to go on")
        assert 10 <= server.total <= 12
        spending = evaluation.spending()
        assert spending["wasted"] == 0
        assert spending["money"] == str(7 * server.total)
        done = evaluation.run(bound[0], "1000")
        assert done.code == 0, done.err
        assert (server.total, server.extra) == (40, 0)
        assert evaluation.spending()["money"] == "280"
        assert evaluation.report()["costs"]["currency"] == "EUR"


def test_one_model_that_fails_costs_the_others_no_answer(tmp_path: Path) -> None:
    """The key of `bad` is refused while eight calls of `good` are out: all eight are kept.

    They come later than the grace that a person who presses Ctrl-C would give them.
    """

    async def behave(asked: Asked, wire: Wire) -> None:
        if asked.key.model == "good":
            await held(asked, wire)
            return
        while out_of("good") < 8:  # noqa: ASYNC110  the server tells a thread, not a loop
            await asyncio.sleep(0.01)
        await refuses(401)(asked, wire)

    def out_of(model: str) -> int:
        return sum(key.model == model for key in server.in_flight)

    with ModelServer(behave) as server:
        held = server.holds()
        evaluation = evaluation_of(tmp_path, server.url, "bad", "good", tasks=8)
        with evaluation.started("--grace-s", "0") as process:
            worker = worker_at_work(process, server)
            wait_until(lambda: told(evaluation, "endpoint.halted") or is_gone(worker))
            server.let_go()
            done = finish(process)
        assert_pending(done, "bad: ", "check the key")
        server.behaviour = answers
        assert evaluation.run().code == 0
        good = {key: count for key, count in server.calls.items() if key.model == "good"}
        assert good == dict.fromkeys(good, 1)
        assert len(good) == 8
        assert evaluation.spending("good")["wasted"] == 0


def told(evaluation: Evaluation, event: str) -> bool:
    return any(one["event"] == event for one in evaluation.events())


def worker_at_work(process: subprocess.Popen[bytes], server: ModelServer) -> int:
    server.wait_for(lambda: bool(server.calls))
    return worker_of(process)


def test_ctrl_c_lets_calls_that_are_out_be_answered(tmp_path: Path) -> None:
    """Eight of twenty are out: these are kept, no other is begun, and the exit code is 130."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: told(evaluation, "run.draining"))
            server.let_go()
            done = finish(process)
        assert done.code == 130
        assert "interrupted by SIGINT" in done.failures[-1]
        assert "continue with: farm eval" in done.failures[-1]
        assert server.total == 8
        assert evaluation.run().code == 0
        assert (server.total, server.extra) == (20, 0)
        assert evaluation.spending()["wasted"] == 0


def test_a_second_ctrl_c_waits_for_no_answer(tmp_path: Path) -> None:
    """The calls that were out are given up, and the books say so."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: told(evaluation, "run.draining"))
            process.send_signal(signal.SIGINT)
            done = finish(process)
        assert done.code == 130
        server.let_go()
        assert evaluation.run().code == 0
        assert (server.total, server.extra) == (28, 8)
        assert evaluation.spending()["wasted"] == 8


def test_a_third_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    """Whatever is going on; the worker does not outlive its supervisor."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            worker = worker_of(process)
            os.kill(worker, signal.SIGSTOP)  # so that it cannot end in good order
            for _ in range(3):
                process.send_signal(signal.SIGINT)
                wait_until(lambda: told(evaluation, "run.draining") or process.poll() is not None)
            process.wait(10)
        gone(worker)
        server.let_go()
        assert evaluation.run().code == 0
        assert server.extra <= 8


def test_ctrl_c_in_a_long_pause_ends_the_run(tmp_path: Path) -> None:
    """The endpoint asked for an hour; nobody waits for that who wants to leave."""
    with ModelServer(refuses(429, retry_after="3600")) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20, case_timeout_s=7200)
        with evaluation.started("--grace-s", "30") as process:
            wait_until(lambda: told_now(evaluation, "endpoint.paused"))
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            done = finish(process)
        assert done.code == 130
        assert time.monotonic() - began < 10
        assert server.total <= 8


def told_now(evaluation: Evaluation, event: str) -> bool:
    return evaluation.path("events.jsonl").exists() and told(evaluation, event)


def test_a_deadline_ends_the_run_and_keeps_what_is_answered(tmp_path: Path) -> None:
    """Calls that are out when it bites are answered within the grace."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        server.behaviour = server.holds()
        with evaluation.started("--deadline-s", "8") as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            wait_until(lambda: told(evaluation, "run.draining"))
            server.let_go()
            done = finish(process)
        assert_pending(done, "--deadline-s 8 was reached", "--deadline-s 0")
        assert server.total == 8
        assert evaluation.run().code == 0
        assert (server.total, server.extra) == (20, 0)


def test_a_key_is_found_nowhere(tmp_path: Path) -> None:
    """Not in the store, the log, the report or any output, though the server quotes it back."""

    async def behave(asked: Asked, wire: Wire) -> None:
        assert asked.received.headers["authorization"] == f"Bearer {KEY}"
        quoted = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
        if asked.key.task == "t0" and asked.number == 1:
            await refuses(500, quoted)(asked, wire)
        elif asked.key.task == "t1":
            await refuses(400, quoted)(asked, wire)
        elif asked.key.task == "t2":
            await wire.reply(answer(f"right\n{asked.key.model} t2 0 and {KEY}"))
        else:
            await answers(asked, wire)

    variables = {"THE_KEY": KEY}
    with ModelServer(behave) as server:
        log = str(tmp_path / "log.jsonl")
        more = ("--stream", str(tmp_path / "stream"), "--log-file", log)
        evaluation = evaluation_of(tmp_path, server.url, more=more, key_env="THE_KEY")
        without = evaluation.run()
        assert without.code == 1
        assert "THE_KEY" in without.failures[-1]
        with evaluation.started(variables=variables) as process:
            worker = worker_at_work(process, server)
            commands = [read_command(process.pid), read_command(worker)]
            done = finish(process)
        assert done.code == 0, done.err
        server.behaviour = refuses(401, json.dumps({"error": {"message": KEY}}).encode())
        denied = replace(evaluation, store=str(tmp_path / "denied")).run(variables=variables)
        assert denied.code == 1
        said = [without.out, without.err.encode(), done.out, done.err.encode(), denied.out]
        for text in (*said, denied.err.encode(), *commands, everything_in(tmp_path)):
            assert KEY.encode() not in text


def read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
