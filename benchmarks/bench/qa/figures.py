"""The figures of a reader test: shares with intervals, and paired differences between arms. Without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from bench.measure import paired_difference, share
from bench.qa.folder import RunKey, answer_id
from engram.errors import BadRequest


def verdicts_of(
    key: RunKey, answers: Mapping[str, Mapping[str, str]], scores: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return arm → question's id → verdict.

    Raises:
        BadRequest: some answers were not judged.
    """
    verdicts: dict[str, dict[str, str]] = {}
    missing = 0
    for arm, of_arm in answers.items():
        verdicts[arm] = {}
        for question_id, text in of_arm.items():
            verdict = scores.get(answer_id(key, question_id, text))
            missing += verdict is None
            verdicts[arm][question_id] = verdict or ""
    if missing:
        raise BadRequest(f"{missing} answers were not judged: the scores belong to another run, or are incomplete")
    return verdicts


def qa_figures(key: RunKey, verdicts: Mapping[str, Mapping[str, str]], *, seed: int = 7) -> dict[str, Any]:
    """Return the figures of each arm, and the paired difference of every two arms, in percent.

    Intervals are 95 % bootstrap intervals over the questions; differences are computed question by question.
    """
    answerable = [question.id for question in key.questions if question.is_answerable]
    unanswerable = [question.id for question in key.questions if not question.is_answerable]
    right = {arm: [of_arm[name] == "right" for name in answerable] for arm, of_arm in verdicts.items()}
    return {
        "questions": len(answerable),
        "unanswerable": len(unanswerable),
        "model": key.model,
        "date": key.date,
        "arms": {
            arm: _arm_figures(of_arm, right[arm], answerable, unanswerable, key.words.get(arm), seed)
            for arm, of_arm in verdicts.items()
        },
        "paired": {
            f"{first} to {second}": paired_difference(
                [own - other for own, other in zip(right[first], right[second], strict=True)], seed=seed
            )
            for first, second in combinations(_in_order(verdicts), 2)
        },
    }


def _arm_figures(
    verdicts: Mapping[str, str],
    right: Sequence[bool],
    answerable: Sequence[str],
    unanswerable: Sequence[str],
    words: float | None,
    seed: int,
) -> dict[str, Any]:
    percent, half_width = share(right, seed=seed)
    left = sum(verdicts[name] == "unanswered" for name in unanswerable)
    return {
        "right": percent,
        "interval": half_width,
        "wrong": share([verdicts[name] == "wrong" for name in answerable], seed=seed)[0],
        "unanswered": share([verdicts[name] == "unanswered" for name in answerable], seed=seed)[0],
        "unanswerable left unanswered": left,
        "words": words,
    }


def _in_order(verdicts: Mapping[str, Any]) -> list[str]:
    """Return the arms sorted by name and number of words, regardless of the order of the readers."""
    return sorted(verdicts, key=lambda arm: (arm.partition(":")[0], int(arm.partition(":")[2] or 0)))
