"""Endpoints that fail: what ends the run, what is asked again, and what becomes an error."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shell import FARM, Done, environment, farm
from tests.acceptance.terminal import on_terminal
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
        if status != 401:  # they are all mended alike
            return
        server.behaviour = answers
        before = server.total
        assert evaluation.run().code == 0
        assert server.total == before + 60
        assert "error" not in outcomes(evaluation)


def test_the_way_out_of_a_wrong_setting_is_one_that_is_allowed_and_buys_nothing_twice(
    tmp_path: Path,
) -> None:
    """A store is bound to its settings: both messages name a new store and the paid answers."""

    paid_for = asyncio.Event()

    async def moved(asked: Asked, wire: Wire) -> None:
        if asked.key.model == "wrong":
            await paid_for.wait()
            there = {"location": "http://elsewhere/v1"}
            await wire.reply(b"", status=307, headers=there)
        else:
            await answers(asked, wire)
            paid_for.set()

    with ModelServer(moved) as server:
        evaluation = evaluation_of(tmp_path, server.url, "good", "wrong", tasks=4, concurrency=1)
        kept = str(evaluation.path("generations.sqlite"))
        done = evaluation.run()
        assert_pending(done, "wrong: HTTP 307", "base_url must be it", f"--cache {kept!r}")
        paid = {key: n for key, n in server.replied.items() if key.model == "good"}
        assert len(paid) > 0
        server.behaviour = answers
        write_models(tmp_path, server.url, "good", "wrong", timeout_s=500, system="mended")
        refused = evaluation.run()
        assert refused.code == 1
        assert f"use another --store with --cache {kept!r}" in refused.failures[0]
        # the model that was wrong gets another setting, the good one keeps its own
        good, wrong = (
            Path(write_models(tmp_path, server.url, name, file=f"{name}.toml", **more)).read_text()
            for name, more in (("good", {}), ("wrong", {"system": "mended"}))
        )
        Path(evaluation.models).write_text(good + wrong)
        again = replace(evaluation, store=str(tmp_path / "again"), more=("--cache", kept))
        assert again.run().code == 0
        assert all(server.replied[key] == 1 for key in paid)


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


async def hang(asked: Asked, wire: Wire) -> None:
    """Take the request, and say nothing."""
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("behaviour", "more"), [(refuses(502), ()), (refuses(502), ("--accept-errors",)), (hang, ())]
)
def test_an_endpoint_that_gives_nothing_but_faults_ends_the_run(
    behaviour: Behaviour, more: Sequence[str], tmp_path: Path
) -> None:
    """A gateway before a dead server, or one that hangs; no error is made of any case."""
    with ModelServer(behaviour) as server:
        evaluation = evaluation_of(
            tmp_path, server.url, tasks=60, patience_s=0.4, timeout_s=0.3, more=more
        )
        done = evaluation.run()
        assert_pending(done, "m: no answer came for", "look after the endpoint")
        assert outcomes(evaluation) == {"pending": 60}
        assert server.total <= 40


def test_an_endpoint_that_asks_to_come_back_much_later_ends_the_run(tmp_path: Path) -> None:
    """An hour is longer than a case may take; nobody waits for it, and nothing is an error."""
    with ModelServer(refuses(429, Retry_After="3600")) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=4)
        done = evaluation.run()
        assert_pending(done, "m: HTTP 429", "it asks to come back at 20")
        assert outcomes(evaluation) == {"pending": 4}


async def streamed(asked: Asked, wire: Wire) -> None:
    """Answer in one chunk where a stream is asked for."""
    if not asked.received.json.get("stream"):
        await answers(asked, wire)
        return
    delta = {"index": 0, "delta": {"content": asked.text}, "finish_reason": "stop"}
    piece = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [delta]}
    await wire.begin()
    await wire.chunk(b"data: " + json.dumps(piece).encode() + b"\n\n")
    await wire.chunk(b"data: [DONE]\n\n")
    await wire.chunk(b"")


PASSING: dict[str, tuple[Behaviour, dict[str, Any]]] = {
    "busy": (refuses(429, retry_after="0"), {}),
    "error500": (refuses(500), {}),
    "error503": (refuses(503), {}),
    "cut": (cut, {}),
    "cutstream": (cut_stream, {"stream": True}),
    "html": (html, {}),
    "reset": (reset, {}),
    "errorin200": (refuses(200, b'{"error": {"message": "overloaded", "code": 503}}'), {}),
    "slow": (after(30.0), {"timeout_s": 0.3}),
}


def test_what_may_pass_is_asked_again_and_told(tmp_path: Path) -> None:
    """Once for each trial, of a model for each kind of fault.

    The retries are events, and cost no answer and no verdict.
    """

    async def behave(asked: Asked, wire: Wire) -> None:
        trouble, _ = PASSING[asked.key.model]
        await at_first(1, trouble, streamed)(asked, wire)

    with ModelServer(behave) as server:
        models = "".join(
            Path(write_models(tmp_path, server.url, name, patience_s=30, **settings)).read_text()
            for name, (_, settings) in PASSING.items()
        )
        path = tmp_path / "all.toml"
        path.write_text(models)
        evaluation = Evaluation(
            store=str(tmp_path / "store"), tasks=write_tasks(tmp_path, 3), models=str(path)
        )
        done = evaluation.run()
        assert done.code == 0, done.err
        assert set(server.calls.values()) == {2}
        retried = [event for event in done.events if event["event"] == "call.retried"]
        report = evaluation.report()
        for model in PASSING:
            tasks = sorted(event["task"] for event in retried if event["model"] == model)
            assert tasks == ["t0", "t1", "t2"], model
            spending = evaluation.spending(model)
            assert (spending["calls"], spending["retries"], spending["failed"]) == (6, 3, 3)
            assert spending["wasted"] == 0
            ended = {word: n for word, n in report["outcomes"][model].items() if n}
            assert ended == {"correct": 2, "wrong": 1}, model


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


def test_a_setting_that_the_endpoint_refuses_does_not_make_errors_of_all_cases(
    tmp_path: Path,
) -> None:
    """A 400 to every call is nobody's prompt; mended, the same command asks for all of them."""
    with ModelServer(refuses(400)) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=60)
        done = evaluation.run()
        assert_pending(done, "m: all of 10 requests are refused: HTTP 400", "--accept-errors")
        assert server.total <= 10 + 8
        server.behaviour = answers
        done = evaluation.run()
        assert done.code == 0, done.err
        assert outcomes(evaluation).get("error", 0) == 0


