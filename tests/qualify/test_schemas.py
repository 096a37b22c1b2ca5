"""What a qualification reads and writes is as `farm schema` says, held against a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from farm.cli.schema import QUALIFICATION
from farm.qualify.schemas import NAMES
from tests.qualify.servers import farm, scripted_server, write_config, write_lease


def printed_schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(farm("schema", name).stdout)
    Draft202012Validator.check_schema(schema)
    return schema


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Every kind of document of a run of two cells, with drafts, and of an audit."""
    folder = tmp_path_factory.mktemp("documents")
    run = str(folder / "out")
    with scripted_server("--drafts", "--pause-s", "0") as url:
        config = write_config(folder, url=url, api_key_env=None, resource_check=["echo", SAID])
        lease = write_lease(folder)
        done = farm("qualify", "run", config, "--lease", lease, "--output", run, "--quiet")
    assert done.returncode == 0, done.stderr
    outputs = [
        {"config": name, "request_id": "r1", "pass": 1, "text": text, "token_ids": None}
        for name, text in (("baseline", "ab"), ("draft-1", "ac"), ("draft-2", "ac"))
    ]
    (folder / "outputs.jsonl").write_text("\n".join(map(json.dumps, outputs)), "utf-8")
    printed = {
        "summary": farm("qualify", "summary", run, "--format", "json"),
        "comparison": farm("qualify", "compare", run, run),
        "audit": farm("qualify", "audit", str(folder)),
    }
    return {
        "qualify-config": [json.loads(Path(config).read_bytes())],
        "qualify-lease": [json.loads(Path(lease).read_bytes())],
        "qualify-results": [
            json.loads(line) for line in Path(run, "results.jsonl").read_bytes().splitlines()
        ],
        **{f"qualify-{name}": [json.loads(done.stdout)] for name, done in printed.items()},
    }


SAID = '{"exclusive": true}'


@pytest.mark.parametrize("name", NAMES)
def test_documents_are_as_their_schema_says(documents: dict[str, list[Any]], name: str) -> None:
    """Strict: without one of its fields that have no default a document is another one."""
    schema = printed_schema(name)
    check = Draft202012Validator(schema)
    required = schema["$defs"][schema["$ref"].rpartition("/")[2]]["required"]
    for document in documents[name]:
        assert [error.message for error in check.iter_errors(document)] == []
        for field in required:
            assert not check.is_valid({k: v for k, v in document.items() if k != field}), field


def test_every_schema_is_offered() -> None:
    """The command lists them without loading what they are made of."""
    assert QUALIFICATION == NAMES
