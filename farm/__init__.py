"""LLM evaluation runs that survive anything: the names that programs may rely on.

A name is imported from its module by its first use. Every worker process imports this package
and needs none of them, so nothing else is imported here.
"""

from __future__ import annotations

# not from typing, which takes as long to load as the interpreter itself
TYPE_CHECKING = False
if TYPE_CHECKING:  # the same table for readers of types; a test holds one against the other
    from farm.adapters.mock import BiasedAdapter as BiasedAdapter
    from farm.adapters.mock import NoisyAdapter as NoisyAdapter
    from farm.adapters.mock import RuleBasedAdapter as RuleBasedAdapter
    from farm.adapters.protocol import ModelAdapter as ModelAdapter
    from farm.adapters.scripted import ScriptedAdapter as ScriptedAdapter
    from farm.core.generation import Generation as Generation
    from farm.core.task import TaskSpec as TaskSpec
    from farm.core.task import render_prompt as render_prompt
    from farm.core.task import validate_task as validate_task
    from farm.errors import BadNumbers as BadNumbers
    from farm.errors import Busy as Busy
    from farm.errors import Corrupt as Corrupt
    from farm.errors import FarmError as FarmError
    from farm.errors import Fenced as Fenced
    from farm.errors import Halted as Halted
    from farm.errors import IdentityMismatch as IdentityMismatch
    from farm.errors import NotPermitted as NotPermitted
    from farm.errors import OutcomeUnknown as OutcomeUnknown
    from farm.errors import Problem as Problem
    from farm.errors import SandboxLost as SandboxLost
    from farm.errors import SandboxUnavailable as SandboxUnavailable
    from farm.errors import SpecError as SpecError
    from farm.errors import StorageError as StorageError
    from farm.errors import StorageFull as StorageFull
    from farm.errors import UsageError as UsageError
    from farm.evaluation import EvalReport as EvalReport
    from farm.evaluation import run_eval as run_eval
    from farm.files.tasks import validate_file as validate_file
    from farm.sandbox.runner import run_candidate as run_candidate
    from farm.sandbox.runner import score_code_exec as score_code_exec
    from farm.sandbox.verdict import CandidateResult as CandidateResult
    from farm.scoring.code import extract_code as extract_code
    from farm.scoring.passk import pass_at_k as pass_at_k
    from farm.scoring.passk import pass_hat_k as pass_hat_k
    from farm.scoring.postprocess import post_process as post_process
    from farm.scoring.score import score as score
    from farm.stats.bootstrap import bootstrap_mean_ci as bootstrap_mean_ci
    from farm.stats.bootstrap import bootstrap_pairwise_diff as bootstrap_pairwise_diff
    from farm.stats.calibration import CalibrationReport as CalibrationReport
    from farm.stats.evalrun import EvalRun as EvalRun
    from farm.stats.leaderboard import LeaderboardRow as LeaderboardRow
    from farm.stats.leaderboard import aggregate as aggregate
    from farm.stats.pairwise import pairwise_diffs as pairwise_diffs
    from farm.stats.perplexity import PerplexityResult as PerplexityResult

_HOMES = {
    "ModelAdapter": "farm.adapters.protocol",
    "Generation": "farm.core.generation",
    "run_eval": "farm.evaluation",
    "EvalReport": "farm.evaluation",
    "RuleBasedAdapter": "farm.adapters.mock",
    "NoisyAdapter": "farm.adapters.mock",
    "BiasedAdapter": "farm.adapters.mock",
    "ScriptedAdapter": "farm.adapters.scripted",
    "TaskSpec": "farm.core.task",
    "render_prompt": "farm.core.task",
    "validate_task": "farm.core.task",
    "BadNumbers": "farm.errors",
    "Busy": "farm.errors",
    "Corrupt": "farm.errors",
    "FarmError": "farm.errors",
    "Fenced": "farm.errors",
    "Halted": "farm.errors",
    "IdentityMismatch": "farm.errors",
    "NotPermitted": "farm.errors",
    "OutcomeUnknown": "farm.errors",
    "Problem": "farm.errors",
    "SandboxLost": "farm.errors",
    "SandboxUnavailable": "farm.errors",
    "SpecError": "farm.errors",
    "StorageError": "farm.errors",
    "StorageFull": "farm.errors",
    "UsageError": "farm.errors",
    "validate_file": "farm.files.tasks",
    "run_candidate": "farm.sandbox.runner",
    "score_code_exec": "farm.sandbox.runner",
    "CandidateResult": "farm.sandbox.verdict",
    "extract_code": "farm.scoring.code",
    "pass_at_k": "farm.scoring.passk",
    "pass_hat_k": "farm.scoring.passk",
    "post_process": "farm.scoring.postprocess",
    "score": "farm.scoring.score",
    "bootstrap_mean_ci": "farm.stats.bootstrap",
    "bootstrap_pairwise_diff": "farm.stats.bootstrap",
    "CalibrationReport": "farm.stats.calibration",
    "EvalRun": "farm.stats.evalrun",
    "LeaderboardRow": "farm.stats.leaderboard",
    "aggregate": "farm.stats.leaderboard",
    "pairwise_diffs": "farm.stats.pairwise",
    "PerplexityResult": "farm.stats.perplexity",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name from where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module 'farm' has no name {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    """List the public names beside what every module has."""
    return sorted({*globals(), *__all__})
