"""Supersede memories: rules on wording, meaning and names for when a newer memory replaces an older one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from engram.enums import Actor, Kind, Source, Status
from engram.models import contradictions, episode_changes, episodes
from engram.models.contradictions import Ending
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.text import subject
from engram.text.summary_words import words_of

if TYPE_CHECKING:
    from engram.consolidation.context import Context

#: Kinds that a later statement can outdate; of facts, only saved ones.
_CHANGING = (Kind.DECISION, Kind.PREFERENCE)
#: Minimum cosine if the newer memory names what it abandons, and the older one chose that.
NAMED_COSINE = 0.40
#: Minimum cosine if the newer memory only says that something changed.
CHANGED_COSINE = 0.55
#: Minimum cosine of the same statement with another value, or its opposite.
SAME_COSINE = 0.70

_ARTICLE = r"(?:(?:the|our|a|an|use|using|of|all|unused) )*"
#: Up to six words, until the sentence turns to something else.
_OBJECT = (
    rf"{_ARTICLE}(?P<object>[\w./+#'-]+(?: [\w./+#'-]+){{0,5}}?)"
    r"(?= (?:to|into|with|by|for|as|and|in|on|because|since|here|there)\b| *[,;:()]|\.(?: |$)| *$)"
)
#: Wordings of what is abandoned.
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
#: Maximum length of a summary about a single thing, in words; a longer one needs a higher cosine.
MAX_SIMPLE_WORDS = 22
#: How much higher the cosine must be.
LONG_EXTRA_COSINE = 0.2

#: Wordings of a change.
_CHANGED = re.compile(
    r"\b(?:from now on|now\b|any ?more|no longer|chang(?:ed?|ing) (?:our|my|the) mind|back to|after all|going forward|"
    r"switch\w* (?:back )?to|mov(?:e|ed|ing) to|migrat\w+ to|chang\w+ (?:it )?to|rais(?:e|ed)|lower(?:ed)?|increas\w+|"
    r"decreas\w+|bump\w*|renam\w+|actually|update[d:]?|correction|revised?|reconsider\w*|new decision|instead)\b",
    re.IGNORECASE,
)


def why_outdated(newer: Episode, older: Episode, cosine: float) -> str:
    """Return why ``newer`` and ``older`` cannot both hold; "" if they can.

    They are about the same subject, and the newer one abandons, changes or denies what the older one says.

    Args:
        newer: said later.
        older: said earlier, of the same project or both global.
        cosine: the cosine of their summaries.
    """
    if not (_may_change(newer) and _may_change(older)):
        return ""
    new, old = words_of(newer.summary), words_of(older.summary)
    if max(len(newer.summary.split()), len(older.summary.split())) > MAX_SIMPLE_WORDS:
        cosine -= LONG_EXTRA_COSINE
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
        if subject.is_denied(newer.summary, older.summary) and subject.says_opposite(newer.summary, older.summary):
            return "says the opposite"
        if subject.gives_another_value(newer.summary, older.summary):
            return "gives another value"
    return ""


def says_otherwise(first: str, second: str) -> bool:
    """Return True if two similar summaries contradict each other: another value, or the opposite."""
    values, others = _values(words_of(first)), _values(words_of(second))
    return subject.is_denied(first, second) or bool(values - others and others - values)


def _may_change(episode: Episode) -> bool:
    return episode.kind in _CHANGING or (episode.kind == Kind.FACT and episode.source == Source.MANUAL)


def _names_given_up(newer: str, older: str) -> str:
    """Return what the newer text abandons, if the older one chose it for the same subject; "" otherwise."""
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
    """Return words that are likely values: numbers, versions, names with digits or special characters."""
    return frozenset(word for word in words if word in subject.NUMBER_WORDS or re.search(r"[\d_./+#-]", word))


def supersede_outdated(context: Context) -> None:
    """Supersede decisions and preferences that a later one of the same project replaces."""
    supersede_pairs(
        context.store,
        context.pairs(NAMED_COSINE),
        run_id=context.run_id,
        is_dry=context.is_dry,
        told=context.told,
        check_time=context.check_time,
        is_spared=lambda older: context.is_undone("supersede", older),
    )


def supersede_pairs(
    store: Store,
    pairs: Iterable[tuple[int, int, float]],
    *,
    run_id: int | None = None,
    is_dry: bool = False,
    told: list[str] | None = None,
    check_time: Callable[[], None] = lambda: None,
    is_spared: Callable[[Episode], bool] = lambda older: False,
) -> list[str]:
    """Supersede the older memory of each pair if the newer one replaces it; returns a line for each change.

    If ``ending_of`` finds that the user has to decide, both stay and a contradiction is noted.

    Args:
        store: the open memory.
        pairs: ``(row id, row id, cosine)``, the most similar first.
        run_id: the run that logs the changes; None for none.
        is_dry: change nothing.
        told: list to which the lines are added.
        check_time: called before each pair; may raise to stop.
        is_spared: returns True for a memory that must not change.
    """
    told = [] if told is None else told
    gone: set[int] = set()
    for first_id, second_id, cosine in pairs:
        check_time()
        if first_id in gone and second_id in gone:
            continue
        pair = episodes.episodes_by_row(store, [first_id, second_id])
        if len(pair) == 2:
            older, newer = sorted(pair.values(), key=lambda e: (e.holds_from_ms, e.id))
            reason = "" if older.id in gone or is_spared(older) else _reason(older, newer, cosine)
            ending = contradictions.ending_of(older, newer, Actor.TIDYING) if reason else Ending.STAYS
            if ending is Ending.CONTRADICTION:
                if is_dry or _note_contradiction(store, older, newer, reason):
                    told.append(f"contradiction of {older.episode_id} and {newer.episode_id} ({reason})")
            elif ending is Ending.ENDS and (is_dry or _supersede(store, older, newer, reason, run_id)):
                told.append(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")
                gone.add(older.id)
    return told


def _note_contradiction(store: Store, older: Episode, newer: Episode, reason: str) -> int:
    with store.transaction() as tx:
        return contradictions.note_contradiction(tx, older.episode_id, newer.episode_id, reason)


def _supersede(store: Store, older: Episode, newer: Episode, reason: str, run_id: int | None) -> bool:
    """Supersede the older memory; returns False if it changed meanwhile."""
    with store.transaction() as tx:
        now = episodes.find_episode(store, older.episode_id)
        if now is None or now.revision != older.revision:
            return False
        episode_changes.change_episode(
            tx,
            now,
            "supersede",
            f"{newer.episode_id} {reason}",
            run_id=run_id,
            status=Status.SUPERSEDED,
            superseded_by=newer.episode_id,
            valid_to_ms=newer.holds_from_ms,
            actor=Actor.TIDYING,
        )
    return True


def _reason(older: Episode, newer: Episode, cosine: float) -> str:
    # A newer memory that was itself superseded since still ends the older one.
    are_current = older.is_current and (newer.is_current or newer.status == Status.SUPERSEDED) and not older.suspect
    same_place = (older.project_id, older.scope) == (newer.project_id, newer.scope)
    is_later = newer.holds_from_ms > older.holds_from_ms
    return why_outdated(newer, older, cosine) if are_current and same_place and is_later else ""