@pytest.mark.parametrize("shards", ["1", "5"])
def test_a_small_run_that_gets_no_answer_at_all_is_pending(shards: str, tmp_path: Path) -> None:
    """However few the requests: no error is made of them, and mended they are all asked."""
    with ModelServer(refuses(400)) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=5, more=("--shards", shards))
        done = evaluation.run()
        assert_pending(done, "HTTP 400: no", "--accept-errors")
        server.behaviour = answers
        assert evaluation.run().code == 0
        assert outcomes(evaluation).get("error", 0) == 0


def test_requests_that_are_refused_in_shards_of_their_own_are_errors(tmp_path: Path) -> None:
    """Others are answered, in this call or in one before it: then it is the prompts' fault."""

    async def behave(asked: Asked, wire: Wire) -> None:
        if asked.key.task == "t0":
            await refuses(400)(asked, wire)
        else:
            await after(0.2, answers if mended else refuses(500))(asked, wire)

    mended = False
    with ModelServer(behave) as server:
        evaluation = evaluation_of(tmp_path, server.url, attempts=1, more=("--shards", "6"))
        assert evaluation.run().code == 1
        assert outcomes(evaluation) == {"pending": 6}
        mended = True
        assert evaluation.run().code == 0
        assert outcomes(evaluation)["error"] == 1


def test_a_host_that_has_no_address_ends_the_run(tmp_path: Path) -> None:
    """Nobody can ever own a name under `invalid` (RFC 6761); patience is a second, of four."""
    evaluation = evaluation_of(tmp_path, "http://no-such-host.invalid", patience_s=4)
    done = evaluation.run()
    assert_pending(done, "no-such-host.invalid", "check base_url")


@pytest.mark.parametrize("files", [24, 48, 64])
def test_a_process_that_may_open_few_files_hangs_nowhere(files: int, tmp_path: Path) -> None:
    """Fewer than calls at a time: it ends, and with room enough the same command ends the work."""

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=100, concurrency=200)
        done = subprocess.run(
            [FARM, *evaluation.arguments],
            env=environment(),
            capture_output=True,
            timeout=60,
            preexec_fn=restrict,
        )
        assert done.returncode in (0, 1, 3)
        assert b"Traceback" not in done.stderr
        assert evaluation.run().code == 0


