"""Stop a run that cannot go on, before it burns every case on the same failure.

A wrong key, a wrong address or a dead endpoint fails every call alike. After a few such calls
in a row, with no answer between them, the guard trips: from then on every call raises `Halted`
and the run ends as pending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from farm.adapters.protocol import Call, Pass, Tell
from farm.core.event import note
from farm.core.generation import STALE, Failure, Generation
from farm.errors import Halted

FATAL_TRIES: Final = 3
_DEAD_TRIES: Final = 3
REFUSED_TRIES: Final = 10
_WAYS_OUT: Final = {
    "denied": "check the key and the account, then run the same command again",
    "missing": "check base_url and model, then run the same command again",
    "stopped": "run the same command again",
    "invalid": "check the request settings and run the same command again, or add --accept-errors "
    "to report them as errors",
    "dead_endpoint": "start the endpoint or check base_url, then run the same command again",
}


class Guard:
    """Wraps a call with the memory of how the last ones ended.

    Trips after `FATAL_TRIES` fatal failures in a row, or when nothing but lost connections
    came for `patience_s` seconds, a quarter of that if the endpoint never answered at all. With
    `refusals_halt` also when the first `REFUSED_TRIES` requests were all called invalid: then it
    is a setting that is, and not a prompt.
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
    ) -> None:
        self._send = send
        self._model = model
        self._patience_s = patience_s
        self._tell = tell
        self._clock = clock
        self._fatal = 0
        self._lost = 0
        self._lost_since = 0.0
        self._ever_answered = False
        self._refusals_halt = refusals_halt
        self._refused = 0
        self._reason = ""  # why it tripped, a key of _WAYS_OUT
        self._detail = ""

    def halt(self) -> None:
        """Refuse every further call, because the run is to end."""
        if not self._reason:
            self._reason, self._detail = "stopped", "the run is ending"

    async def __call__(self, call: Call) -> Generation:
        """Call unless the guard has tripped; raises `Halted` when it has, or trips now.

        An answer is given also when the guard has tripped while it was on its way.
        """
        self._refuse_if_halted()
        generation = await self._send(call)
        if STALE not in generation.warnings:
            self._observe(generation.failure)
        if generation.failure is not None:  # an answer that came after all is paid for, and kept
            self._refuse_if_halted()
        return generation

    def _refuse_if_halted(self) -> None:
        if self._reason:
            raise Halted(
                reason=self._reason,
                model=self._model,
                detail=self._detail,
                way_out=_WAYS_OUT[self._reason],
            )

    def _observe(self, failure: Failure | None) -> None:
        if failure is None or not (failure.fatal or failure.kind == "connection"):
            # also a failure that an endpoint took the trouble to give shows that it lives
            self._fatal = self._lost = 0
            self._ever_answered = self._ever_answered or failure is None
            if failure is not None and failure.kind == "invalid":
                self._refuse(failure)
            return
        if failure.fatal:
            self._fatal += 1
            self._lost = 0
            if self._fatal >= FATAL_TRIES:
                self._trip(failure.kind, failure.detail)
            return
        now = self._clock()
        if self._lost == 0:
            self._lost_since = now
        self._lost += 1
        patience = self._patience_s if self._ever_answered else self._patience_s / 4
        if self._lost >= _DEAD_TRIES and now - self._lost_since >= patience:
            self._trip("dead_endpoint", failure.detail)

    def _refuse(self, failure: Failure) -> None:
        self._refused += 1
        if self._refusals_halt and not self._ever_answered and self._refused >= REFUSED_TRIES:
            self._trip(
                failure.kind, f"all of {self._refused} requests are refused: {failure.detail}"
            )

    def _trip(self, reason: str, detail: str) -> None:
        if not self._reason:
            self._reason, self._detail = reason, detail
            self._tell(note("endpoint.halted", model=self._model, reason=reason, detail=detail))
