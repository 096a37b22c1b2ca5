"""Do two configurations of one model answer the same, to the token: an audit of saved outputs.

The baseline is held against its own repeat first: what is not stable by itself cannot be blamed
on a draft. The audit reads files and says what differs and where; it names no cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from typing import Final, Literal

import msgspec

from farm.errors import Problem, SpecError
from farm.report.qualified import (
    AgainstBaseline,
    Audit,
    BaselineRepeat,
    DraftsAgreement,
    FirstDifference,
)

_SHOWN_PROBLEMS: Final = 100
_SHOWN_TEXT: Final = 24


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One saved output. `pass` tells repeats apart by number or word; as a boolean it is a verdict.

    Fields beyond these are passed over.
    """

    config: str
    request_id: str
    text: str
    template_sha256: str | None = None
    token_ids: tuple[int, ...] | None = None
    pass_: bool | int | str | None = msgspec.field(default=None, name="pass")


Key = tuple[str, str]  # request id, repeat
_DECODER: Final = msgspec.json.Decoder(Output)


def read_outputs(data: bytes, *, file: str) -> list[Output]:
    """Read JSON Lines; raises `SpecError` naming every line that is not an output."""
    found: list[Output] = []
    problems: list[Problem] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            found.append(_DECODER.decode(line))
        except msgspec.DecodeError as error:
            problems.append(Problem(file, f"line {number}", "", "bad_output", str(error)))
    if problems:
        raise SpecError(problems=problems[:_SHOWN_PROBLEMS], total=len(problems))
    if not found:
        raise SpecError(f"{file}: holds no output: one JSON object a line is expected")
    return found


def audit_outputs(outputs: Sequence[Output], *, baseline: str) -> Audit:
    """Audit saved outputs; raises `SpecError` when there is nothing of the baseline.

    A configuration named as the baseline with "repeat" behind it is the baseline's own repeat.
    """
    repeat_of = re.compile(re.escape(baseline) + r"[-_ .]?repeat.*")
    by_config = _grouped(
        [
            msgspec.structs.replace(output, config=baseline)
            if repeat_of.fullmatch(output.config)
            else output
            for output in outputs
        ]
    )
    if baseline not in by_config:
        raise SpecError(
            f"no output is of the configuration {baseline!r}: give --baseline, one of "
            + ", ".join(repr(name) for name in sorted(by_config))
        )
    base = by_config[baseline]
    repeat = _own_repeat(base)
    attributable = {"deterministic": True, "baseline_not_deterministic": False}.get(repeat.verdict)
    against = [
        _against(name, rows, base, attributable=attributable, repeated=_repeated(base))
        for name, rows in by_config.items()
        if name != baseline
    ]
    drafts = [name for name in by_config if name != baseline]
    return Audit(
        baseline=baseline,
        requests=len({request for request, _ in base}),
        baseline_repeat=repeat,
        against_baseline=tuple(against),
        between_drafts=tuple(
            _between(one, other, by_config, base) for one, other in combinations(drafts, 2)
        ),
        follow_up=_follow_up(against, drafts),
        notes=(
            "the evidence does not name a cause: a changed greedy token near a tie can follow "
            "floating-point differences of batches, and a fault of state or verification can "
            "cause the same",
            "acceptance of drafts says nothing of the exactness of verification",
        ),
    )


def first_difference(one: Output, other: Output, key: Key) -> FirstDifference | None:
    """Return where two outputs part, None when they are the same.

    Compared by token when both have token ids, else by character.
    """
    if one.token_ids is not None and other.token_ids is not None:
        left, right = one.token_ids, other.token_ids
        place = _parting(left, right)
        shown = [str(side[place]) if place < len(side) else "" for side in (left, right)]
        lengths, unit = (len(left), len(right)), "token"
    else:
        place = _parting(one.text, other.text)
        shown = [side[place : place + _SHOWN_TEXT] for side in (one.text, other.text)]
        lengths, unit = (len(one.text), len(other.text)), "character"
    if lengths[0] == lengths[1] == place:
        return None
    return FirstDifference(
        request_id=key[0],
        repeat=key[1],
        unit="token" if unit == "token" else "character",
        position=place,
        one_ends=place == min(lengths),
        baseline=shown[0],
        other=shown[1],
    )


