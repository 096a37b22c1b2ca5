"""How many calls at a time, and how many a minute: the rules, with the time passed in.

Concurrency grows by one for each round of calls that used all of it and went well, and is cut
when the endpoint says that it is too much. Calls that began before a cut do not cut again: they
tell of the load that was.
"""

from __future__ import annotations

_CUT = 0.7


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, between 1 and `highest`."""

    def __init__(self, *, highest: int, adaptive: bool = True) -> None:
        self._highest = highest
        self._adaptive = adaptive
        self._set(float(min(highest, 8) if adaptive else highest))
        self._doubling = True  # until the first cut
        self._cut_at = float("-inf")

    def _set(self, value: float) -> None:
        self._value = value
        self.value = max(1, int(value))  # how many calls may be in flight

    def succeeded(self, *, saturated: bool) -> None:
        """Count a call that went well; only one made at full use says that more may be borne."""
        if self._adaptive and saturated and self._value < self._highest:
            step = 1.0 if self._doubling else 1.0 / self._value
            self._set(min(float(self._highest), self._value + step))

    def overloaded(self, *, began: float, now: float) -> bool:
        """Cut after a call begun at `began` was refused for load; return whether it was."""
        if not self._adaptive or began < self._cut_at:
            return False
        self._doubling = False
        self._cut_at = now
        before = self.value
        self._set(max(1.0, self._value * _CUT))
        return self.value < before


class Bucket:
    """A rate: `per_minute` units, at most `burst` of them at once.

    Taking more than is there leaves a debt, and gives the seconds until it is paid: every taker
    goes at the moment of its own turn, in the order of taking.
    """

    def __init__(self, *, per_minute: float, burst: float, now: float) -> None:
        self._rate = per_minute / 60
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, amount: float, *, now: float) -> float:
        """Take an amount; return the seconds to wait until it is due."""
        self._refill(now)
        self._level -= amount
        return max(0.0, -self._level / self._rate)

    def give_back(self, amount: float, *, now: float) -> None:
        """Return what was taken and not used; a negative amount takes what was used beside it."""
        self._refill(now)
        self._level = min(self._burst, self._level + amount)

    def _refill(self, now: float) -> None:
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)
