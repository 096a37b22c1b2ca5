"""Write every call down before it is made and after it ended, and stop at a budget."""

from __future__ import annotations

from decimal import Decimal

from farm.adapters.protocol import Call, CallLedger, Pass
from farm.core.cost import Spent
from farm.core.generation import Generation
from farm.errors import Halted


class Count:
    """Wraps calls with the ledger; a call that is given up is settled as such."""

    def __init__(self, send: Pass, ledger: CallLedger) -> None:
        self._send = send
        self._ledger = ledger

    async def __call__(self, call: Call) -> Generation:
        """Call between the two entries."""
        number = self._ledger.begin(call.request, digest=call.digest, attempt=call.attempt)
        generation: Generation | None = None
        try:
            generation = await self._send(call)
        finally:
            self._ledger.settle(number, generation)
        return generation


class Budget:
    """Wraps calls with the bounds of a run; a bound that is reached raises `Halted`.

    What is spent is known when a call ends, so the calls in flight at that moment come on top.
    """

    def __init__(
        self, send: Pass, ledger: CallLedger, *, max_money: Decimal | None, max_tokens: int | None
    ) -> None:
        self._send = send
        self._ledger = ledger
        self._max_money = max_money
        self._max_tokens = max_tokens

    async def __call__(self, call: Call) -> Generation:
        """Call if the budget still allows it."""
        self._check(self._ledger.spent(), call.request.model_id)
        return await self._send(call)

    def _check(self, spent: Spent, model: str) -> None:
        if self._max_tokens is not None:
            self._check_tokens(spent, model, most=self._max_tokens)
        if self._max_money is not None:
            self._check_money(spent, model, most=self._max_money)

    def _check_tokens(self, spent: Spent, model: str, *, most: int) -> None:
        if spent.tokens is None:
            raise Halted(
                reason="max_tokens",
                model=model,
                detail=f"{spent.unmetered!r} does not tell its tokens, "
                "so --max-tokens cannot be kept",
                way_out="go on without the bound",
            )
        if spent.tokens >= most:
            raise Halted(
                reason="max_tokens",
                model=model,
                detail=f"{spent.tokens} tokens are spent, --max-tokens is {most}",
                way_out="raise it to go on",
            )

    def _check_money(self, spent: Spent, model: str, *, most: Decimal) -> None:
        if spent.money is None and spent.unpriced:
            raise Halted(
                reason="max_cost",
                model=model,
                detail=f"a call had no price, {spent.unpriced!r} is not in the price list, "
                "so --max-cost cannot be kept",
                way_out=f"add {spent.unpriced!r} to the price list, or go on without the bound",
            )
        if spent.money is None:
            raise Halted(
                reason="max_cost",
                model=model,
                detail=f"{spent.unmetered!r} does not tell its tokens, "
                "so --max-cost cannot be kept",
                way_out="go on without the bound",
            )
        if spent.money >= most:
            raise Halted(
                reason="max_cost",
                model=model,
                detail=f"{spent.money} are spent, --max-cost is {most}",
                way_out="raise it to go on",
            )
