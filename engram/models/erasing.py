"""Erase the stored words of single entries: texts, passages, index, vectors and the facts of tool calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from engram.enums import Actor
from engram.models.entries import entries_of_turn, turn_of_entry
from engram.models.episode_changes import erase_fields
from engram.models.episodes import Episode, episodes_by_row, evidence_of
from engram.models.failures import replace_failed_calls
from engram.models.outcomes import drop_outcomes_of_turn
from engram.models.packed import pack_text
from engram.models.packed_actions import todos_of, unpack_facts
from engram.models.passages import drop_passages_of_texts
from engram.models.transaction import Reader, Tx
from engram.models.uuids import pack_uuid, unpack_uuid

#: Facts of a tool call that name its entries; stored as the place of the entry in the turn.
_ENTRY_FACTS = ("uuid", "result_uuid")


def sources_of(store: Reader, episode: Episode) -> list[str]:
    """The entries that a memory rests on, by uuid; a queued prompt of its turns goes by the key of its turn."""
    evidence = evidence_of(store, episode.id)
    turn_ids = dict.fromkeys(one.turn_id for one in evidence if one.turn_id is not None)
    queued = [key for turn_id in turn_ids if (key := _queued_key(store, turn_id))]
    return list(dict.fromkeys([*(one.uuid for one in evidence if one.uuid), *queued]))


def episodes_resting_on_source(store: Reader, source: str) -> list[Episode]:
    """Every memory that rests on an entry, or on the turn that a queued prompt opens."""
    rows = store.rows("SELECT episode_ref FROM evidence WHERE uuid = ?", (pack_uuid(source),))
    if (turn_id := _turn_of_key(store, source)) is not None:
        rows += store.rows("SELECT episode_ref FROM evidence WHERE turn_id = ?", (turn_id,))
    return list(episodes_by_row(store, sorted({int(row_id) for (row_id,) in rows})).values())


def turn_of_source(store: Reader, source: str) -> int | None:
    """Row id of the turn that an entry stands in; None where no turn holds it."""
    found = _turn_of_key(store, source)
    return turn_of_entry(store, source) if found is None else found


def source_texts(store: Reader, sources: Collection[str]) -> list[str]:
    """The stored words of entries: what was said, and the facts of tool calls."""
    texts: list[str] = []
    for turn_id, wanted in _by_turn(store, sources).items():
        texts += [text for _, source, text in _said(store, turn_id) if source in wanted]
        for call in _calls(store, turn_id):
            if _sources_of_call(store, turn_id, call) & wanted:
                texts += [str(call.get(name, "")) for name in ("command", "error_line", "commit", "refusal")]
                texts += [todo.text for todo in todos_of(call)]
    return [text for text in texts if text]


def erase_words(tx: Tx, sources: Collection[str], *, actor: Actor) -> int:
    """Delete the stored words of entries; returns how many turns lost some.

    The turns stay, with all their other words. A read or an extraction that is under way begins anew: it may hold the
    words still. Memories that rest on such an entry (only those out of force do) keep their summary and lose what they
    quote.
    """
    by_turn = _by_turn(tx, sources)
    for turn_id, wanted in by_turn.items():
        said_ids = [row_id for row_id, source, _ in _said(tx, turn_id) if source in wanted]
        drop_passages_of_texts(tx, turn_id, said_ids)
        tx.run_many("DELETE FROM said WHERE id = ?", [(row_id,) for row_id in said_ids])
        calls = _calls(tx, turn_id)
        kept = [call for call in calls if not _sources_of_call(tx, turn_id, call) & wanted]
        if len(kept) < len(calls):
            actions = pack_text(json.dumps(kept, ensure_ascii=False))
            tx.run("UPDATE turn SET actions = ? WHERE id = ?", (actions, turn_id))
            replace_failed_calls(tx, turn_id, kept)
        begin_anew(tx, turn_id)
        drop_outcomes_of_turn(tx, turn_id)
    for source in sources:
        for episode in episodes_resting_on_source(tx, source):
            _drop_quotes(tx, episode, actor)
    return len(by_turn)


def begin_anew(tx: Tx, turn_id: int) -> None:
    """Make a read or an extraction of this turn that is under way fail its compare-and-set.

    The session's rolling summary goes: it may tell what is erased, and the next extraction begins it anew.
    """
    tx.run(
        "UPDATE turn SET revision = revision + 1, updated_at_ms = ?, "
        "extracted_revision = extracted_revision + (extracted_revision = revision) WHERE id = ?",
        (tx.now_ms(), turn_id),
    )
    tx.run(
        "UPDATE transcript SET generation = generation + 1 WHERE id = (SELECT transcript_id FROM turn WHERE id = ?)",
        (turn_id,),
    )
    tx.run("UPDATE session SET rolling_summary = '' WHERE id = (SELECT session_ref FROM turn WHERE id = ?)", (turn_id,))


def _drop_quotes(tx: Tx, episode: Episode, actor: Actor) -> None:
    """Leave a memory nothing but its summary; its history told more."""
    if episode.content or episode.facts:
        erase_fields(tx, episode, "what it quoted was forgotten", actor=actor, content="", facts=())


def _by_turn(store: Reader, sources: Collection[str]) -> dict[int, set[str]]:
    by_turn: dict[int, set[str]] = {}
    for source in sources:
        if (turn_id := turn_of_source(store, source)) is not None:
            by_turn.setdefault(turn_id, set()).add(source)
    return by_turn


def _turn_of_key(store: Reader, source: str) -> int | None:
    """Row id of the turn of this key whose prompt has no uuid."""
    turn_id = store.value("SELECT id FROM turn WHERE key = ?", (source,))
    return None if turn_id is None or not _queued_key(store, int(turn_id)) else int(turn_id)


def _queued_key(store: Reader, turn_id: int) -> str:
    """The key of a turn that holds a text without a uuid; "" for any other."""
    sql = "SELECT key FROM turn t WHERE id = ? AND EXISTS (SELECT 1 FROM said WHERE turn_id = t.id AND uuid IS NULL)"
    return str(store.value(sql, (turn_id,)) or "")


def _said(store: Reader, turn_id: int) -> list[tuple[int, str, str]]:
    """(row id, entry's uuid or the turn's key, text) of everything said in a turn."""
    key = str(store.value("SELECT key FROM turn WHERE id = ?", (turn_id,)))
    rows = store.rows("SELECT id, uuid, text FROM said WHERE turn_id = ? ORDER BY seq", (turn_id,))
    return [(int(row_id), unpack_uuid(uuid) or key, str(text)) for row_id, uuid, text in rows]


def _calls(store: Reader, turn_id: int) -> list[dict[str, object]]:
    return unpack_facts(store.value("SELECT actions FROM turn WHERE id = ?", (turn_id,)))


def _sources_of_call(store: Reader, turn_id: int, call: dict[str, object]) -> set[str]:
    """The uuids of the entries of a tool call and its result."""
    entries: Sequence[str] = ()
    found = set()
    for name in _ENTRY_FACTS:
        value = call.get(name)
        if isinstance(value, int):
            entries = entries or [entry.uuid for entry in entries_of_turn(store, turn_id)]
            found.add(entries[value])
        elif isinstance(value, str):
            found.add(value)
    return found
