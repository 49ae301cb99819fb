"""What hangs on a memory is found and goes with it, and no byte of it stays in the file."""

from __future__ import annotations

import json
import resource
import struct
from collections.abc import Callable

import pytest

from engram.enums import Actor, Source, Status
from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_changes
from engram.models.memories.judgements import note_contradiction, open_contradictions
from engram.models.memories.memory_history import add_run, find_run, history_of
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory
from engram.models.memories.tombstones import CutMemory, Forgotten, TombstoneKind, add_tombstones, is_memory_gone
from engram.models.open_memory import open_store
from engram.models.sessions.stored_turns import load_turn
from engram.system.clock import FixedClock
from tests.models.conversations import make_turn, store_turn

Keep = Callable[..., Memory]
WORD = "zebrafinch"


def is_kept(text: str) -> bool:
    return WORD not in text


def delete(store: Store, forgotten: Forgotten) -> int:
    with store.transaction() as tx:
        return forget_memories.delete_forgotten(tx, forgotten, actor=Actor.USER)


def test_the_turns_of_a_memory_are_found_by_row_and_by_entry(store: Store, keep: Keep) -> None:
    by_row = store_turn(store, make_turn("t1", "first", session_id="s1"))
    by_entry = store_turn(store, make_turn("t2", "second", session_id="s2"))
    other = store_turn(store, make_turn("t3", "third", session_id="s3"))
    memory = keep("rests", evidence=[Evidence("gone", "s1", by_row), Evidence("t2", "s2")])

    turn_ids = forget_memories.turn_ids_of(store, memory)

    assert turn_ids == [by_row, by_entry]
    assert [one.episode_id for one in forget_memories.memories_resting_on(store, turn_ids)] == [memory.episode_id]
    assert forget_memories.memories_resting_on(store, [other]) == []
    assert forget_memories.turn_texts(store, turn_ids) == ["first", "second"]
    assert forget_memories.sessions_of_turns(store, turn_ids) == ["s1", "s2"]
    assert forget_memories.turn_keys(store, turn_ids) == ["t1", "t2"]


def test_named_memories_and_turns_go_and_what_is_not_there_is_passed_over(store: Store, keep: Keep) -> None:
    store_turn(store, make_turn("t1", "goes"))
    store_turn(store, make_turn("t2", "stays"))
    goes, stays = keep("goes"), keep("stays")

    done = delete(store, Forgotten(episode_ids=(goes.episode_id, "ep_000000000000"), turn_keys=("t1", "unknown")))

    assert done == 2
    assert (find_memory(store, goes.episode_id), load_turn(store, "t1")) == (None, None)
    assert find_memory(store, stays.episode_id) == stays
    assert load_turn(store, "t2") is not None
    assert is_memory_gone(store, goes.episode_id, with_purged=False)


def test_a_memory_that_had_taken_up_the_words_is_cut_and_no_history_tells_them(store: Store, keep: Keep) -> None:
    goes = keep(WORD)
    host = keep("host", evidence=[Evidence("a" * 32, "s1"), Evidence("b" * 32, "s1")])
    with store.transaction() as tx:
        host = memory_changes.change_memory(
            tx, host, "merge", f"from {goes.episode_id}", actor=Actor.TIDYING, summary=f"host | {WORD}"
        )

    delete(
        store,
        Forgotten(
            episode_ids=(goes.episode_id,),
            erased=("b" * 32,),
            cut=CutMemory(host.episode_id, "host", "content of host", ()),
        ),
    )

    after = find_memory(store, host.episode_id)
    assert after is not None
    assert after.summary == "host"
    assert [one.uuid for one in evidence_of(store, host.id)] == ["a" * 32]
    steps = history_of(store, host.episode_id)
    assert all(is_kept(json.dumps([step.reason, dict(step.before), dict(step.after)])) for step in steps)


