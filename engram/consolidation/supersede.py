"""When a newer memory replaces an older one on the same subject: rules on wording, meaning and names. Rules are pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from engram.consolidation import subject
from engram.enums import Actor, Kind, Source, Status
from engram.models import contradictions, episode_changes, episodes
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.text.summary_words import words_of

if TYPE_CHECKING:
    from engram.consolidation.context import Context

#: Kinds that can be outdated by a later statement; facts only where a person said or saved both.
_CHANGING = (Kind.DECISION, Kind.PREFERENCE)
#: Least cosine where the newer one names what it gives up, and that is what the older one chose.
NAMED_COSINE = 0.40
#: Least cosine where the newer one only says that something changed.
CHANGED_COSINE = 0.55
#: Least cosine for the same statement with another value, or its opposite.
SAME_COSINE = 0.70

_ARTICLE = r"(?:(?:the|our|a|an|use|using|of|all|unused) )*"
#: Up to six words, up to where the sentence turns to something else.
_OBJECT = (
    rf"{_ARTICLE}(?P<object>[\w./+#'-]+(?: [\w./+#'-]+){{0,5}}?)"
    r"(?= (?:to|into|with|by|for|as|and|in|on|because|since|here|there)\b| *[,;:()]|\.(?: |$)| *$)"
)
#: Ways to say what is given up.
_GIVEN_UP = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:instead of|rather than|in place of|not any ?more|no more) {_OBJECT}",
        rf"\bno longer (?:in |use[sd]? |need(?:ed)? |support(?:ed)? |want )?{_OBJECT}",
        rf"\b(?:switch|mov|migrat|chang|went|go)\w*\b[^.;]{{0,40}}? from {_OBJECT}",
        rf"\breplac(?:e[sd]?|ing) {_OBJECT}",
        rf"\b(?:drop(?:ped|ping)?|remov(?:e|ed|ing)|abandon(?:ed|ing)?|revert(?:ed|ing)?|deprecat(?:e|ed|ing)"
        rf"|scrap(?:ped)?|ditch(?:ed|ing)?|stop(?:ped|ping)?|retir(?:e|ed|ing)|undo|undid|giv(?:e|ing) up|gave up) "
        rf"{_OBJECT}",
        r"(?:^|[,.;:] ?)(?P<object>[^,.;:()]{2,60}?) (?:is|are|was|were|has been|gets?|got) "
        r"(?:replaced|dropped|removed|reverted|abandoned|superseded|retired|deprecated|only checked|gone|no longer\b)",
        rf"\bnot (?:only |just )?(?:from )?{_OBJECT}",
    )
]
#: A summary of more words than this tells several things; more likeness is asked of it.
LONG_WORDS = 22
#: How much more.
LONG_EXTRA = 0.2

#: Ways to say that something is different from now on.
_CHANGED = re.compile(
    r"\b(?:from now on|now\b|any ?more|no longer|chang(?:ed?|ing) (?:our|my|the) mind|back to|after all|going forward|"
    r"switch\w* (?:back )?to|mov(?:e|ed|ing) to|migrat\w+ to|chang\w+ (?:it )?to|rais(?:e|ed)|lower(?:ed)?|increas\w+|"
    r"decreas\w+|bump\w*|renam\w+|actually|update[d:]?|correction|revised?|reconsider\w*|new decision|instead)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:never|not|don'?t|do not|no|avoid|without|stop|isn'?t|won'?t|cannot|can'?t)\b", re.I)


def replaces(newer: Episode, older: Episode, cosine: float) -> str:
    """Why ``newer`` replaces ``older`` by itself; "" where it does not, also where a person has to decide.

    Args:
        newer: said later.
        older: said earlier, of the same project or both global.
        cosine: how alike their summaries are in meaning.
    """
    return "" if contradictions.is_kept_by_hand(older) else why_outdated(newer, older, cosine)


def why_outdated(newer: Episode, older: Episode, cosine: float) -> str:
    """Why ``newer`` and ``older`` cannot both hold, whoever may decide that; "" where they can.

    They speak of the same subject, and the newer one gives up, changes or denies what the older one says.
    """
    if not (_may_change(newer) and _may_change(older)):
        return ""
    new, old = words_of(newer.summary), words_of(older.summary)
    if max(len(newer.summary.split()), len(older.summary.split())) > LONG_WORDS:
        cosine -= LONG_EXTRA
    if cosine >= NAMED_COSINE and (named := _names_given_up(newer.summary, older.summary)):
        return f"gives up “{named}”"
    shared = new & old
    if len(shared) < 2 and cosine < SAME_COSINE:
        return ""
    overlap = len(shared) / max(1, min(len(new), len(old)))
    cue = _CHANGED.search(newer.summary) if cosine >= CHANGED_COSINE and overlap >= 0.4 else None
    if cue is not None and subject.changes_value(newer.summary, older.summary):
        return f"says so: “{cue.group(0)}”"
    if cosine >= SAME_COSINE and overlap >= 0.5:
        if _is_denied(newer.summary, older.summary) and subject.says_opposite(newer.summary, older.summary):
            return "says the opposite"
        if subject.gives_another_value(newer.summary, older.summary):
            return "gives another value"
    return ""


def says_otherwise(one: str, other: str) -> bool:
    """Whether two summaries that are much alike contradict each other: another value, or the opposite."""
    first, second = words_of(one), words_of(other)
    return _is_denied(one, other) or bool(_values(first) - _values(second) and _values(second) - _values(first))


def _is_denied(one: str, other: str) -> bool:
    return bool(_NEGATION.search(one)) != bool(_NEGATION.search(other))


def _may_change(episode: Episode) -> bool:
    return episode.kind in _CHANGING or (episode.kind == Kind.FACT and episode.source == Source.MANUAL)


def _names_given_up(newer: str, older: str) -> str:
    """What the newer text gives up, where the older one speaks for it and of the same subject; "" otherwise."""
    new, old = words_of(newer), words_of(older)
    for pattern in _GIVEN_UP:
        for match in pattern.finditer(newer):
            given_up = words_of(match.group("object"))
            kept = new - given_up
            if (
                given_up & old
                and len(given_up & old) >= len(given_up) / 2
                and (kept & old or len(given_up & old) >= 2)
                and subject.has_same_subject(newer, older, given_up)
            ):
                return match.group("object").strip()[:40]
    return ""


def _values(words: frozenset[str]) -> frozenset[str]:
    """Words that are likely values: numbers (also spelt out), versions, names with digits or special characters."""
    return frozenset(word for word in words if word in subject.NUMBER_WORDS or re.search(r"[\d_./+#-]", word))


def supersede_outdated(context: Context) -> None:
    """Mark decisions and preferences that a later one of the same place replaces."""
    supersede_pairs(
        context.store, context.pairs(NAMED_COSINE), run_id=context.run_id, is_dry=context.is_dry, told=context.told,
        check_time=context.check_time, is_spared=lambda older: context.is_undone("supersede", older),
    )  # fmt: skip


def supersede_pairs(
    store: Store, pairs: Iterable[tuple[int, int, float]], *, run_id: int | None = None, is_dry: bool = False,
    told: list[str] | None = None, check_time: Callable[[], None] = lambda: None,
    is_spared: Callable[[Episode], bool] = lambda older: False,
) -> list[str]:  # fmt: skip
    """Mark the older of each pair where the newer replaces it; returns a line a change.

    What a person saved or pinned stays: a contradiction is noted instead, for a person to decide.

    Args:
        store: the open memory.
        pairs: ``(row id, row id, cosine)``, the most alike first.
        run_id: the consolidation that asks; None where none does.
        is_dry: change nothing.
        told: lines are added to it.
        check_time: called before each pair; may raise to stop.
        is_spared: true for a memory that must stay as it is.
    """
    told = [] if told is None else told
    gone: set[int] = set()
    for one, other, cosine in pairs:
        check_time()
        if one in gone and other in gone:
            continue
        found = episodes.episodes_by_row(store, [one, other])
        if len(found) == 2:
            older, newer = sorted(found.values(), key=lambda e: (e.holds_from_ms, e.id))
            reason = "" if older.id in gone or is_spared(older) else _reason(older, newer, cosine)
            if reason and contradictions.is_kept_by_hand(older):
                if is_dry or _note_contradiction(store, older, newer, reason):
                    told.append(f"contradiction of {older.episode_id} and {newer.episode_id} ({reason})")
            elif reason and (is_dry or _supersede(store, older, newer, reason, run_id)):
                told.append(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")
                gone.add(older.id)
    return told


def _note_contradiction(store: Store, older: Episode, newer: Episode, reason: str) -> int:
    with store.transaction() as tx:
        return contradictions.note_contradiction(tx, older.episode_id, newer.episode_id, reason)


def _supersede(store: Store, older: Episode, newer: Episode, reason: str, run_id: int | None) -> bool:
    """Mark the older one; False where somebody changed it meanwhile."""
    with store.transaction() as tx:
        now = episodes.find_episode(store, older.episode_id)
        if now is None or now.revision != older.revision:
            return False
        episode_changes.change_episode(
            tx, now, "supersede", f"{newer.episode_id} {reason}", run_id=run_id,
            status=Status.SUPERSEDED, superseded_by=newer.episode_id, valid_to_ms=newer.holds_from_ms, actor=Actor.TIDYING,
        )  # fmt: skip
    return True


def _reason(older: Episode, newer: Episode, cosine: float) -> str:
    # A newer one that was itself replaced since still put an end to the older one.
    living = (
        older.is_current
        and (newer.is_current or newer.status == Status.SUPERSEDED)
        and not (older.suspect or newer.suspect)
    )
    same_place = (older.project_id, older.scope) == (newer.project_id, newer.scope)
    is_later = newer.holds_from_ms > older.holds_from_ms
    return why_outdated(newer, older, cosine) if living and same_place and is_later else ""
