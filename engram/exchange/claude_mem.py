"""Memories of claude-mem (github.com/thedotmack/claude-mem), from its SQLite database of any version.

Observations, session summaries and, of newer versions, its memory items become memories, and so do its directives. The
prompts that it logged do not: they are in the transcripts, which are read anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.enums import Importance, Kind, Scope, Source, Status
from engram.exchange.incoming import Incoming, IncomingMemory, Place, Unusable, derived_ids
from engram.exchange.incoming import Source as FileSource
from engram.exchange.values import clean_text, text_list, time_ms
from engram.models.episodes import MAX_SUMMARY_CHARACTERS, Episode, Evidence
from engram.models.foreign import ForeignDatabase, ForeignRow
from engram.transcripts.claude_code import AGENT

#: The format's name, and that of the extractor of its memories.
FORMAT = "claude-mem"
#: Type of an observation → kind of the memory; every other type is a fact.
_KINDS = {"decision": Kind.DECISION, "bugfix": Kind.FIX}
#: Most names that a memory gets from an observation.
MAX_ENTITIES = 40

_SESSION_COLUMNS = frozenset({"content_session_id", "claude_session_id", "memory_session_id", "sdk_session_id"})
_OBSERVATIONS = frozenset(
    "id memory_session_id sdk_session_id project merged_into_project text type title subtitle facts narrative concepts "
    "files_read files_modified content_hash created_at created_at_epoch".split()
)
_SUMMARIES = frozenset(
    "id memory_session_id sdk_session_id project merged_into_project request investigated learned completed next_steps "
    "notes created_at created_at_epoch".split()
)
_ITEMS = frozenset(
    "id kind type project project_id server_session_id memory_session_id legacy_observation_id text title subtitle "
    "facts narrative content concepts files_read files_modified created_at created_at_epoch".split()
)
_DIRECTIVES = frozenset("id scope project content status created_at created_at_epoch".split())
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def default_path(user_home: Path) -> Path:
    """Return where claude-mem keeps its database."""
    named = os.environ.get("CLAUDE_MEM_DATA_DIR", "")
    return (Path(named).expanduser() if named else user_home / ".claude-mem") / "claude-mem.db"


def is_claude_mem(database: ForeignDatabase) -> bool:
    """Return True for a database of claude-mem, by its tables."""
    return bool(database.columns("sdk_sessions")) and {"type", "project"} <= database.columns("observations")


def read_claude_mem(database: ForeignDatabase) -> FileSource:
    """Return what is read from a database of claude-mem."""
    remarks = []
    if database.columns("user_prompts") and (prompts := database.count("user_prompts")):
        remarks.append(f"{prompts} prompts that claude-mem logged are left out: the transcripts have them")
    return FileSource(FORMAT, str(database.path), _items(database), remarks=tuple(remarks))


def _items(database: ForeignDatabase) -> Iterator[Incoming]:
    sessions = _sessions(database)
    names = _project_names(database)
    for table, columns, read in (
        ("observations", _OBSERVATIONS, _observation),
        ("session_summaries", _SUMMARIES, _session_summary),
        ("memory_items", _ITEMS, _item),
        ("directives", _DIRECTIVES, _directive),
    ):
        if not database.columns(table):
            continue
        before = database.unreadable
        for row in database.rows(table, columns):
            memory = read({**row, "project": names.get(str(row.get("project_id")), row.get("project"))}, sessions)
            if memory is not None:
                yield memory
        for _ in range(database.unreadable - before):
            yield Unusable(f"a row of {table}", "it is damaged")


def _sessions(database: ForeignDatabase) -> dict[str, str]:
    """Return claude-mem's own id of a session → Claude Code's id."""
    sessions = {}
    for row in database.rows("sdk_sessions", _SESSION_COLUMNS):
        own = row["memory_session_id"] or row["sdk_session_id"]
        content = row["content_session_id"] or row["claude_session_id"]
        if own and content:
            sessions[str(own)] = str(content)
    return sessions


def _project_names(database: ForeignDatabase) -> dict[str, object]:
    """Return id of a project → its name, as newer versions keep it."""
    if not database.columns("projects"):
        return {}
    return {str(row["id"]): row["name"] for row in database.rows("projects", frozenset({"id", "name"}))}


def _item(row: ForeignRow, sessions: dict[str, str]) -> Incoming | None:
    """Return a memory item; None for a prompt, and for the copy of an observation that is read anyway."""
    if clean_text(row["kind"]) == "prompt" or row["legacy_observation_id"]:
        return None
    return _observation({**row, "text": clean_text(row["text"]) or row["content"]}, sessions, table="memory_items")


def _observation(row: ForeignRow, sessions: dict[str, str], table: str = "observations") -> Incoming:
    where = f"row {row['id']} of {table}"
    title, subtitle = clean_text(row["title"]), clean_text(row["subtitle"])
    narrative, facts = clean_text(row["narrative"]) or clean_text(row["text"]), text_list(row["facts"])
    summary = title or subtitle or narrative or (facts[0] if facts else "")
    if not summary:
        return Unusable(where, "it has no text")
    parts = [subtitle if title else "", narrative, "\n".join(f"- {fact}" for fact in facts)]
    files = [*text_list(row["files_modified"]), *text_list(row["files_read"])]
    return _memory(
        row,
        sessions,
        where,
        kind=_KINDS.get(clean_text(row["type"]).lower(), Kind.FACT),
        summary=summary,
        content="\n\n".join(part for part in parts if part) or summary,
        facts=tuple(facts),
        entities=tuple(dict.fromkeys([*text_list(row["concepts"]), *files]))[:MAX_ENTITIES],
    )


def _session_summary(row: ForeignRow, sessions: dict[str, str]) -> Incoming:
    where = f"row {row['id']} of session_summaries"
    parts = {name: clean_text(row[name]) for name in _SUMMARY_PARTS}
    summary = parts["completed"] or parts["learned"] or parts["request"] or parts["notes"]
    if not summary:
        return Unusable(where, "it has no text")
    content = "\n\n".join(f"{name.replace('_', ' ').capitalize()}: {text}" for name, text in parts.items() if text)
    return _memory(row, sessions, where, kind=Kind.STATE, summary=summary, content=content)


def _directive(row: ForeignRow, sessions: dict[str, str]) -> Incoming | None:
    text = clean_text(row["content"])
    if not text or clean_text(row["status"]) not in ("", "active"):
        return None
    return _memory(
        row,
        sessions,
        f"row {row['id']} of directives",
        kind=Kind.PREFERENCE,
        summary=text,
        content=text,
        is_global=clean_text(row["scope"]) != "project",
        importance=Importance.HIGH,
        source=Source.MANUAL,
        confidence=1.0,
        quality=1.0,
    )


def _memory(
    row: ForeignRow, sessions: dict[str, str], where: str, *, summary: str, is_global: bool = False, **fields: Any
) -> IncomingMemory:
    own_session = clean_text(row.get("memory_session_id")) or clean_text(row.get("sdk_session_id"))
    session_id = sessions.get(own_session, "")
    project = "" if is_global else clean_text(row.get("merged_into_project")) or clean_text(row["project"])
    made_at_ms = time_ms(row["created_at_epoch"]) or time_ms(row["created_at"])
    episode = Episode(
        **derived_ids(FORMAT, where, own_session, str(made_at_ms), summary),
        **{"status": Status.ACTIVE, "scope": Scope.GLOBAL if is_global else Scope.PROJECT, **fields},
        summary=" ".join(summary.split())[:MAX_SUMMARY_CHARACTERS],
        session_id=session_id,
        project=project,
        extractor=FORMAT,
        created_at_ms=made_at_ms or 0,
    )
    return IncomingMemory(
        episode=episode,
        place=Place(project) if project else None,
        evidence=(Evidence("", session_id),) if session_id else (),
        agent=AGENT,
        reason=f"from claude-mem, {where}",
    )
