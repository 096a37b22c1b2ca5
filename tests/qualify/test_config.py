"""A configuration is refused by name for what it lacks, and shown for what it says."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from farm.errors import NotPermitted, SpecError
from farm.qualify.cells import cells_of, plan_of
from farm.qualify.config import complete_config, config_sha256, read_config
from farm.qualify.devicelease import check_device_lease, read_device_lease
from farm.qualify.hooks import check_hooks
from tests.qualify.servers import COMPLETE, farm, write_config, write_lease

URL = "http://127.0.0.1:1"
# the fields that say what is measured, as the run contract lists them
NAMED = [
    "model", "url", "nodes", "model_sha256", "engine_commit", "template_sha256",
    "engine_binary_sha256", "quantization", "draft_model", "draft_sha256", "reasoning_mode",
    "sampler", "max_context_per_request", "min_mem_available_gib", "min_disk_free_gib",
    "resource_check", "token_counter", "reset_cache",
]  # fmt: skip
NULLABLE = NAMED[6:12]


def read(**changes: Any):
    raw = {**COMPLETE, "url": URL, **changes}
    kept = {name: value for name, value in raw.items() if value is not ...}
    return read_config(json.dumps(kept).encode(), file="c.json")


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("value", [..., "REQUIRED"])
def test_missing_provenance_is_refused_by_name(name: str, value: object) -> None:
    """Missing and REQUIRED are the same: nobody said what is measured."""
    manifest = read(**{name: [value] if name == "nodes" and value is not ... else value})
    assert manifest.missing == (name,)
    with pytest.raises(SpecError, match=rf"c\.json: {name}: .*missing_provenance"):
        complete_config(manifest, file="c.json")


@pytest.mark.parametrize("name", NULLABLE)
def test_what_there_is_not_is_said_by_null(name: str) -> None:
    """An explicit null is an answer, silence is not."""
    assert complete_config(read(**{name: None}), file="c.json") is not None


@pytest.mark.parametrize("name", sorted(set(NAMED) - set(NULLABLE)))
def test_null_is_no_answer_where_there_must_be_one(name: str) -> None:
    """A model without a hash is not a model that can be named."""
    with pytest.raises(SpecError, match=name):
        read(**{name: None})


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"contexts": [512, 512]}, "duplicate"),
        ({"contexts": [4096]}, "no_room"),  # 4096 + 256 + 192 do not fit 4096
        ({"concurrency": []}, "bad_value"),
        ({"repeats": True}, "bad_value"),
        ({"url": "ftp://x"}, "bad_url"),
        ({"url": "http://user:secret@x/v1"}, "credentials"),
        ({"url": "http://x/v1?key=secret"}, "bad_url"),
        ({"url": "http://x:99999"}, "bad_url"),
        ({"protocol": "messages"}, "bad_value"),
        ({"fixture_mode": "bytes"}, "bad_value"),
        ({"request_options": {"messages": []}}, "not_an_option"),
        ({"sampler": {"stream": False}}, "not_an_option"),
        ({"contextz": [512]}, "unknown_field"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_rule(changes: dict[str, Any], rule: str) -> None:
    """One refusal names field and rule."""
    with pytest.raises(SpecError, match=rf"\[{rule}\]"):
        read(**changes)


def test_every_problem_is_named_at_once() -> None:
    """Three faults, three lines."""
    with pytest.raises(SpecError) as refused:
        read(repeats=0, url="x", unknown=1)
    assert {problem.field for problem in refused.value.problems} == {"repeats", "url", "unknown"}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    """Hostile files end in a message."""
    with pytest.raises(SpecError, match=r"c\.json"):
        read_config(text, file="c.json")


def test_the_default_matrix_has_54_cells_in_a_fixed_order() -> None:
    """3 contexts, 3 concurrencies, 3 repeats, cold and primed; cold comes first."""
    config = complete_config(
        read(contexts=..., concurrency=..., repeats=..., max_context_per_request=70000),
        file="c.json",
    )
    cells = cells_of(config)
    assert len(cells) == 54
    first = [(c.context, c.concurrency, c.repeat, c.cache) for c in cells[:3]]
    assert first == [(8192, 1, 0, "cold"), (8192, 1, 0, "primed"), (8192, 1, 1, "cold")]
    assert [c.context for c in cells] == sorted(c.context for c in cells)
    plan, records = plan_of(config)
    assert plan.cases == 6 * 3 * (1 + 2 + 4)
    assert records.count(b"\n") == plan.cases


def test_any_change_of_a_configuration_is_another_run() -> None:
    """But for how the server is reached and watched, which says nothing of what is measured."""
    one, other = (complete_config(read(repeats=n), file="c") for n in (1, 2))
    assert config_sha256(one) != config_sha256(other)
    assert plan_of(one)[0].run_id != plan_of(other)[0].run_id
    for change in (
        {"api_key_env": "KEY"},
        {"url": "http://other:8000"},
        {"resource_check": ["check"]},
        {"min_mem_available_gib": 3},
        {"min_disk_free_gib": 3},
        {"disk_path": "/data"},
        {"hook_timeout_s": 7},
    ):
        moved = complete_config(read(repeats=1, **change), file="c")
        assert config_sha256(moved) == config_sha256(one), change


@pytest.mark.parametrize("field", ["resource_check", "token_counter", "reset_cache"])
def test_a_hook_that_is_not_built_in_is_refused_with_those_that_are(field: str) -> None:
    """A word is a built-in hook, a list a command."""
    config = complete_config(read(**{field: "llama"}), file="c")
    with pytest.raises(SpecError, match=f"{field}: 'llama' is not built in: give one of "):
        check_hooks(config)
    check_hooks(complete_config(read(**{field: ["./mine"]}), file="c"))


LEASE = {"nodes": ["a", "b"], "expires_unix": 100, "lock_path": "/x", "allowed_gpu_pids": [7]}


@pytest.mark.parametrize("name", sorted(LEASE))
@pytest.mark.parametrize("value", [..., "REQUIRED"])
def test_a_device_lease_lacks_nothing(name: str, value: object) -> None:
    """The operator fills in every field."""
    raw = {**LEASE, name: value}
    kept = {key: one for key, one in raw.items() if one is not ...}
    with pytest.raises(SpecError, match=name):
        read_device_lease(json.dumps(kept).encode(), file="l.json")


def test_a_device_lease_is_for_exactly_these_nodes_and_not_for_ever() -> None:
    """At its last instant it is over; more nodes than the model's are as wrong as fewer."""
    lease = read_device_lease(json.dumps(LEASE).encode(), file="l.json")
    check_device_lease(lease, nodes=("b", "a"), now=99.9)
    with pytest.raises(NotPermitted, match="expired"):
        check_device_lease(lease, nodes=("a", "b"), now=100)
    for nodes in (("a",), ("a", "b", "c"), ("a", "c")):
        with pytest.raises(NotPermitted, match="must be the same"):
            check_device_lease(lease, nodes=nodes, now=0)


