"""Memories that a person wrote, stored as they are: what the search reaches when every memory is good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engram.bench.json_lines import read_lines
from engram.enums import Actor, Importance, Kind, Scope, Status, Voice
from engram.errors import BadRequest, EngramError
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_episode, change_episode
from engram.models.memories.memory_records import Episode, Evidence, new_episode_id
from engram.models.projects.projects import project_by_id
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turn_of_entry


def read_gold(path: Path) -> list[dict[str, Any]]:
    """Read gold memories: JSON lines with id, session, summary, kind and evidence; lines without an id are left out.

    Raises:
        BadRequest: the file can't be read.
    """
    return [line for line in read_lines(path) if "id" in line]


def store_gold(store: Store, memories: Iterable[Mapping[str, Any]]) -> None:
    """Store gold memories of sessions that the store has read, each at the time its session ended.

    A memory with ``superseded_by``, the id of another one, is stored as superseded by that one.

    Raises:
        BadRequest: a memory has an unknown kind, importance, scope or successor.
    """
    sessions = {session.session_id: session for session in list_sessions(store)}
    stored: dict[str, Episode] = {}
    memories = list(memories)
    try:
        with store.transaction() as tx:
            for memory in memories:
                session = sessions.get(memory["session"])
                if session is None:
                    continue
                project = project_by_id(store, session.project_id) if session.project_id is not None else None
                episode = Episode(
                    episode_id=new_episode_id(),
                    kind=Kind.parse(memory.get("kind", Kind.FACT)),
                    summary=memory["summary"],
                    content=memory.get("content", memory["summary"]),
                    session_id=session.session_id,
                    project_id=session.project_id,
                    project=project.name if project else "",
                    scope=Scope.parse(memory.get("scope", Scope.PROJECT)),
                    importance=Importance.parse(memory.get("importance", Importance.NORMAL)),
                    voice=Voice.USER if memory.get("kind") == Kind.PREFERENCE else Voice.ASSISTANT,
                    extractor="gold",
                    created_at_ms=session.last_at_ms,
                )
                evidence = [
                    Evidence(uuid, session.session_id, turn_of_entry(store, uuid))
                    for uuid in memory.get("evidence", ())
                ]
                stored[memory["id"]] = add_episode(tx, episode, evidence, actor=Actor.MODEL)
            for memory in memories:
                if memory.get("superseded_by") and memory["id"] in stored:
                    newer = stored[memory["superseded_by"]]
                    change_episode(
                        tx,
                        stored[memory["id"]],
                        "supersede",
                        actor=Actor.MODEL,
                        status=Status.SUPERSEDED,
                        superseded_by=newer.episode_id,
                        valid_to_ms=newer.created_at_ms,
                    )
    except (KeyError, EngramError) as error:
        raise BadRequest(f"a gold memory can't be stored: {error}") from error
