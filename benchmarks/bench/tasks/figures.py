"""The figures of the runs: solved and harmed tasks, tokens and time of each arm. Without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bench.measure import paired_difference
from bench.tasks.agent import Usage
from bench.tasks.arms import Arm
from bench.tasks.check import Outcome, Verdict
from bench.tasks.runs import Run
from bench.tasks.task import TaskKind


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    task: str
    kind: TaskKind
    arm: Arm
    number: int
    outcome: Outcome
    reason: str
    tokens: int | None
    seconds: float | None
    has_timed_out: bool

    @classmethod
    def of(cls, run: Run, kind: TaskKind, verdict: Verdict, usage: Usage) -> RunResult:
        """Combine a run with its verdict and usage."""
        return cls(
            task=run.task,
            kind=kind,
            arm=run.arm,
            number=run.number,
            outcome=verdict.outcome,
            reason=verdict.reason,
            tokens=usage.tokens,
            seconds=usage.seconds,
            has_timed_out=usage.has_timed_out,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result for ``--json``."""
        return asdict(self)


def task_figures(results: Sequence[RunResult]) -> dict[str, Any]:
    """Return the figures of each arm, the outcome of each task, and paired differences from the arm without memory.

    A task counts as solved in an arm if most of its runs there solved it.
    """
    arms = [arm for arm in Arm if any(result.arm is arm for result in results)]
    return {
        "arms": {str(arm): _arm_figures([result for result in results if result.arm is arm]) for arm in arms},
        "tasks": {
            task: {str(arm): _outcomes(results, task, arm) for arm in arms}
            for task in sorted({result.task for result in results})
        },
        "paired": {
            f"{arm} to {Arm.NOTHING}": _paired(results, arm, Arm.NOTHING)
            for arm in arms
            if arm is not Arm.NOTHING and Arm.NOTHING in arms
        },
    }


def _arm_figures(results: Sequence[RunResult]) -> dict[str, Any]:
    history = [result for result in results if result.kind is TaskKind.HISTORY]
    misleading = [result for result in results if result.kind is TaskKind.MISLEADING]
    tokens = [result.tokens for result in results if result.tokens is not None]
    seconds = [result.seconds for result in results if result.seconds is not None]
    return {
        "runs": len(results),
        "tasks": len({result.task for result in history}),
        "tasks solved": sum(share > 0.5 for share in _solved_shares(history).values()),
        "runs solved": sum(result.outcome is Outcome.SOLVED for result in history),
        "runs of these tasks": len(history),
        "misleading tasks": len({result.task for result in misleading}),
        "misleading runs solved": sum(result.outcome is Outcome.SOLVED for result in misleading),
        "misleading runs": len(misleading),
        "harmed": sum(result.outcome is Outcome.HARMED for result in results),
        "timed out": sum(result.has_timed_out for result in results),
        "mean tokens": round(fmean(tokens)) if tokens else None,
        "mean seconds": round(fmean(seconds), 1) if seconds else None,
    }


def _outcomes(results: Sequence[RunResult], task: str, arm: Arm) -> list[str]:
    of_task = sorted((r for r in results if r.task == task and r.arm is arm), key=lambda result: result.number)
    return [str(result.outcome) for result in of_task]


def _solved_shares(results: Sequence[RunResult]) -> Mapping[str, float]:
    """Return task → share of its runs that were solved."""
    by_task: dict[str, list[bool]] = {}
    for result in results:
        by_task.setdefault(result.task, []).append(result.outcome is Outcome.SOLVED)
    return {task: fmean(solved) for task, solved in by_task.items()}


def _paired(results: Sequence[RunResult], arm: Arm, other: Arm) -> dict[str, float]:
    """Return the paired difference in the share of solved runs, over the tasks that are answered in the history."""
    history = [result for result in results if result.kind is TaskKind.HISTORY]
    own, others = (_solved_shares([result for result in history if result.arm is name]) for name in (arm, other))
    return paired_difference([own[task] - others[task] for task in sorted(own) if task in others])
