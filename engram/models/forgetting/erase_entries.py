"""Erase the stored words of single entries: their text with its passages, index and vectors, and their tool calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from peewee import ColumnBase, chunked
from peewee import Value as Plain

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.statement import (
    ENTRY_FACTS,
    in_json_list,
    pack_text,
    pack_uuid,
    todos_of,
    unpack_facts,
    unpack_uuid,
)
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories.memory_changes import erase_fields
from engram.models.memories.memory_records import Memory, evidence_of, memories_by_row
from engram.models.memories.tombstones import TombstoneKind, add_tombstones, said_key
from engram.models.sessions.failures_and_commits import replace_failed_calls
from engram.models.sessions.passage_rows import drop_quotation_records
from engram.models.sessions.prompt_outcomes import drop_outcomes_of_turn
from engram.models.sessions.stored_turns import entries_of_turn, turn_of_entry
from engram.models.sessions.turn_changes import drop_passages_of_texts
from engram.models.tables.session_tables import NO_TITLE

#: Number of turns that are read at once.
_TURNS_AT_ONCE = 500


def sources_of(store: Reader, memory: Memory) -> list[str]:
    """Return the ids of the entries that a memory rests on. A queued prompt is identified by the key of its turn."""
    evidence = evidence_of(store, memory.id)
    turn_ids = dict.fromkeys(entry.turn_id for entry in evidence)
    queued = [key for turn_id in turn_ids if (key := queued_key(store, turn_id))]
    return list(dict.fromkeys([*(entry.uuid for entry in evidence if entry.uuid), *queued]))


def memories_resting_on_source(store: Reader, source: str) -> list[Memory]:
    """Return every memory that rests on an entry, or on the turn that starts with a queued prompt."""
    evidence = tables.Evidence
    rests = evidence.uuid == pack_uuid(source)
    if (turn_id := _turn_of_key(store, source)) is not None:
        rests |= evidence.turn_id == turn_id
    row_ids = set(store.fetch_values(evidence.select(evidence.memory).where(rests)))
    return list(memories_by_row(store, sorted(row_ids)).values())


def turn_of_source(store: Reader, source: str) -> int | None:
    """Return the row id of the turn that contains an entry; None if there is none."""
    turn_id = _turn_of_key(store, source)
    return turn_of_entry(store, source) if turn_id is None else turn_id


def source_texts(store: Reader, sources: Collection[str]) -> list[str]:
    """Return the stored words of entries: their text, and the facts of tool calls."""
    texts: list[str] = []
    for turn_id, wanted in _by_turn(store, sources).items():
        texts += [text for _, source, text, _ in _said(store, turn_id) if source in wanted]
        for call in _calls(store, turn_id):
            if _sources_of_call(store, turn_id, call) & wanted:
                texts += [str(call.get(name, "")) for name in ("command", "error_line", "commit", "refusal")]
                texts += [todo.text for todo in todos_of(call)]
    return [text for text in texts if text]


def bar_copies(tx: Tx, sources: Collection[str]) -> None:
    """Keep the text and commands of entries from being stored again under other ids, as in a copy of a session."""
    keys: list[bytes] = []
    for turn_id, wanted in _by_turn(tx, sources).items():
        keys += [said_key(at_ms, text) for _, source, text, at_ms in _said(tx, turn_id) if source in wanted and at_ms]
        for call in _calls(tx, turn_id):
            if (key := _key_of_call(call)) and _sources_of_call(tx, turn_id, call) & wanted:
                keys.append(key)
    add_tombstones(tx, TombstoneKind.SAID, keys)


def stored_words(store: Reader, keys: Collection[bytes]) -> set[bytes]:
    """Return the keys (``said_key``) of words that are stored. All words are read, because a key is only a hash."""
    turn, block = tables.Turn, tables.TextBlock
    stored: set[bytes] = set()
    for turn_ids in chunked(store.fetch_values(turn.select(turn.id)) if keys else [], _TURNS_AT_ONCE):
        said = block.select(block.at_ms, block.text).where(in_json_list(block.turn, turn_ids))
        stored |= {said_key(row.at_ms, row.text) for row in store.fetch(said) if row.at_ms}.intersection(keys)
        for actions in store.fetch_values(turn.select(turn.actions).where(in_json_list(turn.id, turn_ids))):
            stored |= {key for call in unpack_facts(actions) if (key := _key_of_call(call))}.intersection(keys)
    return stored


def erase_words(tx: Tx, sources: Collection[str], *, actor: Actor) -> int:
    """Delete the stored words of entries; return how many turns contained such entries.

    The turns are kept, with all their other words. Reads and extractions in progress start over, because they may still
    have the words. Memories that rest on such an entry, none of which is current, keep their summary and lose what they
    quote.
    """
    by_turn = _by_turn(tx, sources)
    for turn_id, wanted in by_turn.items():
        said_ids = [row_id for row_id, source, _, _ in _said(tx, turn_id) if source in wanted]
        drop_passages_of_texts(tx, turn_id, said_ids)
        tx.run(tables.TextBlock.delete().where(tables.TextBlock.id.in_(said_ids)))
        calls = _calls(tx, turn_id)
        kept = [call for call in calls if not _sources_of_call(tx, turn_id, call) & wanted]
        if len(kept) < len(calls):
            actions = Plain(pack_text(json.dumps(kept, ensure_ascii=False)), converter=False)
            tx.run(tables.Turn.update(actions=actions).where(tables.Turn.id == turn_id))
            replace_failed_calls(tx, turn_id, kept)
        invalidate_readers(tx, turn_id)
        drop_outcomes_of_turn(tx, turn_id)
    drop_quotation_records(tx, sources)
    for source in sources:
        for memory in memories_resting_on_source(tx, source):
            _drop_quotes(tx, memory, actor)
    return len(by_turn)


def invalidate_readers(tx: Tx, turn_id: int) -> None:
    """Make every read or extraction of a turn that is in progress fail its compare-and-set.

    The session's rolling summary is deleted too, because it may contain the erased words; the next extraction starts a
    new one.
    """
    turn, transcript, session = tables.Turn, tables.Transcript, tables.Session
    tx.run(
        turn.update(
            revision=turn.revision + 1,
            updated_at_ms=tx.now_ms(),
            extracted_revision=turn.extracted_revision + (turn.extracted_revision == turn.revision),
        ).where(turn.id == turn_id)
    )
    of_turn = turn.id == turn_id
    read_from = turn.select(turn.transcript).where(of_turn)
    tx.run(transcript.update(generation=transcript.generation + 1).where(transcript.id == read_from))
    drop_summary(tx, session.id == turn.select(turn.session).where(of_turn))


def clean_sessions(tx: Tx, session_refs: Collection[int], session_ids: Collection[str]) -> None:
    """Delete everything that is stored about sessions, except their turns.

    The sessions are kept, along with how far their transcripts have been read, so that nothing is read twice. The
    salted hashes of values in their ``.env`` files are kept too, so that these values remain masked if a session
    continues.

    Args:
        session_refs: row ids of the sessions to clear of title, summary, branch and pull requests.
        session_ids: the agent's ids of the sessions to clear of shown memories and outcomes.
    """
    session, transcript = tables.Session, tables.Transcript
    tx.run(session.update(rolling_summary="", branch="", **NO_TITLE).where(in_json_list(session.id, session_refs)))
    tx.run(tables.PullRequest.delete().where(in_json_list(tables.PullRequest.session, session_refs)))
    tx.run(transcript.update(cursor_words="").where(in_json_list(transcript.session, session_refs)))
    for shown in (tables.Injection, tables.Shown, tables.Outcome):
        tx.run(shown.delete().where(in_json_list(shown.session_id, session_ids)))


def drop_summary(tx: Tx, of_session: ColumnBase) -> None:
    """Delete a model's summary of a session, which may repeat a deleted memory or erased words, and its title."""
    tx.run(tables.Session.update(rolling_summary="", **NO_TITLE).where(of_session))


