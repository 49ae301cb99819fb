"""Turns for the tests of models: what was said, written as ingest writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.storing import write_turn
from engram.models.engine.transaction import Store
from engram.models.projects.projects import ProjectRow, ensure_project
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import SessionRow, ensure_session
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn


def make_turn(
    key: str, prompt: str, reply: str = "", *, session_id: str = "s1", at_ms: int = 5, **changes: Any
) -> Turn:
    """A turn of a prompt and a reply; ``changes`` are other fields of ``Turn``."""
    said = [TextBlock(key, Role.USER, prompt, offset=0, length=5, line=1)]
    if reply:
        said.append(TextBlock(f"{key}-reply", Role.ASSISTANT, reply, "m1", offset=6, length=5, line=2))
    fields: dict[str, Any] = {
        "key": key,
        "session_id": session_id,
        "opening": Opening.PROMPT,
        "said": tuple(said),
        "entries": tuple(EntryRef(block.uuid, block.offset, block.length, block.line) for block in said),
        "started_at_ms": at_ms,
        "ended_at_ms": at_ms,
    }
    return Turn(**fields | changes)


def store_project(store: Store, name: str) -> ProjectRow:
    """The project of a name, made where it is new."""
    with store.transaction() as tx:
        return ensure_project(tx, f"git:/{name}", name, f"/{name}")


def store_session(store: Store, session_id: str, project: str | None = "a", *, at_ms: int = 5) -> SessionRow:
    """The session of an id, made where it is new; of a project unless that is None."""
    project_id = None if project is None else store_project(store, project).id
    with store.transaction() as tx:
        return ensure_session(
            tx, session_id, agent="claude-code", project_id=project_id, is_global=False, cwd="/w", at_ms=at_ms
        )


def store_turn(store: Store, turn: Turn, project: str | None = "a") -> int:
    """Write a turn into its session of a project; returns its row id."""
    session = store_session(store, turn.session_id, project, at_ms=turn.started_at_ms or 5)
    with store.transaction() as tx:
        transcript_id = ensure_transcript(tx, Path(f"/x/{turn.session_id}.jsonl"), session.id)
        return write_turn(tx, turn, session, transcript_id)
