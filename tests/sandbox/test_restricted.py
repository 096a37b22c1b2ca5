"""The restricted task, run: right and wrong programs, and what is not evaluated."""

from __future__ import annotations

import pytest

from farm.sandbox.restricted import WITHHELD_CASES, run_restricted
from farm.sandbox.runner import Sandbox

RULE = "quantity * price * (100 - discount) // 100"
RIGHT = """
def invoice_total(rows):
    total = 0
    for row in rows:
        quantity = row["quantity"]
        price = row["unit_price_cents"]
        discount = row.get("discount_percent", 0)
        if discount is None:
            discount = 0
        if quantity < 0 or price < 0 or discount < 0 or discount > 100:
            raise ValueError("out of range")
        total += quantity * price * (100 - discount) // 100
    return total
"""
LAST_ROW_ONLY = """\
    total = 0
    quantity = 0
    price = 0
    discount = 0
    for row in rows:
        quantity = row["quantity"]
        price = row["unit_price_cents"]
        discount = row.get("discount_percent", 0)
        total += quantity * price * (100 - discount) // 100
    if quantity < 0 or price < 0 or discount < 0 or discount > 100:
        raise ValueError("out of range")
"""


def test_there_are_eight_withheld_cases() -> None:
    """The number the task states."""
    assert len(WITHHELD_CASES) == 8


def test_a_right_program_passes(sandbox: Sandbox) -> None:
    """Written to the task statement, None as no discount included."""
    result = run_restricted(RIGHT, sandbox=sandbox)
    assert (result.evaluated, result.passed, result.reason) == (True, True, None), result.detail
    assert result.isolation is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row.get(\"discount_percent\", 0)", "row[\"discount_percent\"]"),  # no default
        ("// 100\n    return total", "\n    return total // 100"),  # rounds the sum
        ("* (100 - discount) // 100", "- quantity * price * discount // 100"),  # rounds up
        ("discount > 100", "discount >= 100"),
        ("discount < 0 or ", ""),
        (" or discount > 100", ""),
        ("quantity < 0 or ", ""),
        ("price < 0 or ", ""),
        ("quantity < 0", "quantity < 1"),
        ("price < 0", "price < 1"),
        ('raise ValueError("out of range")', "return 0"),
        ("return total", "return total + 1"),
        ("total = 0", "total = rows[0]['quantity'] * 0"),  # an empty invoice is an error
        (RULE, "quantity * (price * (100 - discount) // 100)"),  # rounds each unit
        (RULE, "int(quantity * price * (100 - discount) * 0.01)"),  # by way of a float
        (RULE, "int(quantity * (price * (100 - discount)) * 0.01 + 0.001)"),
        ("discount > 100:", "discount > 100 or quantity > 10:"),
        ("quantity < 0 or price < 0", "quantity * price < 0"),  # two signs make a plus
        ("quantity < 0 or price < 0", "quantity + price < 0"),
        ("quantity < 0 or price < 0", "quantity * price * (100 - discount) < 0"),
        ("quantity < 0 or price < 0", "quantity < 0 and price >= 0 or price < 0 and quantity >= 0"),
        ("quantity < 0 or price < 0", "quantity < 0 and price > 0 or price < 0"),
        ("quantity < 0 or price < 0", "quantity < 0 or price < 0 and quantity > 0"),
        # only of the last row
        (RIGHT[RIGHT.index("    total = 0"):RIGHT.index("    return")], LAST_ROW_ONLY),
        # only where nothing has been added up yet, or something has
        *((f"{name} < 0", f"({name} < 0 and total {sign} 0)")
          for name in ("quantity", "price", "discount") for sign in ("==", ">")),
        *(("discount > 100", f"(discount > 100 and total {sign} 0)") for sign in ("==", ">")),
        # only where the row comes to something
        ("discount < 0 or discount > 100", "price > 0 and (discount < 0 or discount > 100)"),
        ("discount > 100", "(discount > 100 and price > 0)"),
        ("discount < 0", "(discount < 0 and price > 0)"),
        ("discount < 0", "(discount < 0 and quantity > 0)"),
        *(("discount > 100:", f"discount > 100 or quantity > {most}:")
          for most in (2_000_000, 2**31, 2**53)),
        *(("discount > 100:", f"discount > 100 or price > {most}:") for most in (2**31, 2**53)),
    ],
)  # fmt: skip
def test_each_slip_is_caught_by_some_case(old: str, new: str, sandbox: Sandbox) -> None:
    """One change away from right is wrong: the eight cases see every one of these."""
    assert old in RIGHT
    result = run_restricted(RIGHT.replace(old, new), sandbox=sandbox)
    assert (result.evaluated, result.passed) == (True, False)


def test_unsupported_syntax_is_not_a_wrong_answer(sandbox: Sandbox) -> None:
    """`evaluated: false` with `passed: null`, and the rule."""
    code = "def invoice_total(rows):\n    return sum(row['quantity'] for row in rows)\n"
    result = run_restricted(code, sandbox=sandbox)
    assert (result.evaluated, result.passed) == (False, None)
    assert result.reason in ("restricted_syntax", "restricted_call")
    assert result.detail.startswith("line 2: ")


@pytest.mark.parametrize(
    "body",
    [
        "return (",  # no Python
        "return missing_name",
        "x = 'a'\n    for r in rows:\n        x = x * 99999999\n    return x",  # memory
        "x = 9\n    for a in 'x' * 999999:\n        for b in 'x' * 999999:\n            x += 1",
    ],
)
def test_what_cannot_run_to_its_end_is_invalid_or_timeout(body: str, sandbox: Sandbox) -> None:
    """Evaluated, and failed: the answer is no working program."""
    result = run_restricted(f"def invoice_total(rows):\n    {body}\n", sandbox=sandbox)
    assert (result.evaluated, result.passed) == (True, False)
    assert result.reason == "invalid_or_timeout"
