"""A saved report as one side of a comparison: what it says of every case.

Two kinds are read: the report of `farm run` and `farm status`, and that of `farm report` in JSON,
each with its cases listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from farm.core.case import Group
from farm.core.plan import TASKS, ScorerName
from farm.core.result import CaseResult, counts
from farm.core.trial import Trial, read_trial
from farm.errors import SpecError
from farm.report.envelope import RunIdentity
from farm.report.side import Judged, RunSide
from farm.scoring.registry import check_more_is_better

T = TypeVar("T")


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
    groups: msgspec.Raw = msgspec.Raw(b"{}")  # by case id, in a leaderboard by model first
    dataset_cases: int = 0
    signature: msgspec.Raw = msgspec.Raw(b'""')  # a line, in a leaderboard an object


class _Signature(msgspec.Struct, frozen=True):
    post_processes: tuple[str, ...] = ()


def read_saved(data: bytes, *, path: str) -> RunSide:
    """Read a saved report; raises `SpecError` when it is none, or lists no cases.

    The side is that of the store it was made of, as far as it had come. The label is the model's
    name, or the path where the report names none.
    """
    saved = _decoded(data, _Saved, path=path)
    if saved.runs is not UNSET:
        return _of_board(saved, saved.runs, path=path)
    if saved.tasks_sha256 is UNSET or saved.scorer is UNSET or saved.receipts is UNSET:
        raise SpecError(
            f"{path!r} is no saved report: save one with `farm status --store DIR --detail` or "
            "`farm report --store DIR --detail`"
        )
    if saved.scorer.name == TASKS and len(saved.models) != 1:
        raise _not_one(len(saved.models), path)
    lists = [receipt.cases for receipt in saved.receipts]
    return _side(
        label=saved.models[0] if saved.models else path,
        tasks_sha256=saved.tasks_sha256,
        scorer=saved.scorer,
        complete=saved.complete,
        listed=[case for cases in lists for case in _listed(cases, path)],
        groups=_decoded(saved.groups, dict[str, Group], path=path),
        cases=saved.dataset_cases,
        post_process=_post_of(_decoded(saved.signature, str, path=path)),
        path=path,
    )


def _of_board(saved: _Saved, runs: Mapping[str, RunIdentity], *, path: str) -> RunSide:
    if len(runs) != 1:
        raise _not_one(len(runs), path)
    ((model, run),) = runs.items()
    cases = UNSET if isinstance(saved.cases, UnsetType) else saved.cases.get(model, UNSET)
    groups = _decoded(saved.groups, dict[str, dict[str, Group]], path=path)
    return _side(
        label=model,
        tasks_sha256=run.tasks_sha256,
        scorer=run.scorer,
        complete=run.complete,
        listed=_listed(cases, path),
        groups=groups.get(model, {}),
        cases=run.cases,
        post_process="+".join(_decoded(saved.signature, _Signature, path=path).post_processes),
        path=path,
    )


def _side(
    *,
    label: str,
    tasks_sha256: str,
    scorer: ScorerName,
    complete: bool,
    listed: Sequence[CaseResult],
    groups: dict[str, Group],
    cases: int,
    post_process: str,
    path: str,
) -> RunSide:
    if scorer.name == TASKS:  # asked of a model: the ids say which, and of which task they are
        trials = [_trial(case.id, path) for case in listed]
        listed = [
            msgspec.structs.replace(case, id=trial.question)
            for case, trial in zip(listed, trials, strict=True)
        ]
        trials += [_trial(case_id, path) for case_id in groups]  # of what is pending
        groups = {trial.question: Group(task=trial.task, sample=trial.sample) for trial in trials}
    else:
        check_more_is_better(scorer.name)
    return RunSide(
        label=label,
        tasks_sha256=tasks_sha256,
        scorer=f"{scorer.name}@{scorer.version}",
        complete=complete,
        cases=_judged(listed, path=path),
        groups=groups,
        pending=max(0, cases - len(listed)),
        post_process=post_process or "none",
    )


def _post_of(signature: str) -> str:
    """Give what a signature's line says was done to answers before they were scored."""
    parts = (part.partition(":") for part in signature.split("|"))
    return next((value for name, _, value in parts if name == "post"), "")


def _trial(id: str, path: str) -> Trial:
    try:
        return read_trial(id)
    except SpecError as error:
        raise SpecError(f"{path!r}: {error}") from error


def _decoded(data: bytes | msgspec.Raw, kind: type[T], *, path: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    # the decoder skips foreign fields by recursion, however deep they are
    except (msgspec.DecodeError, RecursionError) as error:
        raise SpecError(f"{path!r} is no saved report: {error}") from error


def _not_one(models: int, path: str) -> SpecError:
    return SpecError(
        f"{path!r} is a report of {models} models: save one of a single --store, or compare "
        "the stores themselves"
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
