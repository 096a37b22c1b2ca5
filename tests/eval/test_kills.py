"""No paid answer is lost: processes are killed at any moment, and the server counts its calls.

The server's view decides. What stands in the answer cache when a process is dead must never be
asked again; what was asked again was in flight; and the ledger says as much.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shell import farm
from tests.eval.asking import (
    Evaluation,
    figures,
    finish,
    gone,
    kept,
    kill,
    worker_of,
    write_models,
    write_tasks,
)
from tests.eval.endpoint import ModelServer, after, answers

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

    async def behave(asked: Any, wire: Any) -> None:
        await (answers if asked.key in early else held)(asked, wire)

    with ModelServer(behave) as server:
        held = server.holds()
        evaluation = evaluation_of(tmp_path, server.url, tasks=20)
        early: set[Any] = set()

        async def first_twelve(asked: Any, wire: Any) -> None:
            if len(early) < 12:
                early.add(asked.key)
            await behave(asked, wire)

        server.behaviour = first_twelve
        with evaluation.started() as process:
            server.wait_for(lambda: len(server.in_flight) == CONCURRENCY)
            cache = evaluation.path("generations.sqlite")
            wait_until_kept(cache, 12)
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


def wait_until_kept(cache: Path, count: int) -> None:
    """Wait for answers that are on their way to the disk."""
    for _ in range(5000):
        if len(kept(cache)) >= count:
            return
        subprocess.run(["sleep", "0.01"], check=True)
    raise AssertionError(f"{len(kept(cache))} answers are kept, not {count}")


@pytest.mark.parametrize("seed", range(3))
def test_random_kills_repeat_only_what_was_in_flight(seed: int, tmp_path: Path) -> None:
    """Twelve kills of the worker, the supervisor or both, each some calls after the last."""
    draw = random.Random(seed)
    tasks, samples, kills = 60, 2, 12
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
