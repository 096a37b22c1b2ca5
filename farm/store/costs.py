"""The cost ledger of a run on disk: a file of entries that only grows, one JSON line each.

An entry is handed to the kernel before the call it tells of is made, so a killed process leaves
the calls it had in flight behind as begun and never ended. What is told of calls that ended is
written with the next that begins, at the latest at the end of the event loop's turn. Lines are
synced by `sync` and `close`; a power cut can take what came after, and never an answer
(farm.store.cache has those). Several processes may append at once. The sums are the business of
farm.core.cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import Final

import msgspec

from farm.core.cost import (
    Begun,
    CostFold,
    Ended,
    Entry,
    Kept,
    Opened,
    Price,
    Prices,
    Spending,
    Spent,
)
from farm.core.generation import Generation, Request
from farm.errors import Corrupt, SpecError, StorageError
from farm.files.atomic import full_sync, open_written, storage_error, storage_errors, write_fully
from farm.files.incarnation import current_incarnation, is_gone

_DIGEST_LENGTH: Final = 16  # hex digits; enough to tell the requests of one run apart
_BLOCK: Final = 1024 * 1024


class CostLedger:
    """Appends to `path` and sums up what all processes of the run have appended so far.

    `price_names` maps model ids to names in the price list. Opening reads the whole file and
    raises `Corrupt` for a line that is no entry; a line that was cut short by a kill or a power
    cut is passed over. Every method may raise `StorageError`; after a write that failed the
    ledger refuses all further ones.
    """

    def __init__(
        self, path: str, *, prices: Prices, price_names: dict[str, str] | None = None
    ) -> None:
        self.path = path
        self._prices = prices
        self._price_names = price_names or {}
        self._process = secrets.token_hex(4)
        self._calls = 0
        self._models: dict[int, tuple[str, str]] = {}  # call -> model, digest; of calls out now
        self._unkept: set[str] = set()  # requests that were answered to this process
        self._gathered: list[bytes] = []  # lines that are to be written by the end of this turn
        self._turn_is_ending = False  # whether somebody will see to that
        self._broken = ""
        with storage_errors(path):
            self._fd = open_written(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._entries = _Entries(path, self._fd, CostFold())
        self._entries.catch_up()
        self._check_currency()
        torn = self._entries.offset < os.fstat(self._fd).st_size
        opened = Opened(
            process=self._process,
            incarnation=current_incarnation(),
            currency=prices.currency,
            prices=self._known_prices() or msgspec.UNSET,
        )
        self._gather(opened, after=b"\n" if torn else b"")
        self._flush()

    @property
    def currency(self) -> str:
        """What money is counted in."""
        return self._prices.currency

    def begin(self, request: Request, *, digest: str, attempt: int) -> int:
        """Write down that a call is about to be made; attempts count from 1.

        The kernel has the entry, and all before it, when this returns.
        """
        self._calls += 1
        self._models[self._calls] = request.model_id, digest
        begun = Begun(
            process=self._process,
            call=self._calls,
            model=request.model_id,
            digest=digest[:_DIGEST_LENGTH],
            attempt=attempt,
        )
        self._gather(begun)
        self._flush()
        return self._calls

    def settle(self, call: int, generation: Generation | None) -> None:
        """Write down how a call ended; None is a call that was given up."""
        model, digest = self._models.pop(call)
        usage = None if generation is None else generation.usage
        price = self._price_of(model)
        if generation is None:
            how = "given_up"
        else:
            how = "answered" if generation.failure is None else generation.failure.kind
        ended = Ended(
            process=self._process,
            call=call,
            how=how,
            usage=usage,
            money=None if usage is None or price is None else price.charge(usage),
        )
        self._append(ended)
        if how == "answered":
            self._unkept.add(digest[:_DIGEST_LENGTH])

    def kept(self, digest: str, *, another: bool = False) -> None:
        """Write down that an answer is durable, if a call for it was answered and is not kept.

        `another` says that it is the answer of somebody else, so the call was for nothing.
        """
        short = digest[:_DIGEST_LENGTH]
        # what earlier processes left is known since this one opened the ledger
        if short in self._unkept or self._entries.fold.awaits_keeping(short):
            self._unkept.discard(short)
            self._append(Kept(digest=short, another=another))

    def spent(self) -> Spent:
        """Sum up tokens and money, over all processes and resumes.

        `unpriced` is the name that is not in the price list.
        """
        self._flush()
        self._entries.catch_up()
        spent = self._entries.fold.spent
        return msgspec.structs.replace(spent, unpriced=self._price_name(spent.unpriced))

    def spending(self) -> dict[str, Spending]:
        """Sum up everything, by model."""
        self._flush()
        self._entries.catch_up()
        return self._entries.fold.spending(gone=is_gone)

    def sync(self) -> None:
        """Make all entries that were written durable; blocks, and may be called in any thread."""
        with storage_errors(self.path):
            full_sync(self._fd)

    def close(self) -> None:
        """Make the entries durable and close the file."""
        if self._fd >= 0:
            try:
                self._flush()
                self.sync()
            finally:
                os.close(self._fd)
                self._fd = -1

    def _price_name(self, model: str) -> str:
        return self._price_names.get(model, model)

    def _known_prices(self) -> dict[str, Price]:
        """Give the prices of the run's models, by model id."""
        names = self._price_names or {name: name for name in self._prices.models}
        found = {model: self._prices.models.get(name) for model, name in names.items()}
        return {model: price for model, price in found.items() if price is not None}

    def _price_of(self, model: str) -> Price | None:
        return self._prices.models.get(self._price_name(model))

    def _append(self, entry: Entry) -> None:
        """Write an entry by the end of this turn; without an event loop at once."""
        self._gather(entry)
        if self._turn_is_ending:
            return
        try:
            asyncio.get_running_loop().call_soon(self._end_turn)
        except RuntimeError:  # no loop: nobody to gather with
            self._flush()
        else:
            self._turn_is_ending = True

    def _gather(self, entry: Entry, *, after: bytes = b"") -> None:
        if self._broken:
            raise StorageError(path=self.path, reason=self._broken)
        self._gathered.append(after + _encoder.encode(entry) + b"\n")

    def _end_turn(self) -> None:
        self._turn_is_ending = False
        with contextlib.suppress(StorageError):  # nobody is here to be told: the next entry is
            self._flush()

    def _flush(self) -> None:
        lines, self._gathered = b"".join(self._gathered), []
        if not lines:
            return
        try:
            write_fully(self._fd, lines)
        except OSError as error:
            broken = storage_error(self.path, error)
            self._broken = str(broken)
            raise broken from error

    def _check_currency(self) -> None:
        before = self._entries.currency
        if self._entries.charged and before != self._prices.currency:
            raise SpecError(
                f"{self.path}: money was counted in {before} so far, the price list is in "
                f"{self._prices.currency}: give the list of before"
            )


