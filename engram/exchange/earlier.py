"""Memories of the earlier Engram, from its database.

It merged similar memories into one row, whose summary then reads ``first | second``, with a line of hyphens between
their contents. Here each of them becomes a memory again, as far as it says something of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.enums import Importance, Kind, Scope, Source, Voice
from engram.exchange.incoming import Incoming, IncomingMemory, Place, Unusable, derived_ids
from engram.exchange.incoming import Source as FileSource
from engram.exchange.values import clean_text, count_of, text_list, time_ms
from engram.models.episodes import MAX_SUMMARY_CHARACTERS, Episode, Evidence
from engram.models.foreign import ForeignDatabase, ForeignRow
from engram.paths import is_session_id
from engram.text.content_words import content_words
from engram.transcripts.claude_code import AGENT

#: The format's name, and that of the extractor of its memories.
FORMAT = "earlier-engram"
#: Share of words that two parts of a summary have in common, of the shorter one, from which on they say the same.
SAME_SHARE = 0.75
#: Most names that a memory gets from a row.
MAX_ENTITIES = 40

_COLUMNS = frozenset(
    "id session_id project scope summary entities importance source_type full_content created_at accessed_at "
    "access_count".split()
)
_BETWEEN_SUMMARIES = re.compile(r"\s+\|\s+")
_BETWEEN_CONTENTS = re.compile(r"(?m)^\s*-{3,}\s*$")


def read_earlier(database: ForeignDatabase) -> FileSource:
    """Return what is read from a database of the earlier Engram."""
    return FileSource(FORMAT, str(database.path), _items(database))


def _items(database: ForeignDatabase) -> Iterator[Incoming]:
    if not database.columns("episodes"):
        return
    for row in database.rows("episodes", _COLUMNS):
        yield from _memories(row)
    for _ in range(database.unreadable):
        yield Unusable("a row of episodes", "it is damaged")


def _memories(row: ForeignRow) -> Iterator[Incoming]:
    name = clean_text(row["id"])
    parts = split_merged(clean_text(row["summary"]), clean_text(row["full_content"]))
    if not name or not parts:
        yield Unusable(f"episode {name or '(no id)'}", "it has no text" if name else "it has no id")
        return
    for number, (summary, content) in enumerate(parts):
        # The newest part was written last; that the row was used counts for it alone.
        yield _memory(row, name, summary, content, is_newest=number == len(parts) - 1)


def split_merged(summary: str, content: str) -> list[tuple[str, str]]:
    """Return the memories that were merged into one as (summary, content), the oldest first.

    A part that says the same as another one is no memory of its own. Contents go with their summaries where there are
    as many; otherwise the newest memory has all of them.
    """
    summaries = [part for part in _BETWEEN_SUMMARIES.split(summary) if part.strip()]
    contents = [part.strip() for part in _BETWEEN_CONTENTS.split(content) if part.strip()]
    if not summaries:
        return []
    if len(contents) == len(summaries):
        pairs = list(zip(summaries, contents, strict=True))
    else:
        pairs = [*((part, part) for part in summaries[:-1]), (summaries[-1], content or summaries[-1])]
    kept: list[tuple[str, str]] = []
    for part, text in reversed(pairs):
        same = next((number for number, (other, _) in enumerate(kept) if _says_the_same(part, other)), None)
        if same is None:
            kept.append((part, text))
        elif text not in kept[same][1]:
            kept[same] = (kept[same][0], f"{kept[same][1]}\n\n{text}")
    return kept[::-1]


def _says_the_same(first: str, second: str) -> bool:
    words, others = content_words(first), content_words(second)
    if not words or not others:
        return first.casefold() == second.casefold()
    return len(words & others) >= SAME_SHARE * min(len(words), len(others))


def _memory(row: ForeignRow, name: str, summary: str, content: str, *, is_newest: bool) -> IncomingMemory:
    project = clean_text(row["project"])
    is_global = clean_text(row["scope"]) == "global"
    session_id = clean_text(row["session_id"])
    session_id = session_id if is_session_id(session_id) else ""
    is_manual = clean_text(row["source_type"]) == "manual"
    episode = Episode(
        **derived_ids(FORMAT, name, " ".join(summary.split())),
        kind=Kind.FACT,
        summary=" ".join(summary.split())[:MAX_SUMMARY_CHARACTERS],
        content=content,
        session_id=session_id,
        project="" if is_global else project,
        scope=Scope.GLOBAL if is_global else Scope.PROJECT,
        entities=tuple(text_list(row["entities"])[:MAX_ENTITIES]),
        importance=Importance.HIGH if clean_text(row["importance"]) == "high" else Importance.NORMAL,
        source=Source.MANUAL if is_manual else Source.AUTO,
        voice=Voice.AGENT if is_manual else Voice.ASSISTANT,
        extractor=FORMAT,
        created_at_ms=time_ms(row["created_at"]) or 0,
        accessed_at_ms=time_ms(row["accessed_at"]),
        access_count=count_of(row["access_count"]) if is_newest else 0,
    )
    return IncomingMemory(
        episode=episode,
        place=Place(project) if project and not is_global else None,
        evidence=(Evidence("", session_id),) if session_id else (),
        agent=AGENT,
        reason=f"from the earlier Engram, {name}",
    )
