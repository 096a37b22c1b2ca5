"""No paid answer is lost: processes are killed at any moment, and the server counts its calls.

The server's view decides. What stands in the answer cache when a process is dead must never be
asked again; what was asked again was in flight; and the ledger says as much.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shell import farm
from tests.adapters.loopback import Wire
from tests.eval.asking import (
    Evaluation,
    figures,
    finish,
    gone,
    kept,
    kill,
    wait_until,
    worker_of,
    write_models,
    write_tasks,
)
from tests.eval.endpoint import Asked, ModelServer, after, answers

CONCURRENCY = 8  # of each model, in the models files of these tests


def evaluation_of(folder: Path, url: str, *, tasks: int, more: Sequence[str] = ()) -> Evaluation:
    return Evaluation(
        store=str(folder / "store"),
        tasks=write_tasks(folder, tasks),
        models=write_models(folder, url),
        # not the number of deaths is at trial here, which quarantines shards
        more=("--max-attempts", "1000", *more),
    )


def undisturbed(folder: Path, evaluation: Evaluation, server: ModelServer) -> Any:
    """The report of the same evaluation in another store, with nobody disturbing it."""
    calls = server.calls.copy()
    other = Evaluation(
        store=str(folder / "undisturbed"),
        tasks=evaluation.tasks,
        models=evaluation.models,
        more=evaluation.more,
    )
    done = other.run()
    assert done.code == 0, done.err
    assert {key: server.calls[key] - calls[key] for key in server.calls} == dict.fromkeys(calls, 1)
    return other.report()


def assert_whole(evaluation: Evaluation, server: ModelServer, *, distinct: int) -> None:
    """Hold the books of a finished run against the server's."""
    spending = evaluation.spending()
    assert len(server.calls) == distinct
    assert spending["calls"] - spending["wasted"] == distinct
    assert spending["in_flight"] == 0
    # a call is in the books before it is on the wire, never the other way round
    assert spending["calls"] >= server.total
    assert spending["wasted"] >= server.extra
    verified = farm("verify", "--store", evaluation.store)
    assert verified.code == 0, verified.out


@pytest.mark.parametrize("victim", ["worker", "supervisor", "both"])
def test_a_kill_with_calls_in_flight_costs_just_these(victim: str, tmp_path: Path) -> None:
    """Twelve answers are there, eight calls are held by the server: these eight are repeated.

    The server answers the first twelve and holds whatever comes then, so at the kill every
    answer that came is durable: a slot is free for another call only when one has ended, and
    all eight slots are taken by calls that were begun after.
    """

    async def behave(asked: Asked, wire: Wire) -> None:
        await (answers if asked.key in early else held)(asked, wire)

    with ModelServer(behave) as server:
        held = server.holds()
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        early: set[Any] = set()

        async def first_twelve(asked: Asked, wire: Wire) -> None:
            if len(early) < 12:
                early.add(asked.key)
            await behave(asked, wire)

        server.behaviour = first_twelve
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == CONCURRENCY)
            cache = evaluation.path("generations.sqlite")
            wait_until(lambda: len(kept(cache)) == 12)
            in_flight = server.in_flight
            worker = worker_of(process)
            victims = {"worker": [worker], "supervisor": [process.pid]}
            for pid in victims.get(victim, [worker, process.pid]):
                os.kill(pid, signal.SIGKILL)
            gone(worker)
            server.let_go()
            server.behaviour = answers
            if victim == "worker":
                assert finish(process).code == 0
        if victim != "worker":
            done = evaluation.run()
            assert done.code == 0, done.err
        assert sorted(server.calls - dict_of_ones(server)) == in_flight
        spending = evaluation.spending()
        assert (spending["calls"], spending["wasted"]) == (28, 8)
        assert (spending["answered"], spending["lost"]) == (20, 8)
        assert_whole(evaluation, server, distinct=20)
        assert figures(undisturbed(tmp_path, evaluation, server)) == figures(evaluation.report())


def dict_of_ones(server: ModelServer) -> Any:
    return type(server.calls)(dict.fromkeys(server.calls, 1))


def answered(evaluation: Evaluation) -> int:
    """How many answers the cost ledger of a run that goes on has seen come."""
    return evaluation.path("costs.jsonl").read_bytes().count(b'"how":"answered"')


def test_random_kills_repeat_only_what_was_in_flight(tmp_path: Path) -> None:
    """Ten kills of the worker, the supervisor or both, each some calls after the last."""
    draw = random.Random(7)
    tasks, samples, kills = 60, 2, 10
    with ModelServer(after(0.004)) as server:
        evaluation = evaluation_of(
            tmp_path, server.url, tasks=tasks, more=("--samples", str(samples), "--shards", "10")
        )
        cache = evaluation.path("generations.sqlite")
        safe: set[Any] = set()  # was durable when somebody was killed
        repeated: set[Any] = set()
        for _ in range(kills):
            if len(kept(cache)) == tasks * samples:
                break
            with evaluation.started() as process:
                before = server.calls.copy()
                server.wait_for_total(draw.randrange(1, 16), or_end_of=process)
                if process.poll() is not None:
                    break
                victims = draw.choice((["worker"], ["supervisor"], ["supervisor", "worker"]))
                worker = worker_of(process)
                for victim in victims:
                    kill(worker if victim == "worker" else process.pid)
                gone(worker)
                repeated |= {key for key in safe if server.calls[key] > before[key]}
                safe |= kept(cache)
        done = evaluation.run()
        assert done.code == 0, done.err
        assert not repeated
        assert_whole(evaluation, server, distinct=tasks * samples)
        assert server.extra <= kills * 2 * CONCURRENCY
        assert figures(undisturbed(tmp_path, evaluation, server)) == figures(evaluation.report())


