"""Where an entry stands: its session, its file and its line in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any

from peewee import Query

from engram.models import tables
from engram.models.packed_entries import entry_key, unpack_entries
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where an entry stands."""

    session_id: str
    uuid: str
    path: str
    #: Line number from 1; 0 if the source has no lines, or if it is not known.
    line: int
    #: The session's key within a file that holds several; "" if the file is one session.
    part: str = ""
    #: Position in the source, in the unit that its agent counts by; bytes in a file of lines.
    position: int = 0

    @property
    def text(self) -> str:
        """The place for people: path and line, or path, part and position if there are no lines."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path} {self.part} at {self.position}" if self.part else f"{self.path} at {self.position}"

    def to_json(self) -> dict[str, Any]:
        """The form of ``evidence`` in every command's JSON."""
        return {
            "session": self.session_id,
            "uuid": self.uuid,
            "path": self.path,
            "part": self.part,
            "position": self.position,
            "line": self.line or None,
        }


def places_of(store: Reader, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Session, file and position of entries, in the order asked; unknown ones have no file."""
    asked = list(uuids)
    rows = store.fetch(_turns_of_keys(json.dumps([entry_key(uuid) for uuid in asked]))) if asked else []
    turns = {row.id: row for row in rows}
    places = {place.uuid: place for row in turns.values() for place in _places_in(row, frozenset(asked))}
    return [places.get(uuid, EvidencePlace(session_id="", uuid=uuid, path="", line=0)) for uuid in asked]


def _places_in(turn: Any, uuids: Set[str]) -> Iterator[EvidencePlace]:
    """The places of those entries that lie in a turn."""
    for entry in unpack_entries(bytes(turn.entries)):
        if entry.uuid in uuids:
            yield EvidencePlace(
                session_id=turn.session_id,
                uuid=entry.uuid,
                path=os.fsdecode(bytes(turn.path)),
                line=entry.line,
                part=turn.part,
                position=entry.offset,
            )


@prepared
def _turns_of_keys(keys: str) -> Query:
    entry, turn = tables.Entry, tables.Turn
    columns = (turn.id, tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    query = entry.select(*columns).join(turn, on=turn.id == entry.turn_id).join(tables.Session)
    return query.join_from(turn, tables.Transcript).where(in_json_list(entry.key, keys))
