"""Where an entry stands: its session, its file and its line in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from peewee import Query

from engram.models import tables
from engram.models.entries import turn_of_entry
from engram.models.packed_entries import unpack_entries
from engram.models.statement import prepared
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
    return [_place_of(store, uuid) for uuid in uuids]


def _place_of(store: Reader, uuid: str) -> EvidencePlace:
    turn_id = turn_of_entry(store, uuid)
    row = None if turn_id is None else store.fetch_first(_place_of_turn(turn_id))
    entries = {} if row is None else {entry.uuid: entry for entry in unpack_entries(bytes(row.entries))}
    if row is None or uuid not in entries:
        return EvidencePlace(session_id="", uuid=uuid, path="", line=0)
    return EvidencePlace(
        session_id=row.session_id,
        uuid=uuid,
        path=os.fsdecode(bytes(row.path)),
        line=entries[uuid].line,
        part=row.part,
        position=entries[uuid].offset,
    )


@prepared
def _place_of_turn(turn_id: int) -> Query:
    turn = tables.Turn
    columns = (tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    return turn.select(*columns).join(tables.Session).join_from(turn, tables.Transcript).where(turn.id == turn_id)