def test_an_answer_that_is_not_kept_yet_is_asked_again(tmp_path: Path) -> None:
    """The test holds the lock of the cache: answers have come, and cannot be made durable."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=4)
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 4)
            lock = sqlite3.connect(evaluation.path("generations.sqlite"), isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            server.let_go()
            server.wait_for(lambda: server.replied.total() == 4)
            wait_until(lambda: answered(evaluation) == 4)
            os.kill(worker_of(process), signal.SIGKILL)
            lock.execute("ROLLBACK")
            lock.close()
            assert finish(process).code == 0
        spending = evaluation.spending()
        assert (spending["calls"], spending["answered"], spending["wasted"]) == (8, 8, 4)
        assert_whole(evaluation, server, distinct=4)


def test_a_kill_between_receipt_and_publish_asks_nothing_again(tmp_path: Path) -> None:
    """The supervisor stands still while the worker makes its receipts durable; then both die."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=8, more=("--shards", "1"))
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            worker = worker_of(process)
            os.kill(process.pid, signal.SIGSTOP)
            server.let_go()
            wait_until(lambda: any(evaluation.path("receipts").glob("*.json")))
            kill(worker)
            kill(process.pid)
            gone(worker)
        done = evaluation.run()
        assert done.code == 0, done.err
        assert (server.total, server.extra) == (8, 0)
        spending = evaluation.spending()
        assert (spending["calls"], spending["wasted"]) == (8, 0)
        assert_whole(evaluation, server, distinct=8)


def test_two_runs_share_a_cache_and_buy_nothing_twice(tmp_path: Path) -> None:
    """The second store asks for ten of the same twenty answers, and calls for none."""
    with ModelServer() as server:
        cache = ("--cache", str(tmp_path / "shared.sqlite"))
        first = evaluation_of(tmp_path, server.url, tasks=20, more=cache)
        assert first.run().code == 0
        second = replace(first, store=str(tmp_path / "second"), more=(*cache, "--limit", "10"))
        assert second.run().code == 0
        assert (server.total, server.extra) == (20, 0)
        assert not first.path("generations.sqlite").exists()
        assert "costs" not in second.report() or second.spending()["calls"] == 0
        answers = {case["id"]: case for case in first.report()["cases"]["m"]}
        assert all(answers[case["id"]] == case for case in second.report()["cases"]["m"])


def test_two_runs_at_once_on_one_store_are_one_too_many(tmp_path: Path) -> None:
    """The second says who is at work and leaves everything to it."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=8)
        server.behaviour = server.holds()
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == 8)
            second = evaluation.run()
            assert second.code == 1
            assert f"is being run by process {process.pid}" in second.failures[-1]
            server.let_go()
            assert finish(process).code == 0
        assert (server.total, server.extra) == (8, 0)


def test_two_runs_at_once_on_one_cache_both_end(tmp_path: Path) -> None:
    """They may both ask for an answer that neither had yet; the first that is kept counts."""
    with ModelServer() as server:
        cache = ("--cache", str(tmp_path / "shared.sqlite"))
        first = evaluation_of(tmp_path, server.url, tasks=12, more=cache)
        second = replace(first, store=str(tmp_path / "second"))
        server.behaviour = server.holds()
        with first.started() as one, second.started() as other:
            server.wait_for(lambda: len(server.in_flight) == 2 * CONCURRENCY)
            server.let_go()
            assert finish(one).code == finish(other).code == 0
        assert figures(first.report()) == figures(second.report())
        wasted = first.spending()["wasted"] + second.spending()["wasted"]
        assert server.extra == first.spending()["calls"] + second.spending()["calls"] - 12
        assert wasted <= server.extra


def test_a_worker_that_stands_still_is_replaced_and_its_answers_are_kept(tmp_path: Path) -> None:
    """Stopped for good, it is killed when its silence is too long; here the test kills it."""
    with ModelServer() as server:
        evaluation = evaluation_of(tmp_path, server.url, tasks=12)
        held = server.holds()
        early = iter(range(4))

        async def behave(asked: Asked, wire: Wire) -> None:
            await (answers if next(early, None) is not None else held)(asked, wire)

        server.behaviour = behave
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == CONCURRENCY)
            wait_until(lambda: len(kept(evaluation.path("generations.sqlite"))) == 4)
            worker = worker_of(process)
            os.kill(worker, signal.SIGSTOP)
            server.let_go()
            server.wait_for(lambda: server.replied.total() == 12)
            kill(worker)
            assert finish(process).code == 0
        assert_whole(evaluation, server, distinct=12)
        assert server.extra == 8


def test_many_workers_divide_the_calls_and_repeat_none(tmp_path: Path) -> None:
    """Three processes share the limit of eight calls at a time, and one cache."""
    with ModelServer(after(0.01)) as server:
        evaluation = evaluation_of(
            tmp_path, server.url, tasks=60, more=("--workers", "3", "--shards", "12")
        )
        done = evaluation.run()
        assert done.code == 0, done.err
        assert (server.total, server.extra) == (60, 0)
        assert server.most_at_once <= CONCURRENCY + 1  # 8 / 3 is rounded to 3 for each
        assert_whole(evaluation, server, distinct=60)
