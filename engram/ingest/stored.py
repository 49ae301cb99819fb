"""The stored turns, as a reader may ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engram.ingest.clean import Cleaner
from engram.models.entries import turn_of_entry
from engram.models.sessions import find_session
from engram.models.store import Store
from engram.models.transcripts import known_uuids
from engram.models.turns import is_forgotten, load_turn, load_turn_row, times_of_prompts, turns_of_session
from engram.transcripts.record import TextBlock, Turn


@dataclass(slots=True)
class TurnsInStore:
    """``StoredTurns`` over memory.db, for one portion of a source. Asking for the same entries again costs nothing."""

    store: Store
    cleaner: Cleaner
    session_id: str
    _asked: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def load(self, key: str) -> Turn | None:
        """Return a stored turn; None if there is none, or if it was forgotten."""
        stored = load_turn(self.store, key)
        return None if stored is None else stored.turn

    def is_known(self, key: str) -> bool:
        """True if the turn of this key is stored or was forgotten."""
        return load_turn(self.store, key) is not None or is_forgotten(self.store, key)

    def known_entries(self, uuids: Sequence[str]) -> set[str]:
        """Return those of the entries that belong to a stored turn, or were forgotten."""
        new = [uuid for uuid in uuids if uuid not in self._asked]
        if new:
            self._asked.update(new)
            self._known |= known_uuids(self.store, new)
        return self._known.intersection(uuids)

    def is_session_known(self) -> bool:
        """True if something of the session is stored."""
        return find_session(self.store, self.session_id) is not None

    def holder(self, uuid: str) -> Turn | None:
        """Return the stored turn of this session that an entry belongs to; None for any other entry."""
        turn_id = turn_of_entry(self.store, uuid)
        stored = None if turn_id is None else load_turn_row(self.store, turn_id)
        return stored.turn if stored is not None and stored.turn.session_id == self.session_id else None

    def texts_of_session(self) -> list[TextBlock]:
        """Return every stored text of the session that is read."""
        session = find_session(self.store, self.session_id)
        stored = [] if session is None else turns_of_session(self.store, session.id)
        return [block for one in stored for block in one.turn.said]

    def is_stored(self, session_id: str) -> bool:
        """True if something of another session is stored."""
        return find_session(self.store, session_id) is not None

    def prompt_times(self, from_ms: int, to_ms: int) -> list[int]:
        """Return when the stored prompts of other sessions within a span were asked, both ends included."""
        return times_of_prompts(self.store, from_ms, to_ms, without_session=self.session_id)

    def note_environment(self, text: str) -> None:
        """Take the values of environment lines in ``text`` as secrets from now on; the text is not kept."""
        self.cleaner.note_environment(text)
