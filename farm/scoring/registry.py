"""The closed vocabulary of metrics: a name stands for one versioned scorer.

A scorer's module is loaded by the first use of its name. Workers start through this module
hundreds of times in a run, and most runs use one scorer: so it imports nothing that costs
start-up time, and the imports of scorers stand inside the functions that make them.

What a metric computes is in its own module; what a score means for a case is in
farm.scoring.score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from farm.core.vocabulary import METRICS, tolerance_of
from farm.errors import SpecError

DEFAULT: Final = "normalized_match"  # of recorded predictions
GROUP: Final = "farm.scorers"  # the entry-point group of plugins

ScoreFunction = Callable[[str, Sequence[str]], float]
BatchFunction = Callable[[Sequence[str], Sequence[Sequence[str]]], list[float]]


class Scorer(msgspec.Struct, frozen=True, kw_only=True):
    """A named, versioned rule from a prediction and its targets to a score in [0, 1].

    Name and version are part of a run's identity: a version changes whenever any score
    could. A `graded` scorer says how good an answer is, the others say 0 or 1. `needs`
    names what the function cannot do without: "sandbox" means that texts alone cannot be
    scored, and that scores are shares of assertions of which only all are right. `judges` says
    whether a target is one this metric can judge (none of a case's targets: the case is
    unscorable), `reads` whether it finds an answer in a response (no: the case is unparsed);
    without them every text will do. `many` scores a batch, and stands only where it is faster
    than calling `function` for each pair; a run, which judges cases, asks it of farm's own alone.
    """

    name: str
    version: str
    function: ScoreFunction
    higher_is_better: bool = True
    graded: bool = False
    needs: tuple[str, ...] = ()
    judges: Callable[[str], bool] | None = None
    reads: Callable[[str], bool] | None = None
    many: BatchFunction | None = None

    @property
    def runs_programs(self) -> bool:
        """Whether a case's response is run, by `farm.scoring.programs`."""
        return "sandbox" in self.needs

    @property
    def fractional(self) -> bool:
        """Whether a score may lie between 0 and 1; a plugin's may, whatever it says."""
        return self.graded or self.runs_programs or self.foreign

    @property
    def foreign(self) -> bool:
        """Whether it is a plugin's, so that its functions may do anything."""
        return self.name.partition("@")[0] not in METRICS


def scorer(name: str) -> Scorer:
    """Return the scorer of this name: one of farm's own, or else a plugin's.

    ``number@0.01`` is `number` with a relative tolerance, ``code_exec@10s,allow`` gives programs
    ten seconds and any import. Raises SpecError for a name that
    nobody provides, listing those that are; plugins cannot take a name of farm's own.
    """
    known = _LOADED.get(name)
    if known is None:
        make = _MAKERS.get(name)
        if make is not None:
            known = make()
        elif name.startswith("number@"):
            known = _number_within(name)
        elif name.startswith("code_exec@"):
            known = _code_exec_by(name)
        else:
            known = _plugin(name)
        _LOADED[name] = known
    return known


def check_more_is_better(name: str) -> None:
    """Refuse a scorer of which less is better; raises `SpecError`, also for an unknown name.

    For whoever ranks or compares scores: there the worst would come first.
    """
    if not scorer(name).higher_is_better:
        raise SpecError(
            f"metric {name!r} gives the better answer the lower score, and runs are ranked, "
            "compared and gated by more is better: register it to give 1 - score, as a new "
            "version, and score the run again with `farm rescore`"
        )


def scorer_names() -> tuple[str, ...]:
    """Return every name `scorer` knows: farm's own in fixed order, then plugins, sorted."""
    return METRICS + tuple(sorted(_plugin_names() - set(METRICS)))


def _plugin_names() -> set[str]:
    # only for plugins and for messages: the import alone costs as much as a small run
    from importlib.metadata import entry_points

    return {point.name for point in entry_points(group=GROUP)}


def _plugin(name: str) -> Scorer:
    from importlib.metadata import entry_points

    own = name.partition("@")[0] in METRICS  # such a name says how its scores are to be taken
    points = [] if own else [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        raise SpecError(
            f"metric {name!r} is not known; the metrics are {', '.join(scorer_names())}"
        )
    try:
        loaded = points[0].load()
    except MemoryError:
        raise
    # a plugin is foreign code: its import may raise anything, even an exit
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"metric {name!r} is provided by {points[0].value!r}, which cannot be loaded: "
            f"{type(error).__name__} {str(error)!r}; "
            "reinstall or remove the plugin"
        ) from error
    if not isinstance(loaded, Scorer) or loaded.name != name:
        raise SpecError(
            f"metric {name!r} is provided by {points[0].value!r}, which is no Scorer of that name; "
            "mend or remove the plugin"
        )
    return loaded


