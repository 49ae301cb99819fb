"""Recognise turns of a session's history that was copied into another session under new ids. Pure, except for lookups.

Claude Code, and programs around it, copy the history of a session that is resumed or forked into a new file. Mostly,
the entries keep their ids or name the originals, and the readers skip them. Otherwise, a copied turn is recognised by
what a copy does not change: it begins in the same millisecond with the same words, and is answered by messages with the
same ids, which the language model's service gave them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import copied_history
from engram.models.sessions.stored_turns import turns_begun_at, turns_by_row
from engram.transcripts.turns import Turn, TurnUpdate


class Part(NamedTuple):
    """A part of the answer to a prompt."""

    #: Id of the message; "" for a call.
    message_id: str
    text: str
    #: When a command was run; 0 if that is not known.
    at_ms: int = 0

    @property
    def is_proof(self) -> bool:
        """True for a part that only a copy can have, too."""
        return bool(self.message_id)


def originals_of(
    store: Store, updates: Sequence[TurnUpdate], project_ids: Collection[int], session_id: str
) -> dict[str, Turn]:
    """Return key → stored turn of another session, for each turn that is a copy of it and adds nothing.

    More of an open turn may follow, so it counts only once it has all of the other one. A prompt without an answer
    proves nothing; it counts as a copy if another turn of the session is one.

    Args:
        updates: redacted turns of a session.
        project_ids: row ids of the projects in which a copied turn may be stored.
        session_id: the session that is being read.
    """
    turns = [update.turn for update in updates if update.turn.started_at_ms is not None]
    times = sorted({turn.started_at_ms or 0 for turn in turns})
    if not (times and project_ids):
        return {}
    stored = turns_by_row(store, turns_begun_at(store, times, sorted(project_ids), session_id))
    alike = [(turn, known.turn) for turn in turns for known in stored if _repeats(turn, known.turn)]
    if not alike:
        return {}
    copied_from = {from_session for from_session, _ in copied_history(store, session_id)}
    copied_from.update(
        original.session_id
        for turn, original in alike
        if any(part.is_proof for part in _parts_of(turn) & _parts_of(original))
    )
    return {
        turn.key: original
        for turn, original in alike
        if original.session_id in copied_from and _adds_nothing(turn, original)
    }


def ends_of(copied: Iterable[Turn], known: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return session → the time of the last word that was copied from it, in milliseconds.

    Args:
        known: the same for entries that were copied under their own ids.
    """
    ends = dict(known)
    for original in copied:
        until = original.ended_at_ms or original.started_at_ms or 0
        ends[original.session_id] = max(ends.get(original.session_id, 0), until)
    return ends


def _repeats(turn: Turn, other: Turn) -> bool:
    """Return True if two turns begin at the same time with the same words."""
    return (turn.agent, turn.started_at_ms, turn.prompt) == (other.agent, other.started_at_ms, other.prompt)


def _adds_nothing(turn: Turn, other: Turn) -> bool:
    parts, others = _parts_of(turn), _parts_of(other)
    return parts <= others if turn.is_closed else bool(parts) and parts == others


def _parts_of(turn: Turn) -> frozenset[Part]:
    """Return what answers a prompt: each text of a message, with the message's id, and the facts of each call.

    The ids of calls are not stored.
    """
    texts = {Part(block.message_id, block.text) for block in turn.said if block.message_id}
    calls = {
        Part("", "\n".join((action.tool, action.place, action.command, *action.files)), action.at_ms or 0)
        for action in turn.actions
    }
    return frozenset(texts | calls)
