"""A saved report as one side of a comparison: what it says of every case.

Two kinds are read: the report of `farm run` and `farm status`, and that of `farm report` in JSON,
each with its cases listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.plan import ScorerName
from farm.core.result import CaseResult, counts
from farm.errors import SpecError
from farm.report.compare import Judged, RunSide
from farm.report.envelope import RunIdentity


class _Receipt(msgspec.Struct, frozen=True):
    cases: Sequence[CaseResult] | UnsetType = UNSET


class _Saved(msgspec.Struct, frozen=True):
    """Either kind of report: the part that a comparison needs."""

    tasks_sha256: str | UnsetType = UNSET
    scorer: ScorerName | UnsetType = UNSET
    models: tuple[str, ...] = ()
    complete: bool = False
    receipts: Sequence[_Receipt] | UnsetType = UNSET
    runs: dict[str, RunIdentity] | UnsetType = UNSET
    cases: dict[str, Sequence[CaseResult]] | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Saved)


def read_saved(data: bytes, *, path: str) -> RunSide:
    """Read a saved report; raises `SpecError` when it is none, or lists no cases.

    The label is the model's name, or the path where the report names none.
    """
    try:
        saved = _decoder.decode(data)
    # the decoder skips foreign fields by recursion, however deep they are
    except (msgspec.DecodeError, RecursionError) as error:
        raise SpecError(f"{path!r} is no saved report: {error}") from error
    if saved.runs is not UNSET:
        return _of_board(saved.runs, saved.cases, path=path)
    if saved.tasks_sha256 is UNSET or saved.scorer is UNSET or saved.receipts is UNSET:
        raise SpecError(
            f"{path!r} is no saved report: save one with `farm status --store DIR --detail` or "
            "`farm report --store DIR --detail`"
        )
    lists = [receipt.cases for receipt in saved.receipts]
    return RunSide(
        label=saved.models[0] if saved.models else path,
        tasks_sha256=saved.tasks_sha256,
        scorer=f"{saved.scorer.name}@{saved.scorer.version}",
        complete=saved.complete,
        cases=_judged((case for cases in lists for case in _listed(cases, path)), path=path),
    )


def _of_board(
    runs: dict[str, RunIdentity],
    cases: dict[str, Sequence[CaseResult]] | UnsetType,
    *,
    path: str,
) -> RunSide:
    if len(runs) != 1:
        raise SpecError(
            f"{path!r} is a report of {len(runs)} models: save one of a single --store, or compare "
            "the stores themselves"
        )
    ((model, run),) = runs.items()
    listed = _listed(UNSET if cases is UNSET else cases.get(model, UNSET), path)
    return RunSide(
        label=model,
        tasks_sha256=run.tasks_sha256,
        scorer=f"{run.scorer.name}@{run.scorer.version}",
        complete=run.complete,
        cases=_judged(listed, path=path),
    )


def _listed(cases: Sequence[CaseResult] | UnsetType, path: str) -> Sequence[CaseResult]:
    if isinstance(cases, UnsetType):
        raise SpecError(f"{path!r} does not list its cases: save the report with --detail")
    return cases


def _judged(cases: Iterable[CaseResult], *, path: str) -> dict[str, Judged]:
    found: dict[str, Judged] = {}
    for case in cases:
        if not 0.0 <= case.score <= 1.0:
            raise SpecError(f"{path!r}: case {case.id!r}: score {case.score!r} is not in [0, 1]")
        if case.id in found:
            raise SpecError(f"{path!r}: case {case.id!r} is there twice")
        found[case.id] = Judged(
            correct=case.correct,
            score=case.score if counts(case.outcome) else None,
            outcome=case.outcome,
        )
    return found
