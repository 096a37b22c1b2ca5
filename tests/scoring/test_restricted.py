"""The restricted language: what is inside, and which rule each thing outside breaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.scoring.restricted import check

HEAD = "def invoice_total(rows):\n"


@pytest.mark.parametrize(
    "body",
    [
        "return 0",
        "pass",
        "'a docstring'\n    return 0",
        "total = 0\n    for row in rows:\n        total += row['quantity']\n    return total",
        "if not rows or 1 < 2 <= 3 and rows != 4:\n        raise ValueError('no')",
        "raise ValueError",
        "d = rows.get('x', 0)\n    return d",
        "return -1 + 2 * 3 // 4 % 5 - int('6')",
        "return rows is None or rows is not None or None is rows",
        "return 'quantity' in rows or 3 not in rows",
    ],
)
def test_the_language_is_enough_to_write_the_task_in(body: str) -> None:
    """Every part that the task statement permits, one program each."""
    assert check(HEAD + "    " + body) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "function_contract"),
        ("x = 1", "function_contract"),
        ("def total(rows): return 0", "function_contract"),
        ("import os\n" + HEAD + "    return 0", "function_contract"),
        (HEAD + "    def inner(): pass\n    return 0", "function_contract"),
        (HEAD + "    return 0\ninvoice_total([])", "function_contract"),
        ("def invoice_total(rows, more): return 0", "function_contract"),
        ("def invoice_total(*rows): return 0", "function_contract"),
        ("def invoice_total(rows=[]): return 0", "function_contract"),
        ("@print\n" + HEAD + "    return 0", "function_contract"),
        ("async def invoice_total(rows): return 0", "function_contract"),
        (HEAD + "    import os", "restricted_syntax"),
        (HEAD + "    while True: pass", "restricted_syntax"),
        (HEAD + "    return [r for r in rows]", "restricted_syntax"),
        (HEAD + "    return lambda: 0", "restricted_syntax"),
        (HEAD + "    return (lambda: 0)()", "restricted_call"),
        (HEAD + "    return 1 / 2", "restricted_syntax"),
        (HEAD + "    return 2 ** 99", "restricted_syntax"),
        (HEAD + "    return +1", "restricted_syntax"),
        (HEAD + "    return f'{rows}'", "restricted_syntax"),
        (HEAD + "    return rows[1:2]", "restricted_syntax"),
        (HEAD + "    try: pass\n    except ValueError: pass", "restricted_syntax"),
        (HEAD + "    return rows.get(key='x')", "restricted_syntax"),
        (HEAD + "    for r in rows: pass\n    else: pass", "restricted_syntax"),
        (HEAD + "    return rows is 0", "restricted_identity"),
        (HEAD + "    return rows is not rows", "restricted_identity"),
        (HEAD + "    return __builtins__", "private_name"),
        (HEAD + "    _x = 1", "private_name"),
        ("def invoice_total(_rows): return 0", "private_name"),
        (HEAD + "    return rows.append", "restricted_attribute"),
        (HEAD + "    return rows.get", "restricted_attribute"),
        (HEAD + "    return rows.__class__", "restricted_attribute"),
        (HEAD + "    return 'x'.format(rows)", "restricted_attribute"),
        (HEAD + "    return sum(rows)", "restricted_call"),
        (HEAD + "    return invoice_total(rows)", "restricted_call"),
        (HEAD + "    return rows[0](1)", "restricted_call"),
        (HEAD + "    return (", "invalid_or_timeout"),
        ("def invoice_total(rows)\n    return 0", "invalid_or_timeout"),
        (HEAD + "    return '\0'", "invalid_or_timeout"),
    ],
)
def test_the_first_rule_broken_is_named(source: str, reason: str) -> None:
    """One program for each rule and each way around it that was thought of."""
    refusal = check(source)
    assert refusal is not None
    assert refusal.reason == reason


@given(st.text(alphabet="abcdefgh_.()[]{}:=+-*/%<>' \n0123456789", max_size=80))
def test_any_text_gets_an_answer(text: str) -> None:
    """Law: whatever a model wrote, the check ends in a refusal or in None, never in an error."""
    check(HEAD + "    " + text)
