"""Values cross as they are, and what is shared stays shared."""

from __future__ import annotations

import collections
import datetime
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.sandbox.frames import PeerBroke
from farm.sandbox.plain import Traffic

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.characters(categories=["Cs"]),  # lone surrogates
    st.binary(),
    st.complex_numbers(allow_nan=False),
    st.fractions(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
)
KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text()))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=30),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner),
        st.sets(KEYS),
        st.frozensets(KEYS),
        st.lists(inner, max_size=4).map(collections.deque),
        st.dictionaries(st.text(), inner).map(collections.OrderedDict),
    ),
    max_leaves=20,
)


def _no_reference(value: Any) -> Any:
    raise PeerBroke(f"{value!r} is no plain value")


class Pair:
    """Two books and the wire between them."""

    def __init__(self) -> None:
        self.tester = Traffic(0, export=_no_reference, adopt=_no_reference)
        self.candidate = Traffic(1, export=_no_reference, adopt=_no_reference)

    def carry(self, value: Any, *, back: bool = False) -> Any:
        source, target = (self.candidate, self.tester) if back else (self.tester, self.candidate)
        message = source.seal({"v": source.pack(value)}, forget=not back)
        wire: Any = json.loads(json.dumps(message))
        target.unseal(wire)
        for number in wire.get("drop", ()):
            target.forget(number)
        return target.unpack(wire["v"])


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return bool(left.hex() == right.hex())
    if isinstance(left, dict):
        return list(left) == list(right) and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple | collections.deque):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


@given(VALUES)
def test_a_value_comes_back_as_it_went(value: Any) -> None:
    """Law: there and back again changes neither type nor value, down to the sign of zero."""
    pair = Pair()
    there = pair.carry(value)
    assert _same(there, value)
    assert _same(pair.carry(there, back=True), value)


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=4), st.integers())
def test_a_container_keeps_its_identity_and_takes_its_changes_along(
    rows: list[list[int]], extra: int
) -> None:
    """Law: a change on one side is seen on the other, in the very object handed over."""
    pair = Pair()
    there = pair.carry(rows)
    there.append([extra])
    if rows:
        there[0].append(extra)
    returned = pair.carry(there, back=True)
    assert returned is rows
    assert rows == there
    rows.clear()
    assert pair.carry(rows) is there
    assert there == []


@given(st.data())
def test_a_long_list_is_told_by_its_changed_end(data: st.DataObject) -> None:
    """Law: whichever side changes it, and where, both hold the same parts in the same lists."""
    pair = Pair()
    mine = list(range(200))
    theirs = pair.carry(mine)
    for back in (True, False, True):
        changing = theirs if back else mine
        at = data.draw(st.integers(0, len(changing)))
        changing[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.lists(st.sampled_from([True, 1.0, "x"]), max_size=3)
        )
        arrived = pair.carry(changing, back=back)
        assert arrived is (mine if back else theirs)
        assert _same(mine, theirs)


def test_a_list_inside_itself_crosses() -> None:
    """Contents travel as a flat table, so a cycle is one more number."""
    loop: list[Any] = [1]
    loop.append(loop)
    there = Pair().carry(loop)
    assert there[0] == 1
    assert there[1] is there


@pytest.mark.parametrize(
    "value",
    [
        10**5000,  # longer than the decimal digits Python converts by default
        -(10**5000),
        float("inf"),
        -0.0,
        range(3, 30, 4),
        slice(1, None, 2),
        Ellipsis,
        collections.Counter("aab"),
        collections.defaultdict(None, {"k": 1}),
        bytearray(b"abc"),
        Decimal("1.10"),
        Fraction(1, 3),
        datetime.time(1, 2, 3),
        numpy.int64(5),
        numpy.float32(0.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_rare_value_keeps_its_type(value: Any) -> None:
    """Not only equal: `type(f(x)) is Decimal` is a thing assertions say."""
    there = Pair().carry(value)
    assert type(there) is type(value)
    assert there == value


def test_an_array_keeps_shape_and_type() -> None:
    """Numeric arrays cross by value; what they are made of is checked on arrival."""
    array = numpy.array([[1, 2], [3, 4]], dtype="int16")
    there = Pair().carry(array)
    assert there.dtype == array.dtype
    assert there.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "message",
    [
        {"fresh": [[0, "list", None, []]]},  # the tester's own kind of number
        {"fresh": [[1, "list", None, []], [1, "dict", None, []]]},
        {"fresh": [[1, "type", None, []]]},
        {"fresh": [["1", "list", None, []]]},
        {"fresh": 5},
        {"changed": [[77, []]]},
        {"changed": [[77, [], 0]]},
        {"fresh": [[1, "list", None, []]], "changed": [[1, [], -1]]},
        {"fresh": [[1, "set", None, []]], "changed": [[1, [], 1]]},
        {"fresh": [[1, "dict", None, [1]]]},
        {"fresh": [[1, "set", None, [{"t": "r", "v": 1}]]]},
    ],
)
def test_a_malformed_table_is_refused(message: dict) -> None:
    """Whatever is wrong with a peer's table raises; nothing of it is guessed at."""
    with pytest.raises((PeerBroke, KeyError, ValueError, TypeError)):
        Pair().tester.unseal(message)


@pytest.mark.parametrize("dtype", ["O8", "<f8,O", "|V8", "f8", "<U", "<f8x", None, 3])
def test_an_array_holds_numbers_and_text_only(dtype: object) -> None:
    """Records and objects would let a program's operators into the arithmetic of the tests."""
    with pytest.raises(PeerBroke):
        Pair().tester.unpack({"t": "ndarray", "v": [dtype, {"t": "tuple", "v": [1]}, 0]})
