"""Runs the restricted task: eight withheld cases, one second, 128 MiB.

What may be run at all is decided by `farm.scoring.restricted`; what passes is decided here, by
cases that exist in the tester's process only.
"""

from __future__ import annotations

from dataclasses import dataclass

from farm.sandbox.limits import Limits
from farm.sandbox.runner import Sandbox
from farm.sandbox.slot import Work
from farm.sandbox.verdict import Isolation
from farm.scoring.restricted import ENTRY_POINT, Reason, check

_BOUNDS = Limits(timeout_s=1.0, memory_mb=128)


def _equal(rows: str, total: int) -> str:
    return f"total = {ENTRY_POINT}({rows})\nassert type(total) is int and total == {total}"


def _refuses(*invoices: str) -> str:
    """Every one of the invoices must raise ValueError, and nothing else."""
    return (
        f"for rows in [{', '.join(invoices)}]:\n"
        f"    try:\n        {ENTRY_POINT}(rows)\n"
        "    except ValueError:\n        continue\n"
        "    assert False, 'no ValueError'"
    )


def _in_any_row(bad: str) -> list[str]:
    """Return invoices of a bad row: alone, and before, behind and between good ones."""
    rows, good = f"{{{bad}}}", "{'quantity': 2, 'unit_price_cents': 50}"
    return [
        f"[{rows}]", f"[{rows}, {good}]", f"[{good}, {rows}]", f"[{good}, {rows}, {good}]"
    ]  # fmt: skip


# Defaults, rounding row by row, the empty invoice, discounts, sizes, invalid values.
WITHHELD_CASES = (
    _equal("[{'quantity': 3, 'unit_price_cents': 250}]", 750),
    # 99 cents at half price are 49 in each row: 98, where rounding the sum would give 99
    _equal("[{'quantity': 1, 'unit_price_cents': 99, 'discount_percent': 50}] * 2", 98),
    _equal("[]", 0),
    # 7 * 333 = 2331, less 15 % is 1981.35; 2 * 100 undiscounted; and 3 * 99 at half price are
    # 148.5, where rounding each unit would give 3 * 49 = 147
    _equal(
        "[{'quantity': 7, 'unit_price_cents': 333, 'discount_percent': 15}, "
        "{'quantity': 2, 'unit_price_cents': 100, 'discount_percent': 0}, "
        "{'quantity': 3, 'unit_price_cents': 99, 'discount_percent': 50}]",
        2329,
    ),
    # the ends of the range are allowed: all off, quantities and prices of nothing, and a product
    # that no float holds exactly
    _equal(
        "[{'quantity': 5, 'unit_price_cents': 999, 'discount_percent': 100}, "
        "{'quantity': 0, 'unit_price_cents': 10}, {'quantity': 4, 'unit_price_cents': 0}, "
        "{'quantity': 90071992547409931, 'unit_price_cents': 9007199254740993, "
        "'discount_percent': 7}]",
        754505637255842315681439192931379,
    ),
    # each value is looked at for itself, and in each row: not the product, which two signs, a
    # price of nothing or a discount of all make harmless, and not the first row or the last
    _refuses(
        *_in_any_row("'quantity': -1, 'unit_price_cents': 100"),
        "[{'quantity': -1, 'unit_price_cents': -100}]",
        "[{'quantity': -1, 'unit_price_cents': 0}]",
        "[{'quantity': -1, 'unit_price_cents': 100, 'discount_percent': 100}]",
    ),
    _refuses(
        *_in_any_row("'quantity': 1, 'unit_price_cents': -1"),
        "[{'quantity': 0, 'unit_price_cents': -1}]",
        "[{'quantity': 1, 'unit_price_cents': -1, 'discount_percent': 100}]",
    ),
    _refuses(
        *_in_any_row("'quantity': 1, 'unit_price_cents': 100, 'discount_percent': 101"),
        *_in_any_row("'quantity': 1, 'unit_price_cents': 100, 'discount_percent': -1"),
        "[{'quantity': 0, 'unit_price_cents': 100, 'discount_percent': 101}]",
        "[{'quantity': 0, 'unit_price_cents': 100, 'discount_percent': -1}]",
        "[{'quantity': 1, 'unit_price_cents': 0, 'discount_percent': 101}]",
        "[{'quantity': 1, 'unit_price_cents': 0, 'discount_percent': -1}]",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedResult:
    """The verdict on a restricted program.

    `evaluated` is false, and `passed` None, for a program outside the language: that is not a
    wrong answer. `reason` is None when the program ran, whether it passed or answered wrongly.
    """

    evaluated: bool
    passed: bool | None
    reason: Reason | None
    detail: str = ""
    isolation: Isolation | None = None


def run_restricted(source: str, *, sandbox: Sandbox) -> RestrictedResult:
    """Judge one program for the task; whatever it contains ends in a result."""
    refusal = check(source)
    if refusal is not None:
        wrong = refusal.reason == "invalid_or_timeout"
        detail = f"line {refusal.line}: {refusal.detail}" if refusal.line else refusal.detail
        return RestrictedResult(
            evaluated=wrong,
            passed=False if wrong else None,
            reason=refusal.reason,
            detail=detail,
        )
    work = Work(code=source, assertions=WITHHELD_CASES, bounds=_BOUNDS, entry_point=ENTRY_POINT)
    result = sandbox.run(work)
    ran = result.outcome in ("pass", "assertion_fail")
    return RestrictedResult(
        evaluated=True,
        passed=result.outcome == "pass",
        reason=None if ran else "invalid_or_timeout",
        detail=result.detail,
        isolation=result.isolation,
    )
