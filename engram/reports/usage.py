"""The report of what memory did: one line of it for the first briefing of a week."""

from __future__ import annotations

from engram.enums import Scope
from engram.models.store import Store
from engram.models.usage import Usage, claim_telling, told_at_ms, usage_since
from engram.redaction.display import fence_safe, one_line

#: What the report covers by default, and how often its line is said, in days.
REPORT_DAYS = 7
#: Longest name of the memory that was used most, in characters.
MAX_NAME_CHARACTERS = 80
DAY_MS = 86_400_000


def report_of_days(store: Store, days: int = REPORT_DAYS) -> Usage:
    """What memory did in the last days."""
    return usage_since(store, store.now_ms() - days * DAY_MS)


def weekly_line(store: Store, project_id: int) -> str:
    """One line of the report, "" where it was said in the last seven days or there is nothing to say.

    Who gets the line has claimed it. It is read by a session of one project: the numbers are of all projects, and the
    memory that was used most is named only where that project may see it.
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
        # Not above: who only counts needs no rules, and they take a while to load.
        from engram.redaction import redact

        line += f"; used most: {fence_safe(one_line(redact(used.summary), MAX_NAME_CHARACTERS))}"
    return f"{line}. `engram report` tells the user more."
