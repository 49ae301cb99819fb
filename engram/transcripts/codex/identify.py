"""Give each entry of a rollout an id, and find the texts that both logs of a rollout show.

The lines of a rollout have no ids. An id is a hash of what a copy of the line keeps: Codex's id of its turn, the text
or the id of the call, and the text's number within the turn. So the history that a fork begins with has the ids that
it has in the session it was copied from, and is not read twice. Versions that write no ids of turns are identified by
the session and the line's number below its head, which a copy keeps too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from engram.transcripts.codex import AGENT
from engram.transcripts.codex.entry import Entry, Kind
from engram.transcripts.codex.state import Echo, Naming
from engram.transcripts.text import storable_id

#: Texts that wait for their copy in the other log.
MAX_ECHOES = 24
_TEXTS = (Kind.PROMPT, Kind.REPLY)


class Identified(NamedTuple):
    """An entry with its id, which is also its uuid outside this package."""

    entry: Entry
    #: "" for entries that belong to no turn.
    uuid: str
    #: True if the other log showed the same text before, under the same id.
    is_echo: bool = False

    @property
    def at_ms(self) -> int | None:
        """Time in milliseconds since 1970; None if unknown."""
        return self.entry.at_ms


#: Returns the id that a text has, for the one that was made.
KnownAs = Callable[[Entry, str], str]


def identify(
    entries: Iterable[Entry], session_id: str, naming: Naming, known_as: KnownAs | None = None
) -> Iterator[Identified]:
    """Yield the entries with their ids; ``naming`` is carried on to the last of them.

    Args:
        known_as: for a session that is read again, finds the id under which a text is stored.
    """
    for entry in entries:
        if entry.kind is Kind.META:
            naming.origin = storable_id(entry.data.get("id")) or session_id
            naming.origin_line = entry.line
        turn_id = storable_id(entry.data.get("turn_id")) if entry.kind in (Kind.BEGIN, Kind.FOLDER) else ""
        if turn_id and turn_id != naming.turn_id:
            naming.turn_id, naming.texts = turn_id, 0
            naming.echoes.clear()
        if entry.kind in _TEXTS:
            yield _identify_text(entry, session_id, naming, known_as)
        else:
            yield Identified(entry, _call_uuid(entry, session_id, naming))


def _identify_text(entry: Entry, session_id: str, naming: Naming, known_as: KnownAs | None) -> Identified:
    digest = _hash(entry.kind, " ".join(entry.text.split()))[:16]
    for number, echo in enumerate(naming.echoes):
        if echo.digest == digest and entry.log not in echo.logs:
            naming.echoes[number] = echo._replace(logs=echo.logs + entry.log)
            return Identified(entry, echo.uuid, is_echo=True)
    naming.texts += 1
    place = str(naming.texts) if naming.turn_id else str(entry.line - naming.origin_line)
    uuid = _uuid(naming.turn_id or naming.origin or session_id, place, digest)
    if known_as is not None:
        uuid = known_as(entry, uuid)
    naming.echoes.append(Echo(digest, entry.log, uuid))
    del naming.echoes[:-MAX_ECHOES]
    return Identified(entry, uuid)


def _call_uuid(entry: Entry, session_id: str, naming: Naming) -> str:
    if entry.kind not in (Kind.CALL, Kind.RESULT, Kind.FINISHED_CALL):
        return ""
    call_id = storable_id(entry.data.get("call_id") or entry.data.get("id"))
    part = "result" if entry.kind is Kind.RESULT else "call"
    return _uuid(naming.turn_id or naming.origin or session_id, part, call_id) if call_id else ""


def _uuid(*parts: str) -> str:
    return f"{AGENT}-{_hash(*parts)[:32]}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
