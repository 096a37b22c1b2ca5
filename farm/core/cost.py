"""What calls cost: prices, entries of the ledger, and their sums.

A ledger is a list of entries that only grows: a call begins, it ends, its answer is kept. The
sums are folded from the entries, so they are cumulative over every crash and resume. A call that
began in a process that is gone and never ended is lost; one whose answer was never kept is too,
though its tokens are known. Money is exact decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from farm.core.generation import Usage

_MILLION: Final = Decimal(1_000_000)


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money for a million tokens; cached prompt tokens cost as `input` unless said otherwise.

    All are finite and not below zero; readers of price lists see to that.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None

    def charge(self, usage: Usage) -> Decimal | None:
        """Return what a call cost, None when its tokens were not told."""
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        rate = self.input if self.cached is None else self.cached
        whole = (
            (usage.prompt_tokens - cached) * self.input
            + cached * rate
            + usage.completion_tokens * self.output
        )
        return whole / _MILLION


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price list of a run."""

    currency: str = "USD"
    models: dict[str, Price] = {}


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag_field="entry", tag="opened"):
    """A process opened the ledger: its name in later entries, and which process it is."""

    process: str
    incarnation: str
    currency: str = "USD"  # of the money in its entries
    # by model id; earlier calls that had no price are charged by these, once
    prices: dict[str, Price] | msgspec.UnsetType = msgspec.UNSET


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag_field="entry", tag="begun"):
    """A call is about to be made; numbers count within a process."""

    process: str
    call: int
    model: str
    digest: str
    attempt: int


class Ended(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="entry",
    tag="ended",
):
    """A call ended: answered, failed with a kind, or given up."""

    process: str
    call: int
    how: str  # "answered", "given_up", or a failure kind
    usage: Usage | None = None
    money: Decimal | None = None


class Kept(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="entry",
    tag="kept",
):
    """The answer to a request is durable; `another` says that it is not that of our call."""

    digest: str
    another: bool = False


Entry = Opened | Begun | Ended | Kept


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What one model, or all, have cost so far.

    calls = answered + failed + given_up + lost + in_flight. `wasted` counts the calls that
    were made for nothing: lost, given up, answered and then not kept by a process that died, or
    answered when another run's answer was kept already.
    Token counts are sums of what was told; `unmetered` answers told nothing. `money` is the sum
    of what had a price, `unpriced` the answers that had none.
    """

    calls: int = 0
    answered: int = 0
    failed: int = 0
    given_up: int = 0
    lost: int = 0
    in_flight: int = 0
    wasted: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    unmetered: int = 0
    money: Decimal = Decimal(0)
    unpriced: int = 0


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a budget looks at; a sum is None when it is not known.

    `unmetered` is a model that told too little of its tokens, `unpriced` one that is not in the
    price list, "" where there is none.
    """

    tokens: int | None
    money: Decimal | None
    unmetered: str = ""
    unpriced: str = ""


def total_spending(spendings: list[Spending]) -> Spending:
    """Sum over models."""
    sums = {
        field: sum((getattr(one, field) for one in spendings), start=type(default)(0))
        for field, default in msgspec.structs.asdict(Spending()).items()
    }
    return Spending(**sums)