def _drop_quotes(tx: Tx, memory: Memory, actor: Actor) -> None:
    """Delete everything in a memory except its summary. The history is deleted too, because it contains the rest."""
    if memory.content or memory.facts or memory.entities or memory.questions or memory.title:
        reason = "the text that it quoted was forgotten"
        erase_fields(tx, memory, reason, actor=actor, content="", facts=(), entities=(), questions=(), title="")


def _by_turn(store: Reader, sources: Collection[str]) -> dict[int, set[str]]:
    by_turn: dict[int, set[str]] = {}
    for source in sources:
        if (turn_id := turn_of_source(store, source)) is not None:
            by_turn.setdefault(turn_id, set()).add(source)
    return by_turn


def _turn_of_key(store: Reader, source: str) -> int | None:
    """Return the row id of the turn with this key, if it contains text without an id."""
    turn = tables.Turn
    turn_id = store.fetch_value(turn.select(turn.id).where(turn.key == source))
    return turn_id if turn_id is not None and queued_key(store, turn_id) else None


def queued_key(store: Reader, turn_id: int | None) -> str:
    """Return the key of a turn that contains text without an id, such as a queued prompt; "" for any other turn."""
    if turn_id is None:
        return ""
    turn, block = tables.Turn, tables.TextBlock
    unnamed = block.select(block.turn).where((block.turn == turn_id) & block.uuid.is_null())
    return store.fetch_value(turn.select(turn.key).where(turn.id.in_(unnamed))) or ""


def _said(store: Reader, turn_id: int) -> list[tuple[int, str, str, int | None]]:
    """Return (row id, id of the entry or key of the turn, text, time) for each text of a turn."""
    key = store.fetch_value(tables.Turn.select(tables.Turn.key).where(tables.Turn.id == turn_id))
    block = tables.TextBlock
    query = block.select(block.id, block.uuid, block.text, block.at_ms).where(block.turn == turn_id)
    rows = store.fetch(query.order_by(block.seq))
    return [(row.id, unpack_uuid(row.uuid) or key, row.text, row.at_ms) for row in rows]


def _calls(store: Reader, turn_id: int) -> list[dict[str, object]]:
    return unpack_facts(store.fetch_value(tables.Turn.select(tables.Turn.actions).where(tables.Turn.id == turn_id)))


def _key_of_call(call: dict[str, object]) -> bytes | None:
    """Return the key (``said_key``) of a tool call's command; None if the call has no command or no time."""
    command, at_ms = call.get("command"), call.get("at_ms")
    return said_key(at_ms, str(command)) if command and isinstance(at_ms, int) else None


def _sources_of_call(store: Reader, turn_id: int, call: dict[str, object]) -> set[str]:
    """Return the ids of the entries that contain a tool call and its result."""
    entries: Sequence[str] = ()
    sources = set()
    for name in ENTRY_FACTS:
        value = call.get(name)
        if isinstance(value, int):
            entries = entries or [entry.uuid for entry in entries_of_turn(store, turn_id)]
            sources.add(entries[value])
        elif isinstance(value, str):
            sources.add(value)
    return sources