def test_plan_shows_what_is_missing_and_asks_nobody(tmp_path: Path) -> None:
    """No server is there, and the hook would leave a file."""
    touched = tmp_path / "touched"
    config = write_config(
        tmp_path, url=URL, model_sha256="REQUIRED", token_counter=["touch", str(touched)]
    )
    done = farm("qualify", "plan", config)
    shown = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert shown["missing"] == ["model_sha256"]
    assert shown["ready"] is False
    assert shown["model"] == "scripted"
    assert shown["cells"] == 2  # cold and primed
    # cold asks 4 times, primed 5 times, in each of two streams
    assert shown["estimate"]["requests"] == 18
    assert shown["estimate"]["completion_tokens"] == 18 * 256
    assert shown["estimate"]["seconds"] > 0
    assert not touched.exists()


def test_run_refuses_missing_provenance_before_anything(tmp_path: Path) -> None:
    """Exit 1, the field's name on stderr, no directory made."""
    config = write_config(tmp_path, url=URL, engine_commit="REQUIRED")
    output = tmp_path / "out"
    done = farm("qualify", "run", config, "--lease", write_lease(tmp_path), "--output", str(output))
    assert done.returncode == 1
    assert "engine_commit" in done.stderr
    assert "Traceback" not in done.stderr
    assert not output.exists()


def test_run_refuses_an_expired_lease_before_anything(tmp_path: Path) -> None:
    """The lease is looked at before the server is."""
    lease = write_lease(tmp_path, expires_unix=time.time() - 1)
    done = farm(
        "qualify", "run", write_config(tmp_path, url=URL), "--lease", lease,
        "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.returncode == 1
    assert "the device lease expired" in done.stderr
    assert not (tmp_path / "out").exists()


CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "qualify"


@pytest.mark.parametrize("name", ["llama", "vllm", "sglang"])
def test_an_example_is_right_but_for_what_its_user_fills_in(name: str) -> None:
    """No field is unknown or of the wrong kind; what says what is measured is missing."""
    manifest = read_config((CONFIGS / f"{name}.example.json").read_bytes(), file=name)
    assert set(NAMED) - set(manifest.missing) == {
        "sampler", "resource_check", "token_counter", "reset_cache",
    }  # fmt: skip
    filled = json.loads((CONFIGS / f"{name}.example.json").read_bytes())
    filled |= {n: COMPLETE.get(n) for n in manifest.missing}
    filled |= {"url": URL, "max_context_per_request": 70_000, "tokenizer": "/tokenizer"}
    config = complete_config(read_config(json.dumps(filled).encode(), file=name), file=name)
    check_hooks(config)
    assert len(cells_of(config)) == 54


def test_the_example_of_a_lease_lacks_everything() -> None:
    """The operator fills it in."""
    with pytest.raises(SpecError) as refused:
        read_device_lease((CONFIGS / "lease.example.json").read_bytes(), file="l")
    assert {problem.field for problem in refused.value.problems} == set(LEASE)


@pytest.mark.parametrize(
    "field", ["max_tokens", "max_completion_tokens", "max_output_tokens", "store", "messages"]
)
def test_what_the_run_sets_itself_is_no_option(field: str) -> None:
    """An output limit beside max_tokens would make the room that was checked a false promise."""
    for name in ("request_options", "sampler"):
        with pytest.raises(SpecError, match=f"{field}' is set by the qualification itself"):
            read(**{name: {field: 1}})


def test_a_sampler_is_said_once() -> None:
    """Two values of one option would make the provenance say one and the request another."""
    with pytest.raises(SpecError, match=r"'temperature' is 1 here and 0 in sampler"):
        read(sampler={"temperature": 0}, request_options={"temperature": 1})
    read(sampler={"temperature": 0}, request_options={"temperature": 0, "top_k": 1})


def test_a_key_in_place_of_its_variable_is_refused_unseen() -> None:
    """A configuration is shared; a key belongs in the environment."""
    with pytest.raises(SpecError, match="never the key itself") as refused:
        complete_config(read(api_key_env="sk-abc123"), file="c")
    assert "abc123" not in str(refused.value)