def _parting(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how long the common beginning is."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def _grouped(outputs: Sequence[Output]) -> dict[str, dict[Key, Output]]:
    """Group by configuration; repeats are told apart by `pass`, else by their order."""
    found: dict[str, dict[Key, Output]] = {}
    verdicts = all(isinstance(output.pass_, bool) or output.pass_ is None for output in outputs)
    for output in outputs:
        rows = found.setdefault(output.config, {})
        word = "0" if verdicts else str(output.pass_)
        repeat, again = word, 0
        while (output.request_id, repeat) in rows:
            again += 1
            repeat = str(again) if verdicts else f"{word}.{again}"
        rows[output.request_id, repeat] = output
    return found


def _own_repeat(base: Mapping[Key, Output]) -> BaselineRepeat:
    by_request: dict[str, list[tuple[Key, Output]]] = {}
    for key, output in base.items():
        by_request.setdefault(key[0], []).append((key, output))
    pairs = 0
    parted: list[FirstDifference] = []
    for rows in by_request.values():
        (_, first), *repeats = rows
        for key, again in repeats:
            pairs += 1
            difference = first_difference(first, again, key)
            if difference is not None:
                parted.append(difference)
    verdict: Literal["deterministic", "baseline_not_deterministic", "not_repeated"]
    verdict = "deterministic" if pairs else "not_repeated"
    if parted:
        verdict = "baseline_not_deterministic"
    return BaselineRepeat(
        pairs=pairs,
        identical=pairs - len(parted),
        verdict=verdict,
        first_differences=tuple(parted),
    )


def _repeated(base: Mapping[Key, Output]) -> Set[str]:
    """Give the requests that the baseline answered more than once."""
    return {request for request, often in Counter(key[0] for key in base).items() if often > 1}


def _partner(key: Key, base: Mapping[Key, Output]) -> Output | None:
    """Give the baseline's output of the same repeat, else its first of the same request."""
    if key in base:
        return base[key]
    return next((output for other, output in base.items() if other[0] == key[0]), None)


def _differences(
    rows: Mapping[Key, Output], base: Mapping[Key, Output]
) -> dict[Key, FirstDifference | None]:
    return {
        key: first_difference(partner, output, key)
        for key, output in rows.items()
        if (partner := _partner(key, base)) is not None
    }


def _against(
    name: str,
    rows: Mapping[Key, Output],
    base: Mapping[Key, Output],
    *,
    attributable: bool | None,
    repeated: Set[str],
) -> AgainstBaseline:
    found = _differences(rows, base)
    parted = [difference for difference in found.values() if difference is not None]
    mismatches = unknown = strangers = 0  # strangers: they differ, and so do their templates
    for key in found:
        partner = _partner(key, base)
        ours = rows[key].template_sha256
        theirs = None if partner is None else partner.template_sha256
        if ours is None or theirs is None:
            unknown += 1
        elif ours != theirs:
            mismatches += 1
            strangers += found[key] is not None
    if attributable and any(one.request_id not in repeated for one in parted):
        attributable = None  # of these requests nobody knows whether the baseline repeats itself
    return AgainstBaseline(
        config=name,
        pairs=len(found),
        identical=len(found) - len(parted),
        different=len(parted),
        first_differences=tuple(
            sorted(parted, key=lambda one: (one.position, one.request_id, one.repeat))
        ),
        template_mismatches=mismatches,
        templates_unknown=unknown,
        unpaired=len(rows) - len(found),
        attributable=False if strangers else attributable,
    )


def _between(
    one: str,
    other: str,
    by_config: Mapping[str, Mapping[Key, Output]],
    base: Mapping[Key, Output],
) -> DraftsAgreement:
    left, right = by_config[one], by_config[other]
    shared = [key for key in left if key in right]
    of_one, of_other = _differences(left, base), _differences(right, base)
    both = same = one_only = other_only = 0
    for key in shared:
        first, second = of_one.get(key), of_other.get(key)
        if first is not None and second is not None:
            both += 1
            same += (first.unit, first.position) == (second.unit, second.position)
        elif first is not None:
            one_only += 1
        elif second is not None:
            other_only += 1
    return DraftsAgreement(
        one=one,
        other=other,
        pairs=len(shared),
        identical=sum(first_difference(left[key], right[key], key) is None for key in shared),
        both_differ_from_baseline=both,
        same_first_difference=same,
        one_only=one_only,
        other_only=other_only,
    )


def _follow_up(against: Sequence[AgainstBaseline], drafts: Sequence[str]) -> tuple[str, ...]:
    parted = [one for row in against for one in row.first_differences]
    if not parted:
        return ()
    earliest = min(parted, key=lambda one: (one.position, one.request_id))
    both = f"both draft revisions ({', '.join(drafts)})" if len(drafts) > 1 else "the draft"
    return (
        "pin the hashes of binary, model and template, the sampler and the prompt's tokens",
        f"repeat the earliest divergence, {earliest.request_id}, with draft depth zero and four "
        "on the same binary",
        f"compare logits at {earliest.unit} {earliest.position} under the same forced prefix",
        "compare a decode of one token with the verification of several in one batch",
        "record the margin of the two highest logits, the recurrent state and the KV state",
        f"repeat with {both}, and with reuse of caches off",
        "test output limits and end-of-sequence apart from differences in content",
        "repeat the whole set once the controlled cases pass",
    )