class CostFold:
    """Folds entries, in the order of the ledger, into sums.

    A call that had no price when it was made is charged by the first that the ledger tells of
    its model. The ledger alone decides, so a budget and a report count alike.
    """

    def __init__(self) -> None:
        self._prices: dict[str, Price] = {}
        self._bare: dict[str, _Bare] = {}  # by model
        self._incarnations: dict[str, str] = {}  # process -> incarnation
        self._open: dict[tuple[str, int], Begun] = {}
        self._unkept: dict[str, tuple[Begun, int]] = {}  # digest -> last answered call, how many
        self._sums: dict[str, _Sums] = {}
        self._tokens = 0
        self._money = Decimal(0)
        self._tokenless = ""  # the first model that did not tell its tokens

    @property
    def spent(self) -> Spent:
        """What a budget looks at."""
        bare = [model for model, calls in self._bare.items() if calls.answered or calls.untold]
        unpriced = next((model for model in bare if model not in self._prices), "")
        uncharged = next((model for model in bare if model in self._prices), "")
        return Spent(
            tokens=None if self._tokenless else self._tokens,
            money=None if bare else self._money,
            unmetered=self._tokenless or uncharged,
            unpriced=unpriced,
        )

    @property
    def charged(self) -> bool:
        """Whether any money was counted."""
        return bool(self._money)

    def awaits_keeping(self, digest: str) -> bool:
        """Whether an answer to this request came and is not known to be kept."""
        return digest in self._unkept

    def add(self, entry: Entry) -> None:
        """Take the next entry; one that answers to nothing is passed over."""
        if isinstance(entry, Begun):
            self._open[entry.process, entry.call] = entry
            sums = self._sums.setdefault(entry.model, _Sums())
            sums.calls += 1
            sums.retries += entry.attempt > 1
        elif isinstance(entry, Ended):
            begun = self._open.pop((entry.process, entry.call), None)
            if begun is not None:
                self._end(begun, entry)
        elif isinstance(entry, Kept):
            self._keep(entry.digest, another=entry.another)
        else:
            self._incarnations[entry.process] = entry.incarnation
            if entry.prices is not msgspec.UNSET:
                self._take_prices(entry.prices)

    def spending(self, *, gone: Callable[[str], bool]) -> dict[str, Spending]:
        """Sum up by model, in the order of names; `gone` says which incarnations are no more."""
        dead = {process for process, who in self._incarnations.items() if gone(who)}
        lost: dict[str, int] = {}
        in_flight: dict[str, int] = {}
        unkept: dict[str, int] = {}
        for begun in self._open.values():
            part = lost if begun.process in dead else in_flight
            part[begun.model] = part.get(begun.model, 0) + 1
        for begun, times in self._unkept.values():
            if begun.process in dead:
                unkept[begun.model] = unkept.get(begun.model, 0) + times
        return {
            model: sums.spending(
                lost=lost.get(model, 0),
                in_flight=in_flight.get(model, 0),
                unkept=unkept.get(model, 0),
            )
            for model, sums in sorted(self._sums.items())
        }

    def _take_prices(self, prices: Mapping[str, Price]) -> None:
        self._prices |= prices
        for model, price in prices.items():
            calls = self._bare.get(model)
            if calls is None:
                continue
            sums = self._sums[model]
            money = price.charge(calls.usage) or Decimal(0)
            sums.money += money
            sums.unpriced -= calls.answered
            self._money += money
            calls.charged()

    def _end(self, begun: Begun, ended: Ended) -> None:
        sums = self._sums[begun.model]
        if ended.usage is not None:
            sums.add_usage(ended.usage)
            self._tokens += ended.usage.total or 0
        money = ended.money
        price = self._prices.get(begun.model) if money is None else None
        if price is not None and ended.usage is not None:
            money = price.charge(ended.usage)
        if money is None:
            self._bare.setdefault(begun.model, _Bare()).add(ended)
        else:
            sums.money += money
            self._money += money
        if ended.how == "given_up":
            sums.given_up += 1
        elif ended.how == "answered":
            sums.answered += 1
            tokenless = ended.usage is None or ended.usage.total is None
            sums.unmetered += tokenless
            sums.unpriced += money is None
            if tokenless:
                self._tokenless = self._tokenless or begun.model
            _, before = self._unkept.get(begun.digest, (begun, 0))
            self._unkept[begun.digest] = begun, before + 1
        else:
            sums.failed += 1

    def _keep(self, digest: str, *, another: bool) -> None:
        """One call's answer is kept; any others for the same request were for nothing."""
        answered = self._unkept.pop(digest, None)
        if answered is None:
            return
        begun, times = answered
        sums = self._sums[begun.model]
        if not another:
            sums.surplus += times - 1
            return
        sums.surplus += 1
        if times > 1:  # of another process of this run, which has still to say whether it is kept
            self._unkept[digest] = begun, times - 1


class _Bare:
    """The calls of one model that have no price yet; a price is linear, so their sum has theirs."""

    def __init__(self) -> None:
        self.untold = 0  # answers whose tokens were not told, which no price can charge
        self.charged()

    def charged(self) -> None:
        """Begin anew: all that could be charged is."""
        self.answered = 0
        self._prompt = self._completion = self._cached = 0

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            cached_tokens=self._cached,
        )

    def add(self, ended: Ended) -> None:
        usage, answered = ended.usage, ended.how == "answered"
        if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
            self.untold += answered
            return
        self.answered += answered
        self._prompt += usage.prompt_tokens
        self._completion += usage.completion_tokens
        self._cached += min(usage.cached_tokens or 0, usage.prompt_tokens)


class _Sums:
    """The sums of one model, while they grow."""

    def __init__(self) -> None:
        self.calls = self.answered = self.failed = self.given_up = self.retries = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.cached_tokens = self.reasoning_tokens = 0
        self.unmetered = self.unpriced = 0
        self.surplus = 0  # answers bought beside the one that is kept
        self.money = Decimal(0)

    def add_usage(self, usage: Usage) -> None:
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0

    def spending(self, *, lost: int, in_flight: int, unkept: int) -> Spending:
        return Spending(
            calls=self.calls,
            answered=self.answered,
            failed=self.failed,
            given_up=self.given_up,
            lost=lost,
            in_flight=in_flight,
            wasted=lost + self.given_up + unkept + self.surplus,
            retries=self.retries,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            reasoning_tokens=self.reasoning_tokens,
            unmetered=self.unmetered,
            money=self.money,
            unpriced=self.unpriced,
        )
