"""Store memories that a person wrote, unchanged: what does the search achieve if every memory is good?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.json_lines import read_lines
from engram.enums import Actor, Importance, Kind, Scope, Status, Voice
from engram.errors import BadRequest, EngramError
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory, change_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import project_by_id
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turn_of_entry


def read_gold(path: Path) -> list[dict[str, Any]]:
    """Read gold memories: JSON lines with id, session, summary, kind and evidence; lines without an id are left out.

    Raises:
        BadRequest: the file can't be read.
    """
    return [line for line in read_lines(path) if "id" in line]


def store_gold(store: Store, golds: Iterable[Mapping[str, Any]]) -> None:
    """Store gold memories of sessions that have been read, each with the time at which its session ended.

    A memory with ``superseded_by``, the id of another one, is stored as superseded by that one.

    Raises:
        BadRequest: a memory has an unknown kind, importance, scope or successor.
    """
    sessions = {session.session_id: session for session in list_sessions(store)}
    stored: dict[str, Memory] = {}
    golds = list(golds)
    try:
        with store.transaction() as tx:
            for gold in golds:
                session = sessions.get(gold["session"])
                if session is None:
                    continue
                project = project_by_id(store, session.project_id) if session.project_id is not None else None
                memory = Memory(
                    episode_id=new_memory_id(),
                    kind=Kind.parse(gold.get("kind", Kind.FACT)),
                    summary=gold["summary"],
                    content=gold.get("content", gold["summary"]),
                    session_id=session.session_id,
                    project_id=session.project_id,
                    project=project.name if project else "",
                    scope=Scope.parse(gold.get("scope", Scope.PROJECT)),
                    importance=Importance.parse(gold.get("importance", Importance.NORMAL)),
                    voice=Voice.USER if gold.get("kind") == Kind.PREFERENCE else Voice.ASSISTANT,
                    extractor="gold",
                    created_at_ms=session.last_at_ms,
                )
                evidence = [
                    Evidence(uuid, session.session_id, turn_of_entry(store, uuid)) for uuid in gold.get("evidence", ())
                ]
                stored[gold["id"]] = add_memory(tx, memory, evidence, actor=Actor.MODEL)
            for gold in golds:
                if gold.get("superseded_by") and gold["id"] in stored:
                    newer = stored[gold["superseded_by"]]
                    change_memory(
                        tx,
                        stored[gold["id"]],
                        "supersede",
                        actor=Actor.MODEL,
                        status=Status.SUPERSEDED,
                        superseded_by=newer.episode_id,
                        valid_to_ms=newer.created_at_ms,
                    )
    except (KeyError, EngramError) as error:
        raise BadRequest(f"a gold memory can't be stored: {error}") from error
