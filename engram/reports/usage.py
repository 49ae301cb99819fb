"""What memory did lately: the report."""

from __future__ import annotations

from collections.abc import Mapping

from engram.enums import Refusal
from engram.models.store import Store
from engram.models.usage import Usage, count_prompts_since, late_since, usage_since

#: Days that the report covers by default.
REPORT_DAYS = 7
DAY_MS = 86_400_000


def late_of_days(store: Store, days: int = REPORT_DAYS) -> tuple[dict[str, int], int]:
    """Return the answers of the last days that came too late, by cause, and the number of prompts."""
    since_ms = store.now_ms() - days * DAY_MS
    return late_since(store, since_ms), count_prompts_since(store, since_ms)


def report_of_days(store: Store, days: int = REPORT_DAYS) -> Usage:
    """What memory did in the last days."""
    return usage_since(store, store.now_ms() - days * DAY_MS)


def late_text(late: Mapping[str, int]) -> str:
    """Return how many answers came too late and why, for people; "" for none."""
    return "; ".join(f"{number} {'answer' if number == 1 else 'answers'}: {cause}" for cause, number in late.items())


#: Reason → what it means, for people.
_REFUSALS = {
    Refusal.UNREADABLE: "of another shape than was asked for",
    Refusal.NO_EVIDENCE: "cites nothing that was sent",
    Refusal.NO_SUMMARY: "says nothing",
    Refusal.NO_TARGET: "takes back nothing that was shown",
    Refusal.NOT_SAID: "was not said in the session",
    Refusal.NOT_CITED: "has nothing to do with what it cites",
    Refusal.UNPROVEN: "rests on a command whose end is not known",
    Refusal.OUTPUT: "tells what only a command printed",
    Refusal.REPEATED: "known already",
    Refusal.OWN_TEXT: "repeats Engram's own text",
    Refusal.LOG: "quotes a log",
    Refusal.FORGOTTEN: "forgotten before",
    Refusal.JUDGED: "judged wrong or outdated before",
    Refusal.FULL: "beyond the limit of a session or an hour",
    Refusal.TARGET_STAYS: "would end a memory that stays",
}


def refused_text(refused: Mapping[str, int]) -> str:
    """Return how many proposals of a language model were not kept and why, for people; "" for none."""
    meaning = {reason.value: text for reason, text in _REFUSALS.items()}
    return "; ".join(f"{number}: {meaning.get(reason, reason)}" for reason, number in refused.items())
