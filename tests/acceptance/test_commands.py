"""Commands, options, exit codes and streams, as scripts and people meet them."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from farm.cli.overview import COMMANDS
from tests.acceptance.shell import (
    FARM,
    SAMPLE,
    environment,
    farm,
    fingerprint,
    initialized,
    log_of,
    started,
    strict_json,
    wait_for,
)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "help"
TASKS = str(ROOT / "samples" / "tasks.jsonl")
MOCKS = str(ROOT / "configs" / "models" / "offline.toml")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A finished run of the sample in four shards."""
    store = str(tmp_path_factory.mktemp("finished") / "store")
    done = farm("run", "--store", store, "--input", SAMPLE, "--shards", "4")
    assert done.code == 0
    return store


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_reads_as_it_was_agreed(command: str) -> None:
    """The text is part of the contract; after a wanted change write it anew into tests/golden."""
    shown = farm(*([command] if command else []), "--help", variables={"COLUMNS": "80"})
    assert (shown.code, shown.err) == (0, "")
    wanted = (GOLDEN / f"{command or 'farm'}.txt").read_text("utf-8")
    assert shown.out.decode("utf-8") == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("staus",), "No such command 'staus'. Did you mean 'status'?"),
        (("run", "--wrokers", "3"), "Did you mean '--workers'?"),
        (("run",), "Missing option '--store'"),
        (("init", "--store", "s"), "Missing option '--input'"),
        (("run", "--store", ""), "the path is empty"),
        (("run", "--store", "s", "--input", ""), "the path is empty"),
        (("run", "--store", "s", "--log-file", ""), "the path is empty"),
        (("run", "--store", "s", "--shards", "0"), "'--shards': 0 is not in the range"),
        (("run", "--store", "s", "--shards", "1025"), "'--shards': 1025 is not in the range"),
        (("run", "--store", "s", "--workers", "0"), "'--workers': 0 is not in the range"),
        (("run", "--store", "s", "--workers", "65"), "'--workers': 65 is not in the range"),
        (("run", "--store", "s", "--lease-ms", "0"), "'--lease-ms': 0 is not in the range"),
        (("run", "--store", "s", "--now-ms", "-2"), "'--now-ms': -2 is not in the range"),
        (("run", "--store", "s", "--now-ms", str(2**63)), "is not in the range"),
        (("run", "--store", "s", "--now-ms", "5", "--wait"), "the clock of --now-ms stands still"),
        (("run", "--store", "s", "--delay-ms", "60001"), "'--delay-ms': 60001 is not in the"),
        (("run", "--store", "s", "--deadline-s", "-1"), "'--deadline-s': -1.0 is not in the"),
        (("run", "--store", "s", "--deadline-s", "nan"), "'nan' is not a number"),
        (("run", "--store", "s", "--max-attempts", "0"), "'--max-attempts': 0 is not in the"),
        (("run", "--store", "s", "--scorer", "magic"), "--scorer: metric 'magic' is not known"),
        (("run", "--store", "s", "--map", "colour=red"), "--map 'colour' is no field: choose"),
        (("run", "--store", "s", "--map", "id"), "is no pair: write field=path"),
        (("init", "--store", "s", "--input", SAMPLE, "--name", " "), "a name is needed"),
        (("worker", "--store", "s"), "Missing option '--worker-id'"),
        (("worker", "--store", "s", "--worker-id", ""), "a name is needed"),
        (("worker", "--store", "s", "--worker-id", "n" * 257), "257 bytes, the limit is 256"),
        (("worker", "--store", "s", "--worker-id", b"\xff"), "cannot be printed"),
        (("rescore", "--store", "s", "--scorer", "f1", "--into", ""), "the path is empty"),
        (("tasks", "check", ""), "the path is empty"),
        (("schema", "cheese"), "'cheese' is not one of 'predictions', 'report', 'events'"),
        (("demo", "cheese"), "'cheese' is not"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_touches_nothing(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """One message on stderr, nothing on stdout, no file."""
    done = farm(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, b"")
    assert message in " ".join(done.err.split())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_what_needs_no_command_loads_no_library_of_the_commands(flag: str) -> None:
    """They are a bar of 60 ms of CPU, of which click and typing would be most."""
    script = (
        "import sys; from farm.__main__ import main; sys.argv[1:] = sys.argv[1:]; main();"
        "sys.exit(len({'click', 'typing', 'msgspec'} & sys.modules.keys()))"
    )
    short = subprocess.run([sys.executable, "-I", "-c", script, flag], stdout=subprocess.PIPE)
    assert short.returncode == 0
    assert short.stdout == farm(flag, "--").out  # click's own answer is the same


def test_what_is_no_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    for command in (("status",), ("verify",), ("events",), ("worker", "--worker-id", "w"),
                    ("requeue", "--shard", "shard-0"), ("run",)):  # fmt: skip
        done = farm(*command, "--store", "nowhere", cwd=tmp_path)
        assert (done.code, done.out) == (1, b"")
        assert len(done.failures) == 1
        assert "'nowhere'" in done.failures[0]
        assert "farm init" in done.failures[0] or "--input" in done.failures[0]
    assert os.listdir(tmp_path) == []


def test_a_lease_past_the_end_of_time_is_named_and_not_called_pending(tmp_path: Path) -> None:
    store = initialized(tmp_path, shards=1)
    for options in (("--now-ms", str(2**63 - 1)), ("--lease-ms", str(2**63 - 1))):
        for command in (("run",), ("worker", "--worker-id", "w")):
            done = farm(*command, "--store", store, *options)
            assert done.code == 2
            assert "would end past 2**63 - 1" in done.err
    assert farm("status", "--store", store).json["shards"][0]["lease"]["Version"] == 0


def test_a_pipe_for_the_log_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    """To open it would wait for a reader, before anything is said."""
    pipe, store = tmp_path / "log", tmp_path / "store"
    os.mkfifo(pipe)
    done = farm("run", "--store", str(store), "--input", SAMPLE, "--log-file", str(pipe))
    assert (done.code, done.out) == (2, b"")
    assert "nobody reads this pipe" in done.failures[0]
    assert not store.exists()


@pytest.mark.parametrize(
    ("file", "folder", "message"),
    [
        ("here", "", "log file '{}/here': is a directory: name a file"),
        ("none/log", "", "log file '{}/none/log': its directory does not exist: make it first"),
        ("file/log", "", "log file '{}/file/log': what should be its directory is a file: name "
         "another"),
        ("", "here", "log file '{}/here/store.jsonl': is a directory: name a file"),
        ("", "file/below", "FARM_LOG_DIR: '{}/file/below' lies below a file: name another "
         "directory"),
    ],
)  # fmt: skip
def test_a_log_that_has_no_place_is_wrong_usage(
    file: str, folder: str, message: str, tmp_path: Path
) -> None:
    """No disk is to be mended, and nothing was made."""
    (tmp_path / "here" / "store.jsonl").mkdir(parents=True)
    (tmp_path / "file").touch()
    given = ("init", "--store", str(tmp_path / "store"), "--input", SAMPLE)
    done = farm(
        *given,
        *(("--log-file", str(tmp_path / file)) if file else ()),
        variables={"FARM_LOG_DIR": str(tmp_path / folder)} if folder else {},
    )
    assert (done.code, done.failures) == (2, [f"farm: {message.format(tmp_path)}"])
    assert not (tmp_path / "store").exists()


def limited(limit: int) -> Callable[[], None]:
    """A limit of the size of every file, as a full disk is one."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_a_store_that_cannot_be_written_is_exit_code_3_and_resumable(tmp_path: Path) -> None:
    """No half-made store; a run stops, and goes on once there is space."""
    store = str(tmp_path / "store")
    given = ("--store", store, "--input", SAMPLE, "--shards", "4")
    made = farm("init", *given, before=limited(300))
    assert (made.code, made.out) == (3, b"")
    assert len(made.failures) == 1
    assert "file too large" in made.failures[0]
    assert not os.path.exists(store)
    assert farm("init", *given).code == 0
    before = fingerprint(store)
    run = farm("run", "--store", store, before=limited(500))
    assert run.code == 3
    assert "run the same command again" in run.failures[-1]
    assert fingerprint(store)["plan.json"] == before["plan.json"]
    assert farm("run", "--store", store).json["correct"] == 3
    assert farm("verify", "--store", store).json["problems"] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_run_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """130 or 143, a report, the command on stderr; the leases are given back at once."""
    store = str(tmp_path / "store")
    with started("run", "--store", store, "--input", SAMPLE, "--delay-ms", "60000",
                 "--grace-s", "0") as run:  # fmt: skip
        wait_for(run, "worker.spawned")
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    assert run.returncode == code
    assert strict_json(out)["complete"] is False
    last = err.decode().splitlines()[-1]
    assert last.startswith(f"farm: interrupted by {number.name}")
    assert f"farm run --store {store}" in last
    leases = [shard["lease"] for shard in farm("status", "--store", store).json["shards"]]
    assert [lease["Worker"] for lease in leases] == [""] * 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_init_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """It reads from a pipe that nobody fills; staging and folder go with it."""
    pipe, store = tmp_path / "pipe.jsonl", tmp_path / "store"
    os.mkfifo(pipe)
    with started("init", "--store", str(store), "--input", str(pipe)) as init:
        writer = os.open(pipe, os.O_WRONLY)  # waits until the command has opened the other end
        init.send_signal(number)
        os.close(writer)  # whichever system call it is in ends now, and the signal came first
        out, err = init.communicate(timeout=30)
    assert (init.returncode, out) == (code, b"")
    assert err.decode().split("farm: ")[1].startswith(f"interrupted by {number.name}")
    assert not store.exists()


def test_the_command_that_is_printed_has_all_that_protects(tmp_path: Path) -> None:
    """Every option that changes how a run goes on; what the store knows is left out, and so is a
    clock that stands still: under it no lease of others ever ends."""
    store = str(tmp_path / "a store")
    kept = [
        "--workers", "1", "--lease-ms", "9000", "--delay-ms", "2000", "--deadline-s", "0.5",
        "--wait", "--max-attempts", "9", "--shards-per-process", "3", "--stall-s", "99.0",
        "--grace-s", "0.0", "--require-isolation", "os-enforced", "--allow-unisolated",
        "--no-detail", "--log-format", "json", "--log-file", str(tmp_path / "it's a log"),
        "--quiet",
    ]  # fmt: skip
    known = ["--input", SAMPLE, "--shards", "4", "--name", "m", "--scorer", "exact_match",
             "--ignore-extra", "--coerce", "--max-text-bytes", "5000"]  # fmt: skip
    done = farm("run", "--store", store, *known, *kept)
    assert done.code == 1
    said = done.failures[-1].split("continue with: farm ")[1].split(" (--deadline-s 0 ")[0]
    assert shlex.split(said) == ["run", "--store", store, *kept]

    first = ("worker", "--store", store, "--worker-id", "w")
    assert farm(*first, "--now-ms", "100", "--lease-ms", "10", "--crash-after-claim").code == 86
    pending = farm("run", "--store", store, "--now-ms", "105", "--quiet")
    assert pending.code == 1
    assert f"continue later with: farm run --store '{store}' --quiet (" in pending.failures[-1]


def test_an_input_that_was_mapped_is_told_of_its_rules(tmp_path: Path) -> None:
    """The store keeps no rules of reading: without them its own input has bad records."""
    given, store = tmp_path / "in.jsonl", str(tmp_path / "store")
    given.write_text('{"id":"a","q":"p","expected":"y","response":"y"}\n')
    with_map = ("--input", str(given), "--map", "prompt=q", "--ignore-extra")
    assert farm("init", "--store", store, *with_map).code == 0
    refused = farm("run", "--store", store, "--input", str(given))
    assert refused.code == 1
    assert refused.failures[0].startswith(
        f"farm: {store!r} is there already, and --input does not read as what it was made of"
    )
    assert farm("run", "--store", store, *with_map).code == 0


def test_a_deadline_that_bites_names_the_flag_and_the_way_on(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    done = farm("run", "--store", store, "--input", SAMPLE, "--delay-ms", "60000",
                "--deadline-s", "0.5")  # fmt: skip
    assert done.code == 1
    assert done.json["complete"] is False
    assert done.events[-1]["event"] == "run.pending"
    assert done.events[-1]["reason"] == "the deadline was reached"
    assert "--deadline-s 0.5 was reached" in done.failures[0]
    assert f"farm run --store {store}" in done.failures[0]
    assert farm("run", "--store", store).json["complete"] is True


def test_the_log_in_a_pipe_is_the_stream_of_the_store(tmp_path: Path) -> None:
    """Byte for byte, on stderr, in --log-file, in `farm events`; and no sentence among it."""
    store, log = str(tmp_path / "store"), tmp_path / "log.jsonl"
    done = farm("run", "--store", store, "--input", SAMPLE, "--log-file", str(log))
    kept = (Path(store) / "events.jsonl").read_bytes()
    assert done.err.encode() == kept
    assert log.read_bytes() == kept
    assert farm("events", "--store", store).out == kept
    assert farm("events", "--store", store, "--follow").out == kept
    assert [event["seq"] for event in done.events] == list(range(1, len(done.events) + 1))
    assert all(len(line) < 16_384 for line in kept.splitlines())
    assert {event["run_id"] for event in done.events} == {done.json["run_id"]}


def test_the_events_of_a_finished_run_fold_to_the_states_of_the_ledger(finished: str) -> None:
    states: dict[str, str] = {}
    for event in farm("events", "--store", finished).lines:
        if event["event"] in ("shard.claimed", "shard.completed"):
            states[event["shard"]] = event["event"]
    shards = farm("status", "--store", finished).json["shards"]
    assert states == {shard["lease"]["Shard"]: "shard.completed" for shard in shards}


def test_the_log_folder_of_the_environment_is_made_and_used(tmp_path: Path) -> None:
    """By `init` and by `run`, one file a store; --log-file goes before it."""
    folder, store = tmp_path / "deep" / "logs", str(tmp_path / "store")
    variables = {"FARM_LOG_DIR": str(folder)}
    farm("init", "--store", store, "--input", SAMPLE, variables=variables)
    farm("run", "--store", store, variables=variables)
    kept = (Path(store) / "events.jsonl").read_bytes()
    assert [path.name for path in folder.iterdir()] == ["store.jsonl"]
    assert (folder / "store.jsonl").read_bytes() == kept
    other = str(tmp_path / "other")
    farm("run", "--store", other, "--input", SAMPLE, "--log-file", str(tmp_path / "l.jsonl"),
         variables=variables)  # fmt: skip
    assert [path.name for path in folder.iterdir()] == ["store.jsonl"]


@pytest.mark.parametrize("log_format", ["auto", "console", "json"])
def test_a_pipe_never_gets_a_control_sequence(tmp_path: Path, log_format: str) -> None:
    """Whatever the environment says of terminals."""
    done = farm("run", "--store", str(tmp_path / "store"), "--input", SAMPLE, "--log-format",
                log_format, variables={"TERM": "xterm", "FORCE_COLOR": "1"})  # fmt: skip
    assert done.code == 0
    assert "\x1b" not in done.err
    assert b"\x1b" not in done.out
    assert ("[info     ] run.completed" in done.err) == (log_format == "console")


def test_quiet_is_known_to_every_command_and_silences_the_log(finished: str) -> None:
    for command in ("run", "status", "verify", "events"):
        done = farm(command, "--store", finished, "--quiet")
        assert (done.code, done.err) == (0, "")
    for arguments in (
        ("schema", "report"),
        ("demo",),
        ("score", "--metric", "f1", "--prediction", "a", "--target", "a"),
    ):
        done = farm(*arguments, "--quiet")
        assert (done.code, done.err) == (0, "")
    failed = farm("status", "--store", "nowhere", "--quiet")
    assert len(failed.failures) == 1


def test_head_ends_a_follower(tmp_path: Path) -> None:
    """A reader that went away ends `events --follow`, though the run does not."""
    store = initialized(tmp_path, shards=1)
    farm("worker", "--store", store, "--worker-id", "w", "--crash-after-claim")
    with subprocess.Popen([FARM, "events", "--store", store, "--follow"],
                          stdout=subprocess.PIPE, env=environment()) as follower:  # fmt: skip
        assert follower.stdout is not None
        assert strict_json(follower.stdout.readline())["event"] == "store.initialized"
        assert strict_json(follower.stdout.readline())["event"] == "shard.claimed"
        follower.stdout.close()
        run = farm("run", "--store", store, "--now-ms", str(2**62))
        assert run.code == 0
        assert follower.wait(timeout=30) == 0


def test_head_ends_a_follower_of_a_run_that_is_idle(tmp_path: Path) -> None:
    """Nothing is written any more, so that no write could fail."""
    store = initialized(tmp_path, shards=1)
    with subprocess.Popen([FARM, "events", "--store", store, "--follow"],
                          stdout=subprocess.PIPE, env=environment()) as follower:  # fmt: skip
        assert follower.stdout is not None
        assert strict_json(follower.stdout.readline())["event"] == "store.initialized"
        follower.stdout.close()
        assert follower.wait(timeout=30) == 0


@pytest.mark.parametrize(
    "command", [["run"], ["worker", "--worker-id", "w"], ["init", "--input", SAMPLE]]
)
def test_a_store_whose_maker_was_killed_before_he_told_of_it_is_told_of(
    command: list[str], tmp_path: Path
) -> None:
    """The event comes after the plan has its name; between the two anything may happen."""
    store = initialized(tmp_path, shards=4)
    (first,) = farm("events", "--store", store).lines
    os.unlink(f"{store}/events.jsonl")
    assert farm(*command, "--store", store).code == 0
    told = farm("events", "--store", store).lines
    assert [event["event"] for event in told].count("store.initialized") == 1
    assert told[0]["recovered"] is True
    assert {key: told[0][key] for key in ("seq", "cases", "shards", "dataset_sha256")} == {
        key: first[key] for key in ("seq", "cases", "shards", "dataset_sha256")
    }


def test_a_follower_sees_a_run_to_its_end(tmp_path: Path) -> None:
    store = initialized(tmp_path, shards=4)
    with started("events", "--store", store, "--follow") as follower:
        assert follower.stdout is not None
        follower.stdout.readline()
        assert farm("run", "--store", store).code == 0
        rest, err = follower.communicate(timeout=30)
    assert (follower.returncode, err) == (0, b"")
    assert strict_json(rest.splitlines()[-1])["event"] == "run.completed"


def test_files_are_for_their_owner_alone(finished: str) -> None:
    """0600, and 0700 for folders: predictions may be confidential."""
    for path in [Path(finished), *Path(finished).rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_demo_crashes_a_worker_and_recovers() -> None:
    """Two lines: a claim that is not done, then version 2 of it and all results; no traces."""
    before = set(Path("/tmp").glob("farm-demo-*"))
    done = farm("demo", "--input", SAMPLE, "--workers", "2", "--shards", "4")
    assert (done.code, done.err) == (0, "")
    after_crash, after_recovery = done.lines
    assert after_crash["phase"] == "after_worker_crash"
    leases = [shard["lease"] for shard in after_crash["snapshot"]["shards"]]
    assert leases[0] == {"Shard": "shard-0", "Worker": "crashes", "Version": 1, "Until": 110,
                         "Result": "", "Done": False}  # fmt: skip
    assert after_crash["snapshot"]["complete"] is False
    assert after_recovery["phase"] == "after_recovery"
    snapshot = after_recovery["snapshot"]
    assert (snapshot["complete"], snapshot["evaluated"], snapshot["correct"]) == (True, 4, 3)
    assert [shard["lease"]["Version"] for shard in snapshot["shards"]] == [2, 1, 1, 1]
    assert set(Path("/tmp").glob("farm-demo-*")) == before
    assert [line["snapshot"]["correct"] for line in farm("demo").lines] == [0, 3]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_that_is_interrupted_ends_as_any_command_does(
    number: signal.Signals, code: int
) -> None:
    """Its folder is gone then: nothing is promised to be kept."""
    with started("demo", "--workers", "1") as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline().startswith(b'{"phase":"after_worker_crash"')
        demo.send_signal(number)  # while it recovers, which takes the start of a process at least
        _, err = demo.communicate(timeout=30)
    assert demo.returncode == code
    assert err.decode() == (
        f"farm: interrupted by {number.name}; nothing of it is kept, "
        "start again with: farm demo --workers 1\n"
    )


def test_few_descriptors_are_told_of_in_one_line(tmp_path: Path) -> None:
    """Where an event loop can be begun and not be made, the interpreter adds a traceback."""
    store = initialized(tmp_path, shards=2)
    for most in (11, 12):
        done = subprocess.run(
            ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", FARM, "run", "--store", store,
             "--quiet"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode in (1, 3)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "too many open files" in done.stderr


def test_requeue_opens_only_what_is_quarantined(finished: str) -> None:
    before = fingerprint(finished)
    done = farm("requeue", "--store", finished, "--shard", "shard-0")
    assert done.code == 1
    assert "only a quarantined shard is requeued" in done.failures[0]
    unknown = farm("requeue", "--store", finished, "--shard", "shard-9")
    assert unknown.code == 1
    assert "'shard-9' is not a shard of this run" in unknown.failures[0]
    assert fingerprint(finished) == before


def test_verify_names_what_it_derived(finished: str) -> None:
    found = farm("verify", "--store", finished)
    assert found.code == 0
    value = found.json
    assert (value["ok"], value["problems"]) == (True, [])
    assert (value["cases"], value["shards"], value["receipts"]) == (4, 4, 4)
    report = farm("status", "--store", finished).json
    assert value["dataset_sha256"] == report["dataset_sha256"]
    assert value["tasks_sha256"] == report["tasks_sha256"]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda text: text.replace(b'"correct":1,', b'"correct":0,'), "with other figures"),
        (lambda text: b"", "is untold in the events"),
    ],
)
def test_verify_holds_the_events_against_the_ledger(
    finished: str, tmp_path: Path, edit: Callable[[bytes], bytes], problem: str
) -> None:
    store = tmp_path / "edited"
    shutil.copytree(finished, store)
    events = store / "events.jsonl"
    events.write_bytes(edit(events.read_bytes()))
    done = farm("verify", "--store", str(store))
    assert done.code == 1
    assert any(problem in found for found in done.json["problems"])


def test_requeue_does_all_or_nothing(finished: str, tmp_path: Path) -> None:
    store = tmp_path / "copy"
    shutil.copytree(finished, store)
    before = (store / "ledger.json").read_bytes()
    assert farm("requeue", "--store", str(store), "--shard", "nope", "--shard", "shard-0").code == 1
    assert (store / "ledger.json").read_bytes() == before


def test_a_slow_reader_that_does_not_block_gets_all_of_it(finished: str) -> None:
    """A pipe in non-blocking mode takes a piece at a time; nothing may be dropped."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen([FARM, "schema", "report"], stdout=theirs, env=environment()) as process:
        os.close(theirs)
        with open(ours, "rb") as pipe:
            said = pipe.read()
        assert process.wait() == 0
    assert len(said) > 4096
    assert json.loads(said)["title"] == "farm report"


def test_verify_survives_a_store_without_its_receipts(finished: str, tmp_path: Path) -> None:
    """What all its shards miss is missing once."""
    store = tmp_path / "store"
    (store / "empty").mkdir(parents=True)
    (store / "empty").rmdir()
    for path in Path(finished).iterdir():
        if path.is_file():
            (store / path.name).write_bytes(path.read_bytes())
    found = farm("verify", "--store", str(store))
    assert found.code == 1
    assert found.json["ok"] is False
    (problem,) = found.json["problems"]
    assert problem.startswith(f"{store}/receipts: missing, or no folder")


def test_a_second_supervisor_is_told_who_holds_the_store(tmp_path: Path) -> None:
    """Also when every shard is leased, so that there is nothing it could claim."""
    store = str(tmp_path / "store")
    given = ("run", "--store", store, "--input", SAMPLE, "--shards", "1")
    with started(*given, "--delay-ms", "60000", "--grace-s", "0") as first:
        wait_for(first, "worker.spawned")
        second = farm(*given)
        pid = first.pid
    assert (second.code, second.out) == (1, b"")
    assert f"is being run by process {pid} since" in second.failures[0]


def test_events_go_on_after_a_supervisor_was_killed(tmp_path: Path) -> None:
    """Numbers rise by one over the kill, and every shard is told as completed once."""
    store = str(tmp_path / "store")
    given = ("run", "--store", store, "--input", SAMPLE, "--shards", "4", "--workers", "1")
    with started(*given) as run:
        seen: list[dict[str, Any]] = []
        for event in log_of(run):
            seen.append(event)
            if event["event"] == "shard.completed":
                run.kill()
                break
    assert farm(*given).code == 0
    events = farm("events", "--store", store).lines
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[: len(seen)] == seen
    completed = [event["shard"] for event in events if event["event"] == "shard.completed"]
    assert sorted(completed) == ["shard-0", "shard-1", "shard-2", "shard-3"]
    assert len({event["invocation_id"] for event in events}) >= 2


@pytest.mark.parametrize("command", ["run", "eval", "rescore"])
def test_all_that_one_command_tells_carries_one_id(command: str, tmp_path: Path) -> None:
    """`invocation_id` is random, one a command; the commands after it have others."""
    store, old = str(tmp_path / "store"), str(tmp_path / "old")
    given = {
        "run": ("--store", store, "--input", SAMPLE),
        "eval": ("--store", store, "--tasks", TASKS, "--models", MOCKS),
        "rescore": ("--store", old, "--scorer", "exact_match", "--into", store),
    }[command]
    if command == "rescore":
        assert farm("init", "--store", old, "--input", SAMPLE).code == 0
    done = farm(command, *given)
    told = [event["event"] for event in done.events]
    assert told[0] == "store.initialized"
    kept = farm("events", "--store", store).lines
    assert [event["event"] for event in kept] == told
    assert len({event["invocation_id"] for event in done.events + kept}) == 1


def test_each_command_has_an_id_of_its_own(tmp_path: Path) -> None:
    """What each of them told stands together, told apart from what others did to the store."""
    store = initialized(tmp_path, shards=4)
    assert farm("worker", "--store", store, "--worker-id", "by-hand").code == 0
    assert farm("run", "--store", store).code == 0
    events = farm("events", "--store", store).lines
    ids = [told for told, _ in groupby(event["invocation_id"] for event in events)]
    assert len(ids) == len(set(ids)) == 3
