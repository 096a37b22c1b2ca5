"""What the configuration claims and what the server says stand side by side."""

from __future__ import annotations

import json
from typing import Any

from farm.qualify.config import Config, complete_config, read_config
from farm.qualify.devicelease import DeviceLease
from farm.qualify.provenance import invocation_of, provenance_document
from tests.qualify.servers import COMPLETE

LEASE = DeviceLease(
    nodes=("localhost",), expires_unix=5.0, lock_path="/lock", allowed_gpu_pids=(1,)
)


def config_of(**changes: Any) -> Config:
    raw = {**COMPLETE, "url": "http://x", "api_key_env": "MY_KEY", **changes}
    return complete_config(read_config(json.dumps(raw).encode(), file="c"), file="c")


def document(*servers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    for server in servers:
        entry = invocation_of(
            LEASE, server, operation={"url": "http://x"}, farm_version="1", now=1.0
        )
        found = provenance_document(
            config_of(**changes), run_id="r", before=found, invocation=entry
        )
    assert found is not None
    return found


def test_every_invocation_is_kept_and_a_changed_server_is_told() -> None:
    """The same server twice is nothing to tell, another build is; one that was away is neither."""
    build = {"build_info": "b1"}
    assert document(build, build)["warnings"] == []
    assert document(build, {}, build)["warnings"] == []
    changed = document(build, {"build_info": "b2"})
    assert len(changed["invocations"]) == 2
    assert changed["warnings"] == [
        "the server described itself differently in another invocation of this run"
    ]


def test_a_template_that_is_not_the_claimed_one_is_told() -> None:
    """The digest of what the server serves, against the configuration's."""
    served = {"template_sha256": "2" * 64}
    assert document(served, template_sha256="2" * 64)["warnings"] == []
    (warning,) = document(served, template_sha256="5" * 64)["warnings"]
    assert "2" * 64 in warning
    assert "5" * 64 in warning


def test_slots_that_may_share_their_context_are_told() -> None:
    """A shared 64K is not four 64K slots, and a server tells 64K for each in both cases."""
    served = {"total_slots": 4, "context_per_slot": 65536}
    (warning,) = document(served, concurrency=[1, 4])["warnings"]
    assert "65536 tokens for each of 4 slots" in warning
    assert "total_context" in warning
    assert document(served, concurrency=[1, 4], total_context=262144)["warnings"] == []
    assert document(served, concurrency=[1])["warnings"] == []
    assert document({**served, "total_slots": 1}, concurrency=[1, 4])["warnings"] == []


def test_the_key_is_not_even_named() -> None:
    """The name of its variable is a matter of the machine."""
    assert "MY_KEY" not in json.dumps(document({}))
