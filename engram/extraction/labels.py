"""Kind, importance and entities of a passage, by rules on its wording."""

from __future__ import annotations

import re

from engram.enums import Importance, Kind
from engram.extraction import cues, languages
from engram.transcripts.record import Turn

#: Maximum number of entities of a candidate.
MAX_ENTITIES = 24
#: Quality from which on a decision or a fix is important.
HIGH_QUALITY = 0.5

_SYMBOL = re.compile(
    r"`([^`\n]{2,60})`|((?:[\w.~-]*[\w~-])?(?:/[\w.@-]+)+|\b[\w-]+\.[a-z]{1,5}\b|\b[a-z]+[A-Z]\w+|"
    r"\b[A-Z][a-z0-9]+[A-Z]\w*|\b[A-Za-z0-9]+_\w+)"
)
_DEAD = re.compile(
    r"\b(?:dead end|tried|gave up|given up|abandon|revert|rolled back|ruled out|rejected|"
    r"(?:did|does)(?:n't| not) work|unworkable|not feasible|infeasible|impossible|not worth|backed out)",
    re.IGNORECASE,
)
_BUG = re.compile(
    r"\b(?:bugs?|broken?|breaks|fail(?:s|ed|ing|ure)?|missing|lack(?:s|ed)|wrong(?:ly)?|incorrect(?:ly)?|invalid|"
    r"crash\w*|stale|overw\w+|los[te]s?|regress\w*|mismatch\w*|leak\w*|race|root cause|culprit|silently|never (?:set|"
    r"called|ran)|was(?:n't| not)|were(?:n't| not)|did(?:n't| not)|fixed)\b",
    re.IGNORECASE,
)
#: Wordings of how somebody wants things done.
_TASTE = re.compile(
    r"\b(?:instead|rather|prefer\w*|should(?:n't)?|why (?:aren't|are we|isn't|do we)|don'?t|"
    r"too (?:\w+)|i'?d like|i would like|i want|more (?:visible|readable|explicit)|clearer|make sure|ideally|not "
    r"just)\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"\b(?:remain(?:s|ing)?|left open|pending|not (?:yet|pushed|committed)|uncommitted|unpushed|follow-?up|"
    r"todo|still (?:needs?|open|to do)|ready (?:for|to)|is complete|out of scope|deferred)\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:instead|rather than|decided|decision|chose|prefer|agreed|no longer|replaced|renamed|moved|removed|dropped|"
    r"must|always|never|only|should|by design|deliberate|keeps?|now)\b",
    re.IGNORECASE,
)


def kind_of(bite: str, label: str, *, is_user: bool) -> Kind:
    """Return the kind of a passage by its wording and its heading or lead.

    Args:
        bite: The passage.
        label: Heading and lead above it.
        is_user: Whether the user typed it.
    """
    if is_user:
        return Kind.PREFERENCE if _TASTE.search(bite) or cues.WISH.search(bite) else Kind.FACT
    if _DEAD.search(bite):
        return Kind.DEAD_END
    if _BUG.search(bite) and (cues.REPAIR.search(bite) or cues.CAUSE.search(bite) or cues.TOPIC_CAUSE.search(label)):
        return Kind.FIX
    if _LEFT.search(bite):
        return Kind.STATE
    return Kind.DECISION if len(_DECIDED.findall(bite)) + len(cues.CHANGE.findall(bite)) >= 2 else Kind.FACT


def tells_fix(bite: str) -> bool:
    """Return True if a passage describes a problem or a repair."""
    return bool(_BUG.search(bite) or cues.REPAIR.search(bite) or languages.PROBLEM.search(bite))


def importance_of(kind: Kind, quality: float, *, is_user: bool) -> Importance:
    """Return high for preferences, decisions and fixes of high quality."""
    if kind in (Kind.DECISION, Kind.FIX, Kind.PREFERENCE) and quality >= HIGH_QUALITY:
        return Importance.HIGH
    return Importance.NORMAL


def entities_of(bite: str, turn: Turn) -> tuple[str, ...]:
    """Return symbols and files that the bite names, then the files and commits of the turn."""
    named = [a or b for a, b in _SYMBOL.findall(bite)]
    files = [f.replace("\\", "/").rsplit("/", 1)[-1] for f in turn.files]
    commits = [a.commit.split(" ", 1)[0] for a in turn.actions if a.commit]
    return tuple(dict.fromkeys(e for e in [*named, *files, *commits] if e))[:MAX_ENTITIES]