@pytest.mark.parametrize(
    ("source", "kind", "is_deleted"),
    [
        (Source.AUTO, TombstoneKind.WORDS, True),
        (Source.AUTO, TombstoneKind.ENTRY, True),
        (Source.MANUAL, TombstoneKind.WORDS, False),
    ],
)
def test_tombstones_take_automatic_memories_of_erased_words(
    store: Store, keep: Keep, source: Source, kind: TombstoneKind, is_deleted: bool
) -> None:
    memory = keep("rests", evidence=[Evidence("a" * 32, "s1")], source=source)
    other = keep("rests elsewhere", evidence=[Evidence("b" * 32, "s1")])
    with store.transaction() as tx:
        add_tombstones(tx, kind, [pack_uuid("a" * 32)])
        forget_memories.apply_tombstones(tx, actor=Actor.TIDYING)

    assert (find_memory(store, memory.episode_id) is None) == is_deleted
    assert find_memory(store, other.episode_id) is not None


def test_what_a_forgotten_memory_had_replaced_is_current_again(store: Store, keep: Keep) -> None:
    older, newer = keep("older"), keep("newer")
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx, older, "supersede", actor=Actor.MODEL, status=Status.SUPERSEDED, superseded_by=newer.episode_id
        )
        add_tombstones(tx, TombstoneKind.MEMORY, [newer.episode_id.encode()])

        assert forget_memories.apply_tombstones(tx, actor=Actor.TIDYING) == 1

    after = find_memory(store, older.episode_id)
    assert after is not None
    assert (after.status, after.superseded_by) == (Status.ACTIVE, "")


def test_reports_and_notes_to_undo_lose_the_lines_that_quote_it(store: Store) -> None:
    report = {"lines": [f"merged {WORD}", "aged one"], "files_before": {"N.md": f"keep\nsay {WORD}\n", "M.md": "m\n"}}
    with store.transaction() as tx:
        run_id = add_run(tx, "consolidate", report)
        forget_memories.clean_runs(tx, is_kept)

    run = find_run(store, run_id)
    assert run is not None
    assert dict(run.report) == {"lines": ["aged one"], "files_before": {"N.md": "keep\n", "M.md": "m\n"}}


def test_a_note_that_an_undo_shall_leave_is_left_out(store: Store) -> None:
    with store.transaction() as tx:
        run_id = add_run(tx, "consolidate", {"files_before": {"N.md": WORD, "M.md": "m"}})
        forget_memories.clean_runs(tx, is_kept, lambda name, text: None if name == "N.md" else text)

    run = find_run(store, run_id)
    assert run is not None
    assert dict(run.report) == {"files_before": {"M.md": "m"}}


def test_steps_and_contradictions_that_quote_it_are_cleaned(store: Store, keep: Keep) -> None:
    first, second = keep("first"), keep("second")
    with store.transaction() as tx:
        memory_changes.change_memory(tx, first, "edit", actor=Actor.USER, summary=f"{WORD} \u2028 quoted")
        memory_changes.change_memory(tx, second, "edit", "a typo", actor=Actor.USER, summary="other")
        note_contradiction(tx, first.episode_id, second.episode_id, f"both say {WORD}")
        forget_memories.clean_reasons(tx, is_kept)

    assert [step.action for step in history_of(store, first.episode_id)] == ["add"]
    assert [step.action for step in history_of(store, second.episode_id)] == ["add", "edit"]
    (contradiction,) = open_contradictions(store)
    assert is_kept(contradiction.reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": ["x", {"b": "y\\u00e9"}], "n": 3}', {"x", "yé"}),
        ('"plain"', {"plain"}),
        ("no json", {"no json"}),
        ("[" * 100_000, {"[" * 100_000}),
    ],
)
def test_texts_in_json_are_read_without_its_escapes(text: str, expected: set[str]) -> None:
    assert set(forget_memories.texts_in_json(text)) == expected


