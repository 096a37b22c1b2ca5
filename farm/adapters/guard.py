"""Stop a run that cannot go on, before it burns every case on the same failure.

A wrong key, a wrong address or a dead endpoint fails every call alike. After a few such calls
in a row, with no answer between them, the guard trips: from then on every call raises `Halted`
and the run ends as pending. So it does when the endpoint asks to come back later than a case may
take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from farm.adapters.protocol import Call, Pass, Tell
from farm.core.event import note
from farm.core.generation import STALE, Failure, Generation
from farm.errors import Halted

FATAL_TRIES: Final = 3
_DEAD_TRIES: Final = 3
REFUSED_TRIES: Final = 10
# what a dead server gives by itself, or a gateway before it; a prompt may bring it about as well
_SILENT: Final = frozenset({"timeout", "server", "cut", "malformed", "program"})
_WAYS_OUT: Final = {
    "denied": "check the key and the account, then run the same command again",
    "missing": "check base_url and model; if they are right run the same command again",
    "paused": "run the same command again then",
    "stopped": "run the same command again",
    "invalid": "check the request settings; if they are right run the same command again with "
    "--accept-errors, which reports these as errors",
    "dead_endpoint": "start the endpoint or check base_url, then run the same command again",
}
# a store is bound to what decides on its answers, so what these make one change needs another
_SETTINGS_WRONG: Final = frozenset({"missing", "invalid", "dead_endpoint"})
_NO_PROGRAM: Final = "check the program in argv; if it is right run the same command again"
_NO_ANSWERS: Final = (
    "look after the endpoint, or raise patience_s if it is only slow, then run the same command "
    "again"
)


class Guard:
    """Wraps a call with the memory of how the last ones ended.

    Trips after `FATAL_TRIES` fatal failures in a row, or when nothing but lost connections
    came for `patience_s` seconds, a quarter of that if the endpoint never answered at all. So
    too when nothing came but server errors, timeouts and broken answers; but as single prompts
    may bring these about, and a slow answer may be on its way, they must have met three different
    requests, and all that was out when the first of them came must have ended. With
    `refusals_halt` it also trips when the first `REFUSED_TRIES` requests all failed for good:
    then it is a setting that is wrong, and not a prompt. `longest_wait_s` is what a call can wait
    for; `now` gives the time of day, in seconds since the epoch; `kept_in` is the file of the
    answers, which a run with other settings can go on from, "" where there is none.
    """

    def __init__(
        self,
        send: Pass,
        *,
        model: str,
        patience_s: float,
        tell: Tell,
        clock: Callable[[], float],
        refusals_halt: bool = False,
        longest_wait_s: float = float("inf"),
        now: Callable[[], float] = time.time,
        kept_in: str = "",
    ) -> None:
        self._send = send
        self._model = model
        self._patience_s = patience_s
        self._tell = tell
        self._clock = clock
        self._fatal = 0
        self._longest_wait_s = longest_wait_s
        self._now = now
        self._kept_in = kept_in
        self._lost = 0  # of the series: connections that were lost in it
        self._silent: set[str] = set()  # of the series: requests that met another kind of silence
        self._series = 0  # the number of the last series of failures without an answer
        self._since = 0.0  # when it began
        self._out = 0  # calls that are out
        self._older = 0  # of these, begun before the series
        self._ever_answered = False
        self._refusals_halt = refusals_halt
        self._refused = 0
        self._reason = ""  # why it tripped, a key of _WAYS_OUT
        self._detail = ""
        self._way_out = ""

    def halt(self) -> None:
        """Refuse every further call, because the run is to end."""
        if not self._reason:
            self._reason, self._detail = "stopped", "the run is ending"
            self._way_out = _WAYS_OUT["stopped"]

    async def __call__(self, call: Call) -> Generation:
        """Call unless the guard has tripped; raises `Halted` when it has, or trips now.

        An answer is given also when the guard has tripped while it was on its way.
        """
        self._refuse_if_halted()
        series = self._series
        self._out += 1
        try:
            generation = await self._send(call)
        finally:
            self._out -= 1
            self._older -= series != self._series
        if STALE not in generation.warnings:
            self._observe(call, generation.failure)
        if generation.failure is not None:  # an answer that came after all is paid for, and kept
            self._refuse_if_halted()
        return generation

    def _refuse_if_halted(self) -> None:
        if self._reason:
            raise Halted(
                reason=self._reason,
                model=self._model,
                detail=self._detail,
                way_out=self._way_out,
            )

    def _observe(self, call: Call, failure: Failure | None) -> None:
        if failure is None:
            self._ever_answered = True
            self._end_series()
        elif failure.fatal:
            self._lost = 0
            self._silent.clear()
            self._fatal += 1
            if self._fatal >= FATAL_TRIES:
                # only what is asked over a network has an address
                no_program = failure.kind == "missing" and not call.request.base_url
                self._trip(failure.kind, failure.detail, way_out=_NO_PROGRAM if no_program else "")
        elif failure.kind == "connection" or failure.kind in _SILENT:
            self._miss(call, failure)
        else:
            # a failure that an endpoint took the trouble to give shows that it lives
            self._end_series()
            if failure.final:
                self._refuse(failure)
            elif (failure.retry_after_s or 0.0) >= self._longest_wait_s:
                when = self._when(failure.retry_after_s or 0.0)
                self._trip("paused", f"{failure.detail}; it asks to come back {when}")

    def _end_series(self) -> None:
        self._fatal = self._lost = 0
        if self._silent:
            self._silent.clear()

    def _miss(self, call: Call, failure: Failure) -> None:
        """Count what came in place of an answer, and trip when nothing else came for too long."""
        now = self._clock()
        if not self._lost and not self._silent:
            self._series += 1
            self._since, self._older = now, self._out
        if failure.kind == "connection":
            self._lost += 1
        else:
            self._fatal = 0
            self._silent.add(call.digest)
        patience = self._patience_s if self._ever_answered else self._patience_s / 4
        if now - self._since < patience or self._lost + len(self._silent) < _DEAD_TRIES:
            return
        if not self._silent:
            self._trip("dead_endpoint", failure.detail)
        elif self._older <= 0:
            detail = f"no answer came for {now - self._since:.3g} s: {failure.detail}"
            self._trip("dead_endpoint", detail, way_out=_NO_ANSWERS)

    def _when(self, wait_s: float) -> str:
        try:
            moment = datetime.fromtimestamp(self._now() + wait_s, tz=UTC)
        except (ValueError, OverflowError):  # beyond all calendars
            return f"in {wait_s:.0f} s"
        return f"at {moment:%Y-%m-%dT%H:%M:%SZ}"

    def _refuse(self, failure: Failure) -> None:
        """Count a request that can never be answered."""
        self._refused += 1
        if self._refusals_halt and not self._ever_answered and self._refused >= REFUSED_TRIES:
            self._trip("invalid", f"all of {self._refused} requests are refused: {failure.detail}")

    def _trip(self, reason: str, detail: str, *, way_out: str = "") -> None:
        if not self._reason:
            self._reason, self._detail = reason, detail
            self._way_out = way_out or _WAYS_OUT[reason]
            if reason in _SETTINGS_WRONG and self._kept_in:
                changed = "argv" if way_out == _NO_PROGRAM else "base_url, model or request"
                self._way_out += (
                    f"; another {changed} needs a new --store, with --cache {self._kept_in!r} "
                    "to buy nothing twice"
                )
            self._tell(note("endpoint.halted", model=self._model, reason=reason, detail=detail))