@pytest.mark.parametrize(
    ("more", "key", "said", "events"),
    [
        ((), {"key_env": "THE_KEY"}, "THE_KEY, which is not set", None),  # nor is a store made
        (("--max-cost", "1"), {}, "add --prices FILE", ["store.initialized"]),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_claimed(
    more: tuple[str, ...],
    key: dict[str, Any],
    said: str,
    events: list[str] | None,
    tmp_path: Path,
) -> None:
    """A run that was refused leaves no attempt behind, and nothing that tells of a call."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, more=more, **key)
        done = evaluation.run()
        assert done.code == 1
        assert said in done.failures[-1]
        assert server.total == 0
        assert not evaluation.path("costs.jsonl").exists()
        assert evaluation.path("").exists() == (events is not None)
        if events is not None:
            assert [event["event"] for event in evaluation.events()] == events


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
        # so far in that a message that is cut before the key is taken out shows its beginning
        quoted = json.dumps({"error": {"message": f"{'bad ' * 71} key {KEY}"}}).encode()
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
        pieces = [KEY[at : at + 8].encode() for at in range(len(KEY) - 7)]
        said = [without.out, without.err.encode(), done.out, done.err.encode(), denied.out]
        for text in (*said, denied.err.encode(), *commands, everything_in(tmp_path)):
            assert [piece for piece in pieces if piece in text] == []


def read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


HOSTILE = {
    "t0": json.dumps("\ud800 alone"),
    "t1": json.dumps("right\n\x00\x1b[31m\u2028</script><script>alert(1)</script>"),
    "t2": json.dumps("right\n" + "long " * 200_000),
    "t3": json.dumps("right\n| a | b |\n\u202e"),
    "t4": "null",
    "t5": json.dumps(""),
}


def test_hostile_answers_are_answers(tmp_path: Path) -> None:
    """Half a character, control characters, a megabyte, markup, nothing: none stops a run."""

    async def behave(asked: Asked, wire: Wire) -> None:
        text = HOSTILE[asked.key.task]
        await wire.reply(
            b'{"choices": [{"index": 0, "finish_reason": "stop", "message": '
            b'{"role": "assistant", "content": ' + text.encode() + b"}}]}"
        )

    with ModelServer(behave) as server:
        evaluation = evaluation_of(tmp_path, server.url, attempts=2, more=("--accept-errors",))
        done = evaluation.run("--stream", "-")
        assert done.code == 0, done.err
        ended = {line["task_id"]: line["outcome"] for line in done.lines}
        assert {ended[task] for task in ("t1", "t2", "t3")} == {"correct"}
        assert ended["t5"] == "empty"
        assert ended["t0"] in ("wrong", "error")
        assert ended["t4"] in ("empty", "error")
        page = evaluation.path("report.html").read_text("utf-8")
        assert "<script>alert" not in page
        assert "\x1b" not in evaluation.path("report.md").read_text("utf-8")
        assert farm("verify", "--store", evaluation.store).code == 0


def test_a_reader_that_leaves_the_stream_costs_no_answer(tmp_path: Path) -> None:
    """As with `| head -1`: the run goes on to its end, and the report is in the store."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=40, more=("--shards", "8"))
        server.behaviour = server.holds()
        with evaluation.started("--stream", "-") as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            assert process.stdout is not None
            process.stdout.close()
            server.let_go()
            assert process.stderr is not None
            said = process.stderr.read().decode()
            assert process.wait() == 0, said
        assert "Traceback" not in said
        assert (server.total, server.extra) == (40, 0)
        assert evaluation.report()["runs"]["m"]["complete"] is True


def test_a_stream_that_cannot_be_written_keeps_the_answers(tmp_path: Path) -> None:
    """A full disk under the stream is no reason to stop: it can be written again at any time."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        done = evaluation.run("--stream", "/dev/full")
        assert done.code == 3
        assert "/dev/full" in done.failures[-1]
        assert (server.total, server.extra) == (20, 0)
        assert done.out == evaluation.path("report.md").read_bytes()
        again = evaluation.run("--stream", "-")
        assert (again.code, len(again.lines)) == (0, 20)
        assert server.total == 20


def test_the_live_view_is_drawn_on_a_terminal(tmp_path: Path) -> None:
    """How many are done of all, model by model; in a pipe there are only lines."""
    with ModelServer(after(0.3)) as server:
        evaluation = evaluation_of(tmp_path, server.url, "one", "other", tasks=20)
        code, shown, piped = on_terminal(*evaluation.arguments, out=False)
    assert code == 0
    text = shown.decode("utf-8")
    for model in ("one", "other"):
        assert re.search(rf"{model}\b.*\b8/20", text) or re.search(rf"{model}\b.*20/20", text)
    assert b"\x1b" not in piped
    assert piped == evaluation.path("report.md").read_bytes()


def test_the_command_that_is_printed_continues_the_run(tmp_path: Path) -> None:
    """With everything that was given, but for what the store knows; quoted for a shell."""
    with ModelServer(refuses(401)) as server:
        folder = tmp_path / "a folder"
        folder.mkdir()
        more = ("--samples", "2", "--limit", "5", "--model", "m", "--shards", "3")
        evaluation = evaluation_of(folder, server.url, "m", "other", tasks=8, more=more)
        cache = str(folder / "the cache.sqlite")
        done = evaluation.run("--cache", cache, "--concurrency", "3", "--accept-errors", "--quiet")
        assert done.code == 1
        command = done.failures[0].split("continue with: farm ")[1]
        assert shlex.split(command) == [
            "eval", "--store", evaluation.store, "--models", evaluation.models, "--model", "m",
            "--concurrency", "3", "--cache", cache, "--accept-errors", "--quiet",
        ]  # fmt: skip
        server.behaviour = answers
        again = farm(*shlex.split(command))
        assert again.code == 0, again.err
        assert {key.model for key in server.calls} == {"m"}
        assert evaluation.report()["summary"]["task_runs"] == 10


def test_no_option_is_missing_from_the_command_that_is_printed(tmp_path: Path) -> None:
    """Every option that changes how a run goes on; what selects tasks is in the store."""
    prices = tmp_path / "the prices.toml"
    prices.write_text(PRICES)
    kept = (
        "--concurrency", "2", "--cache", str(tmp_path / "$c.sqlite"), "--prices", str(prices),
        "--max-cost", "1000.50", "--max-tokens", "99999", "--workers", "2", "--deadline-s",
        "500.0", "--max-attempts", "7", "--wait", "--grace-s", "9.5", "--format", "json",
        "--stream", str(tmp_path / "it's a stream"), "--log-format", "json", "--log-file",
        str(tmp_path / "log"),
    )  # fmt: skip
    with ModelServer(refuses(401)) as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=8)
        with open(evaluation.tasks, "a", encoding="utf-8") as file:
            file.write("{}\n")
        known = ("--allow-bad-tasks", "--category", "classification", "--limit", "6")
        done = evaluation.run(*known, "--shards", "2", *kept)
        assert done.code == 1, done.err
        command = shlex.split(done.failures[-1].split("continue with: farm ")[1])
        given = ["eval", "--store", evaluation.store, "--models", evaluation.models]
        assert command[:5] == given
        assert sorted(command[5:]) == sorted(kept)
        server.behaviour = answers
        again = farm(*command)
        assert again.code == 0, again.err
        assert evaluation.report()["summary"]["task_runs"] == 6


def test_a_cache_that_is_named_later_begins_with_the_stores_answers(tmp_path: Path) -> None:
    """One shard, one task that fails: what was answered before --cache is not bought again."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await (refuses(500) if asked.key.task == "t1" else answers)(asked, wire)

    with ModelServer(behave) as server:
        evaluation = evaluation_of(tmp_path, server.url, attempts=1)
        assert evaluation.run("--shards", "1").code == 1
        assert (server.total, server.extra) == (6, 0)
        server.behaviour = answers
        assert evaluation.run("--cache", str(tmp_path / "cache")).code == 0
        assert (server.total, server.extra) == (7, 1)


def test_a_store_remembers_where_its_answers_are_kept(tmp_path: Path) -> None:
    """Continued without --cache, it buys nothing again; a cache that is gone is asked for."""

    async def behave(asked: Asked, wire: Wire) -> None:
        await (refuses(500) if asked.key.task == "t1" else answers)(asked, wire)

    with ModelServer(behave) as server:
        evaluation = evaluation_of(tmp_path, server.url, attempts=1)
        cache, moved = tmp_path / "cache", tmp_path / "moved"
        assert evaluation.run("--cache", str(cache)).code == 1
        server.behaviour = answers
        os.rename(cache, moved)
        done = evaluation.run()
        assert done.code == 1
        assert f"{str(cache)!r}, which is not there" in done.failures[0]
        os.rename(moved, cache)
        assert evaluation.run().code == 0
        assert (server.total, server.extra) == (7, 1)