def test_no_byte_of_a_deleted_memory_stays_in_the_file_or_its_log(store: Store, keep: Keep) -> None:
    store_turn(store, make_turn("t1", f"say {WORD}"))
    goes = keep(WORD, entities=(WORD,), questions=(f"What is {WORD}?",))
    for number in range(20):
        keep(f"filler {number}")
    files = [store.path, store.path.with_name("memory.db-wal")]
    store.checkpoint("TRUNCATE")
    assert WORD.encode() in store.path.read_bytes()

    delete(store, Forgotten(episode_ids=(goes.episode_id,), turn_keys=("t1",)))
    forget_memories.wipe_free_space(store)

    assert [WORD.encode() in path.read_bytes() for path in files] == [False, False]
    assert store.find_damage() == ""


@pytest.mark.parametrize("max_in_memory", [0, 64_000_000])
def test_no_byte_stays_where_a_page_was_rearranged(
    store: Store, keep: Keep, monkeypatch: pytest.MonkeyPatch, max_in_memory: int
) -> None:
    monkeypatch.setattr(forget_memories, "_MAX_IN_MEMORY_BYTES", max_in_memory)
    for number in range(20):
        keep(f"filler {number}")
    store.checkpoint("TRUNCATE")
    data = store.path.read_bytes()
    page_bytes = int(store.value("PRAGMA page_size"))
    marked = 0
    for page in range(page_bytes, len(data), page_bytes):
        # A leaf of a table: its type, the number of cells, and where their content begins.
        kind, _, cells, content = struct.unpack(">BHHH", data[page : page + 7])
        if kind == 13 and cells and content - 8 - 2 * cells > len(WORD):
            with store.path.open("r+b") as file:
                file.seek(page + content - len(WORD))
                file.write(WORD.encode())
            marked += 1
    ids = store.rows("SELECT rowid, episode_id FROM episode")
    found = store.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH 'filler'")

    forget_memories.wipe_free_space(store)

    assert marked
    assert WORD.encode() not in store.path.read_bytes()
    assert store.find_damage() == ""
    assert store.rows("SELECT rowid, episode_id FROM episode") == ids
    assert found
    assert store.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH 'filler'") == found


def test_without_room_the_wipe_stays_due_and_is_done_later(store: Store, keep: Keep) -> None:
    goes = keep(WORD, entities=(WORD,))
    for number in range(20):
        keep(f"filler {number}")
    log = store.path.with_name("memory.db-wal")
    delete(store, Forgotten(episode_ids=(goes.episode_id,)))
    store.checkpoint("TRUNCATE")
    assert WORD.encode() in store.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.path.stat().st_size // 2, limits[1]))
    try:
        reason = forget_memories.finish_wipe(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert reason.startswith("memory.db: ")
    assert find_memory(store, goes.episode_id) is None

    assert forget_memories.finish_wipe(store) == ""

    assert [WORD.encode() in path.read_bytes() for path in (store.path, log)] == [False, False]
    assert store.find_damage() == ""
    size, is_there = store.path.stat().st_size, store.path.stat().st_mtime_ns
    assert forget_memories.finish_wipe(store) == ""
    assert (store.path.stat().st_size, store.path.stat().st_mtime_ns, log.stat().st_size) == (size, is_there, 0)


def test_a_deletion_during_a_wipe_stays_due(
    store: Store, keep: Keep, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = keep(WORD, entities=(WORD,)), keep(f"{WORD} again", entities=(WORD,))
    delete(store, Forgotten(episode_ids=(first.episode_id,)))
    run = store.row

    def run_beside_another(sql: str) -> object:
        done = run(sql)
        if sql == "VACUUM":
            clock.advance(1)
            with open_store(store.path, clock=clock) as other:
                delete(other, Forgotten(episode_ids=(second.episode_id,)))
        return done

    with monkeypatch.context() as patch:
        patch.setattr(store, "row", run_beside_another)
        assert forget_memories.finish_wipe(store) == ""

    assert forget_memories.finish_wipe(store) == ""

    assert WORD.encode() not in store.path.read_bytes()