def read_spending(path: str) -> tuple[dict[str, Spending], str]:
    """Sum up a ledger without adding to it, by model; give the currency of its money as well."""
    with storage_errors(path), open(open_written(path), "rb", buffering=0) as file:
        entries = _Entries(path, file.fileno(), CostFold())
        entries.catch_up()
    return entries.fold.spending(gone=is_gone), entries.currency


class _Entries:
    """The entries of a ledger, folded as far as they were read."""

    def __init__(self, path: str, fd: int, fold: CostFold) -> None:
        self.fold = fold
        self.charged = False  # whether money was counted when it was spent
        self.currency = "USD"
        self.offset = 0
        self._path = path
        self._fd = fd
        self._line = 0
        self._suspect = 0  # the number of a line that is no entry, until the next one is seen

    def catch_up(self) -> None:
        """Fold the whole lines that were appended since the last time, by whomever."""
        rest = b""
        while True:
            with storage_errors(self._path):
                block = os.pread(self._fd, _BLOCK, self.offset + len(rest))
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._line += 1
                self.offset += len(line) + 1
                if line:
                    self._take(line)
            if len(block) < _BLOCK:
                return

    def _take(self, line: bytes) -> None:
        try:
            entry = _decoder.decode(line)
        except msgspec.DecodeError:
            if self._suspect:
                raise self._corrupt() from None
            self._suspect = self._line
            return
        if self._suspect and not isinstance(entry, Opened):
            raise self._corrupt()
        self._suspect = 0  # whoever opened next found a line that was cut short, and ended it
        if isinstance(entry, Opened):
            self.currency = entry.currency
        self.fold.add(entry)
        self.charged = self.charged or self.fold.charged

    def _corrupt(self) -> Corrupt:
        return Corrupt(path=self._path, reason=f"line {self._suspect} is not an entry")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)
