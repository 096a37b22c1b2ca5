"""The drawings of the report page, as inline SVG: no script, no library, readable in print.

Every drawing has a text alternative with its figures; colours come from the page's sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from farm.core.result import OUTCOMES
from farm.report.text import count, share, span
from farm.stats.calibration import CalibrationReport, ReliabilityBin

_PLOT = 220.0  # side of the reliability diagram
_EDGE = 30.0  # room for its axis figures


def interval_bar(
    mean: float | None, lo: float | None, hi: float | None, *, scale: tuple[float, float]
) -> str:
    """Return a dot at the mean on a line from lo to hi, on the scale all rows share."""
    if mean is None:
        return ""
    low, high = scale
    width, height, pad = 230.0, 22.0, 7.0

    def x(value: float) -> str:
        inside = (value - low) / (high - low) if high > low else 0.5
        return f"{pad + inside * (width - 2 * pad):.1f}"

    label = f"mean {share(mean)}, interval {span(lo, hi)}"
    whisker = ""
    if lo is not None and hi is not None:
        whisker = f'<line class="reach" x1="{x(lo)}" x2="{x(hi)}" y1="11" y2="11"/>'
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{width:.0f}" height="{height:.0f}">'
        f'<line class="axis" x1="{x(low)}" x2="{x(high)}" y1="11" y2="11"/>'
        f'{whisker}<circle class="dot" cx="{x(mean)}" cy="11" r="4.5"/></svg>'
    )


def common_scale(ends: Sequence[float]) -> tuple[float, float]:
    """Return the tenths that enclose every end; (0, 1) when there is none."""
    if not ends:
        return 0.0, 1.0
    low, high = math.floor(min(ends) * 10) / 10, math.ceil(max(ends) * 10) / 10
    return (low, high) if high > low else (0.0, 1.0)


def reliability_diagram(report: CalibrationReport) -> str:
    """Return accuracy against confidence: a dot a bin, larger with more cases, Wilson's bar."""
    largest = max((one.count for one in report.bins), default=1)
    marks = "".join(_bin_mark(one, largest=largest) for one in report.bins)
    label = "; ".join(
        f"confidence {one.mean_confidence:.2f}, accuracy {one.accuracy:.2f}, "
        f"{count(one.count, 'case')}"
        for one in report.bins
    )
    side = _PLOT + _EDGE
    ticks = "".join(
        f'<text x="{_EDGE + tick * _PLOT:.0f}" y="{_PLOT + 20:.0f}" text-anchor="{anchor}">'
        f'{tick:g}</text><text x="{_EDGE - 6:.0f}" y="{_y(tick) + 4:.0f}" text-anchor="end">'
        f"{tick:g}</text>"
        for tick, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    )
    return (
        f'<svg role="img" aria-label="{escape(label or "no confidences")}" '
        # the largest dot may stand on an edge, and must not be cut there
        f'viewBox="0 -6 {side + 10:.0f} {side + 16:.0f}" width="{side:.0f}">'
        f'<rect class="frame" x="{_EDGE:.0f}" y="4" width="{_PLOT:.0f}" height="{_PLOT:.0f}"/>'
        f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>'
        f"{marks}{ticks}"
        f'<text x="{_EDGE + _PLOT / 2:.0f}" y="{side + 6:.0f}" text-anchor="middle">'
        "confidence</text></svg>"
    )


def _x(value: float) -> float:
    return round(_EDGE + value * _PLOT, 1)


def _y(value: float) -> float:
    return round(4 + (1.0 - value) * _PLOT, 1)


def _bin_mark(one: ReliabilityBin, *, largest: int) -> str:
    radius = 3.5 + 5.0 * (one.count / largest) ** 0.5
    at = _x(one.mean_confidence)
    top, bottom = sorted((_y(one.accuracy), _y(one.mean_confidence)))
    note = (
        f"{one.lo:g} to {one.hi:g}: {count(one.count, 'case')}, "
        f"confidence {one.mean_confidence:.3f}, accuracy {one.accuracy:.3f}"
    )
    return (
        f"<g><title>{escape(note)}</title>"
        f'<rect class="gap" x="{_x(one.lo)}" y="{top}" width="{_PLOT / 10:.1f}" '
        f'height="{bottom - top:.1f}"/>'
        f'<line class="whisker" x1="{at}" x2="{at}" y1="{_y(one.accuracy_lo)}" '
        f'y2="{_y(one.accuracy_hi)}"/>'
        f'<circle class="dot" cx="{at}" cy="{_y(one.accuracy)}" r="{radius:.1f}"/></g>'
    )


def outcome_bar(counts: Mapping[str, int]) -> str:
    """Return one bar split by outcome, in the order of the vocabulary."""
    total = sum(counts.values())
    if total == 0:
        return ""
    parts, at = [], 0.0
    for name, number in counts.items():
        if not number:
            continue
        width = 1000.0 * number / total
        note = f"{name}: {number:,} ({number / total:.1%})"
        parts.append(
            f'<rect class="{outcome_class(name)}" x="{at:.2f}" y="0" width="{width:.2f}" '
            f'height="16"><title>{escape(note)}</title></rect>'
        )
        at += width
    label = ", ".join(f"{name} {number:,}" for name, number in counts.items() if number)
    return (
        f'<svg class="bars" role="img" aria-label="{escape(label)}" viewBox="0 0 1000 16" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def outcome_class(name: str) -> str:
    """Return the sheet's class of an outcome; unknown names share one, so none can be made up."""
    return f"o-{name}" if name in OUTCOMES else "o-other"


def share_bar(value: float | None) -> str:
    """Return a small horizontal bar of a share."""
    if value is None:
        return ""
    return (
        '<svg aria-hidden="true" width="90" height="6" viewBox="0 0 90 6">'
        '<rect class="rail" width="90" height="6" rx="3"/>'
        f'<rect class="fill" width="{90 * value:.1f}" height="6" rx="3"/></svg>'
    )
