"""When a newer memory replaces an older one on the same subject: rules on wording, meaning and names. Rules are pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engram.models import episodes
from engram.models.episodes import Episode

if TYPE_CHECKING:
    from engram.consolidation.steps import Context

#: Kinds that can be outdated by a later statement.
_CHANGING = ("decision", "preference")
#: From this cosine on two memories are about the same subject (bundled model).
SUBJECT_COSINE = 0.75
#: With a wording of change that names what the older one chose, less is enough.
CUED_COSINE = 0.6

_CHANGE = re.compile(
    r"\b(?:instead of|rather than|no longer|not .{0,40} any ?more|switch(?:ed|ing)? (?:away )?(?:from|to|back)|"
    r"replac(?:e[sd]?|ing)|migrat(?:e[sd]?|ing)|mov(?:ed?|ing) (?:from|to|away|off|back)|chang(?:ed?|ing) (?:from|to|our mind)|"
    r"revert(?:ed|s|ing)?|roll(?:ed|ing)? back|drop(?:ped|ping)?|remov(?:ed?|ing)|abandon(?:ed|ing)?|deprecat\w+|"
    r"supersed\w+|overturn\w*|changed (?:my|our) mind|from now on|now (?:uses?|we|it|the|that)|after all|scrap(?:ped)?|"
    r"gave up|turned out|was wrong|revers(?:ed?|ing)|renam(?:ed?|ing)|rais(?:ed?|ing)|lower(?:ed|ing)?|increas\w+|"
    r"decreas\w+|back to)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:never|not|don'?t|do not|no|avoid|without|stop|isn'?t|won'?t|cannot|can'?t|disabled?)\b", re.I
)
_WORD = re.compile(r"[A-Za-z_][\w.+#/-]*|\d[\w.]*")
_STOP = frozenset(
    "a an the is are was were be been to of in on at for with by from and or as it its this that we i you use uses used "
    "using should must will now so then than instead of no not never always do don't prefer all every any our my".split()
)


def replaces(newer: Episode, older: Episode, cosine: float) -> str:
    """Why ``newer`` replaces ``older``; "" where it does not.

    Args:
        newer: said later.
        older: said earlier, of the same project or both global.
        cosine: how alike their meanings are.
    """
    if newer.kind not in _CHANGING or older.kind not in _CHANGING or older.is_pinned:
        return ""
    if older.source == "manual" and not newer.voice.startswith("user") and newer.source != "manual":
        return ""
    new, old = words_of(newer.summary), words_of(older.summary)
    shared = new & old
    if not shared:
        return ""
    if (cue := _CHANGE.search(newer.summary)) and cosine >= CUED_COSINE and len(shared) >= 2:
        return f"says so: “{cue.group(0)}”"
    if cosine < SUBJECT_COSINE:
        return ""
    overlap = len(shared) / min(len(new), len(old))
    if bool(_NEGATION.search(newer.summary)) != bool(_NEGATION.search(older.summary)) and overlap >= 0.5:
        return "says the opposite"
    if overlap >= 0.5 and _values(new) - _values(old) and _values(old) - _values(new):
        return "gives another value"
    return ""


def words_of(text: str) -> frozenset[str]:
    """The telling words of a summary, stemmed crudely."""
    found = (word.lower().rstrip(".,:;") for word in _WORD.findall(text))
    return frozenset(_stem(word) for word in found if word not in _STOP and len(word) > 1)


def _stem(word: str) -> str:
    for end in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= 4:
            return word[: -len(end)]
    return word


def _values(words: frozenset[str]) -> frozenset[str]:
    """Words that are likely values: numbers, versions, names with digits or special characters."""
    return frozenset(word for word in words if re.search(r"[\d_./+#-]", word))


def supersede_outdated(context: Context) -> None:
    """Mark decisions and preferences that a later one of the same place replaces."""
    if context.similar is None:
        return
    gone: set[int] = set()
    for one, other, cosine in context.similar(CUED_COSINE):
        found = episodes.episodes_by_row(context.store, [one, other])
        if len(found) < 2 or gone & set(found):
            continue
        older, newer = sorted(found.values(), key=lambda e: (e.valid_from_ms or e.created_at_ms, e.id))
        reason = _reason(older, newer, cosine)
        if reason:
            context.tell(f"supersede {older.episode_id} by {newer.episode_id} ({reason})")
            gone.add(older.id)
            if not context.is_dry:
                with context.store.writing():
                    episodes.change_episode(
                        context.store, older, "supersede", f"{newer.episode_id} {reason}", run_id=context.run_id,
                        status="superseded", superseded_by=newer.episode_id,
                        valid_to_ms=newer.valid_from_ms or newer.created_at_ms,
                    )  # fmt: skip


def _reason(older: Episode, newer: Episode, cosine: float) -> str:
    living = all(e.status in ("active", "provisional") and not e.suspect for e in (older, newer))
    same_place = (older.project_id, older.scope) == (newer.project_id, newer.scope)
    return replaces(newer, older, cosine) if living and same_place else ""
