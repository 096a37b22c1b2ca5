"""What is to be done: which runs are the same run, and a plan file that cannot be altered."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.core.plan import (
    Identity,
    Plan,
    ScorerName,
    _seal,
    check_identity,
    decode_plan,
    encode_plan,
    first_ledger,
    run_id_of,
)
from farm.errors import Corrupt, IdentityMismatch
from tests.examples import SAMPLE_DATASET, SCORER, plan_of

IDENTITY = Identity(dataset_sha256=SAMPLE_DATASET, shards=4, scorer=SCORER)
PLAN = plan_of(2)
DATA = encode_plan(PLAN)


def test_the_run_id_is_sixteen_digits_of_the_digest_of_the_identity() -> None:
    """The sample, four shards, the default scorer; the text is written out here by hand."""
    text = (
        '{"dataset_sha256":"60eb5c9ae5c3fce2a328d662094c3204689130101ad85c1f4563ce0cd27dd267",'
        '"shards":4,"scorer":{"name":"normalized_match","version":"1"},"models":[]}'
    )
    assert run_id_of(IDENTITY) == "81831f3278f5df9c"
    assert run_id_of(IDENTITY) == sha256(text.encode()).hexdigest()[:16]


OTHERS = [
    (
        "dataset_sha256",
        replace(IDENTITY, dataset_sha256="0" * 64),
        repr(SAMPLE_DATASET),
        repr("0" * 64),
    ),
    ("shards", replace(IDENTITY, shards=5), "4", "5"),
    (
        "scorer",
        replace(IDENTITY, scorer=ScorerName(name="normalized_match", version="2")),
        "'normalized_match v1'",
        "'normalized_match v2'",
    ),
    ("models", replace(IDENTITY, models=("m", "n")), "none", "'m', 'n'"),
]


@pytest.mark.parametrize(("field", "other", "stored", "given"), OTHERS)
def test_another_identity_is_another_run_and_the_difference_is_named(
    field: str, other: Identity, stored: str, given: str
) -> None:
    assert run_id_of(other) != run_id_of(IDENTITY)
    with pytest.raises(IdentityMismatch) as refused:
        check_identity(IDENTITY, other, store="S")
    assert str(refused.value) == (
        f"store 'S' was made for {field} {stored}, this command gives {given}; "
        "nothing was changed: use another --store, or the original input and options"
    )


def test_every_field_of_the_identity_is_compared() -> None:
    """A field that is added to the identity must be added to its comparison."""
    assert {field for field, *_ in OTHERS} == set(Identity.__struct_fields__)
    check_identity(IDENTITY, replace(IDENTITY), store="S")


def test_a_plan_is_read_back_as_it_was_written() -> None:
    assert decode_plan(DATA, path="plan.json") == PLAN
    assert PLAN.run_id == run_id_of(PLAN.identity)


def test_the_first_ledger_has_a_free_lease_for_each_shard_in_plan_order() -> None:
    ledger = first_ledger(PLAN)
    assert (ledger.run_id, ledger.revision) == (PLAN.run_id, 0)
    assert [lease.shard for lease in ledger.leases] == ["shard-0", "shard-1"]
    assert not any(lease.version or lease.worker for lease in ledger.leases)


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_every_edit_of_a_single_byte_of_a_plan_is_refused(place: int, flip: int) -> None:
    """White space too: only the bytes that were written are the plan."""
    edited = bytearray(DATA)
    edited[place] ^= flip
    with pytest.raises(Corrupt, match=r"^plan\.json: "):
        decode_plan(bytes(edited), path="plan.json")


def test_every_truncation_of_a_plan_is_refused() -> None:
    for length in range(len(DATA)):
        with pytest.raises(Corrupt):
            decode_plan(DATA[:length], path="plan.json")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a plan: "),
        (b"\xff\xfe", "not a plan: "),
        (b'{"identity":' + b"[" * 100_000, "not a plan: "),
        (b'{"more":' + b"[" * 100_000, "not a plan: "),
        (DATA[:-2] + b',"more":1}\n', "not a plan: "),
        (DATA + b"\n", "edited: its checksum does not match"),
        (DATA.replace(b'"cases":1', b'"cases":2', 1), "edited: its checksum does not match"),
        (json.dumps(json.loads(DATA)).encode(), "edited: its checksum does not match"),
        (encode_plan(replace(PLAN, schema_version=9)), "schema 9, this farm reads 1"),
    ],
)
def test_a_plan_that_is_not_ours_is_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as refused:
        decode_plan(data, path="plan.json")
    assert str(refused.value).startswith(f"plan.json: {reason}")


def test_a_plan_whose_run_id_is_not_that_of_its_identity_is_corrupt() -> None:
    """Sealed again by somebody, so that the checksum alone would pass."""
    other: Plan = replace(PLAN, run_id="0" * 16, checksum="")
    sealed = replace(other, checksum=_seal(other))
    with pytest.raises(Corrupt, match="edited"):
        decode_plan(encode_plan(sealed), path="plan.json")