def _exact_match() -> Scorer:
    from farm.scoring.match import exact_match, exact_match_many

    return Scorer(name="exact_match", version="1", function=exact_match, many=exact_match_many)


def _accuracy() -> Scorer:
    from farm.scoring.match import accuracy, exact_match_many

    return Scorer(name="accuracy", version="1", function=accuracy, many=exact_match_many)


def _normalized_match() -> Scorer:
    from farm.scoring.match import normalized_match, normalized_match_many

    return Scorer(
        name="normalized_match",
        version="1",
        function=normalized_match,
        many=normalized_match_many,
    )


def _contains() -> Scorer:
    from farm.scoring.match import contains, is_not_blank

    return Scorer(name="contains", version="1", function=contains, judges=is_not_blank)


def _lenient_match() -> Scorer:
    from farm.scoring.lenient import lenient_match

    return Scorer(name="lenient_match", version="2", function=lenient_match)


def _f1() -> Scorer:
    from farm.scoring.overlap import f1
    from farm.scoring.tokens import has_tokens

    return Scorer(name="f1", version="1", function=f1, graded=True, judges=has_tokens)


def _bleu_4() -> Scorer:
    from farm.scoring.overlap import bleu_4
    from farm.scoring.tokens import has_tokens

    return Scorer(name="bleu_4", version="1", function=bleu_4, graded=True, judges=has_tokens)


def _rouge_l() -> Scorer:
    from farm.scoring.subsequence import rouge_l
    from farm.scoring.tokens import has_tokens

    return Scorer(name="rouge_l", version="1", function=rouge_l, graded=True, judges=has_tokens)


def _squad_em() -> Scorer:
    from farm.scoring.squad import squad_em

    return Scorer(name="squad_em", version="1", function=squad_em)


def _squad_f1() -> Scorer:
    from farm.scoring.squad import squad_f1

    return Scorer(name="squad_f1", version="1", function=squad_f1, graded=True)


def _number() -> Scorer:
    from farm.scoring.number import has_number, number

    return Scorer(name="number", version="2", function=number, judges=has_number, reads=has_number)


def _number_within(name: str) -> Scorer:
    from farm.scoring.number import has_number, within

    tolerance = tolerance_of(name)
    if tolerance is None:
        raise SpecError(
            f"metric {name!r} has no usable tolerance; give a number from 0 up to 1, "
            "such as number@0.01"
        )
    return Scorer(
        name=name, version="2", function=within(tolerance), judges=has_number, reads=has_number
    )


def _letter() -> Scorer:
    from farm.scoring.letter import has_claim, is_letter, letter

    return Scorer(name="letter", version="2", function=letter, judges=is_letter, reads=has_claim)


def _code_exec() -> Scorer:
    return Scorer(name="code_exec", version="2", function=_needs_sandbox, needs=("sandbox",))


def _code_exec_by(name: str) -> Scorer:
    from farm.scoring.programrules import rules_of

    rules_of(name)  # raises for what is no rule
    return Scorer(name=name, version="2", function=_needs_sandbox, needs=("sandbox",))


def _needs_sandbox(prediction: str, targets: Sequence[str]) -> float:
    raise SpecError(
        "metric 'code_exec' runs the prediction and cannot be computed from texts alone; "
        "use `farm run --scorer code_exec`, or `farm sandbox run` for one program"
    )


_MAKERS: Final[dict[str, Callable[[], Scorer]]] = {
    "exact_match": _exact_match,
    "accuracy": _accuracy,
    "f1": _f1,
    "bleu_4": _bleu_4,
    "rouge_l": _rouge_l,
    "code_exec": _code_exec,
    "normalized_match": _normalized_match,
    "lenient_match": _lenient_match,
    "squad_em": _squad_em,
    "squad_f1": _squad_f1,
    "number": _number,
    "letter": _letter,
    "contains": _contains,
}
_LOADED: dict[str, Scorer] = {}
