"""What memory did lately: the report, and its one line for the first briefing of a week."""

from __future__ import annotations

from collections.abc import Mapping

from engram.enums import Refusal, Scope
from engram.models.store import Store
from engram.models.usage import Usage, claim_telling, count_prompts_since, late_since, told_at_ms, usage_since
from engram.redaction.display import fence_safe, one_line

#: Days that the report covers by default, and days between two such lines.
REPORT_DAYS = 7
#: Longest summary of the most used memory, in characters.
MAX_NAME_CHARACTERS = 80
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


def weekly_line(store: Store, project_id: int) -> str:
    """One line of the report; "" if it was shown in the last seven days or there is nothing to say.

    The caller that gets the line has claimed it. A session of one project reads it: the figures are of all projects,
    and the most used memory is named only if that project may see it.
    """
    now, last_told_ms = store.now_ms(), told_at_ms(store)
    if last_told_ms is not None and now - REPORT_DAYS * DAY_MS < last_told_ms <= now:
        return ""
    usage = report_of_days(store)
    if not usage.prompts or not claim_telling(store, REPORT_DAYS * DAY_MS):
        return ""
    line = (
        f"Engram in the last {REPORT_DAYS} days: {usage.sessions} sessions and {usage.prompts} prompts read, "
        f"{usage.memories} memories kept, {usage.shown} shown, {usage.opened} opened"
    )
    used = usage.most_used
    if used is not None and used.may_be_shown and (used.scope == Scope.GLOBAL or used.project_id == project_id):
        # Not above: the redaction rules take a while to load, and counting alone does not need them.
        from engram.redaction import redact

        line += f"; used most: {fence_safe(one_line(redact(used.summary), MAX_NAME_CHARACTERS))}"
    return f"{line}. `engram report` shows more to the user."
