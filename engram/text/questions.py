"""The questions that a memory answers: how many it keeps, and in what form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

#: Maximum number of questions that a memory keeps, and of the characters of each.
MAX_QUESTIONS, MAX_QUESTION_CHARACTERS = 2, 160


def clean_questions(given: Iterable[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """Return the questions that a memory keeps of those that somebody wrote for it: redacted, each on one line.

    Only the first ``MAX_QUESTIONS`` count; what is longer than ``MAX_QUESTION_CHARACTERS`` is no question.
    """
    asked = (" ".join(redact(question).split()) for question in islice(given, MAX_QUESTIONS))
    return tuple(dict.fromkeys(text for text in asked if 0 < len(text) <= MAX_QUESTION_CHARACTERS))
