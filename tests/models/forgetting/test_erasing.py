"""Words of single entries are erased: text, passages, index and facts go, the rest of the turn stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.forgetting import erase_entries
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.sessions.stored_turns import load_turn
from engram.transcripts.turns import Action
from tests.models.conversations import make_turn, store_turn

PROMPT, REPLY = "t1", "t1-reply"


def found(store: Store, word: str) -> int:
    return len(store.rows("SELECT rowid FROM passage_fts WHERE passage_fts MATCH ?", (word,)))


def erase(store: Store, *sources: str) -> int:
    with store.transaction() as tx:
        return erase_entries.erase_words(tx, sources, actor=Actor.USER)


def test_only_the_words_of_the_entry_go(store: Store) -> None:
    store_turn(store, make_turn(PROMPT, "ask about the zebra", "the walrus knows"))

    assert erase(store, REPLY) == 1

    turn = load_turn(store, PROMPT)
    assert turn is not None
    assert [block.text for block in turn.turn.said] == ["ask about the zebra"]
    assert (found(store, "zebra") > 0, found(store, "walrus")) == (True, 0)
    assert store.find_damage() == ""


def test_the_facts_of_a_tool_call_go_with_its_entry(store: Store) -> None:
    actions = (
        Action("", "Bash", REPLY, command="rm zebra", result_uuid=PROMPT),
        Action("", "Bash", PROMPT, command="ls"),
    )
    turn_id = store_turn(store, make_turn(PROMPT, "do it", "doing it", actions=actions))
    assert erase_entries.source_texts(store, [REPLY]) == ["doing it", "rm zebra"]

    assert erase(store, REPLY) == 1

    turn = load_turn(store, PROMPT)
    assert turn is not None
    assert [action.command for action in turn.turn.actions] == ["ls"]
    assert erase_entries.turn_of_source(store, PROMPT) == turn_id


def test_a_read_or_extraction_under_way_starts_again(store: Store) -> None:
    turn_id = store_turn(store, make_turn(PROMPT, "ask", "answer"))
    state = "SELECT t.revision, s.generation FROM turn t JOIN transcript s ON s.id = t.transcript_id WHERE t.id = ?"
    (revision, generation) = store.rows(state, (turn_id,))[0]
    with store.transaction() as tx:
        tx.run("UPDATE session SET rolling_summary = 'tells of the answer'")

    erase(store, REPLY)

    assert store.rows(state, (turn_id,)) == [(revision + 1, generation + 1)]
    assert store.value("SELECT rolling_summary FROM session") == ""


def test_a_memory_that_quotes_the_entry_keeps_its_summary_alone(store: Store, keep: Callable[..., Memory]) -> None:
    turn_id = store_turn(store, make_turn(PROMPT, "ask", "the walrus knows"))
    memory = keep(
        "who knows", content="the walrus knows", facts=("walrus.py",), evidence=[Evidence(REPLY, "s1", turn_id)]
    )
    assert [one.episode_id for one in erase_entries.memories_resting_on_source(store, REPLY)] == [memory.episode_id]

    erase(store, REPLY)

    after = find_memory(store, memory.episode_id)
    assert after is not None
    assert (after.summary, after.content, after.facts) == ("who knows", "", ())
    assert [step.action for step in history_of(store, memory.episode_id)] == ["erase"]


def test_a_queued_prompt_goes_by_the_key_of_its_turn(store: Store, keep: Callable[..., Memory]) -> None:
    turn = make_turn("queued-key", "about the zebra")
    without_uuid = tuple(dataclasses.replace(block, uuid="") for block in turn.said)
    turn_id = store_turn(store, make_turn("queued-key", "", said=without_uuid, entries=()))
    memory = keep("rests on it", evidence=[Evidence("", "s1", turn_id)])

    assert erase_entries.sources_of(store, memory) == ["queued-key"]
    assert erase_entries.source_texts(store, ["queued-key"]) == ["about the zebra"]
    assert erase(store, "queued-key") == 1
    assert found(store, "zebra") == 0
    assert erase_entries.source_texts(store, ["queued-key"]) == []


def test_an_unknown_entry_changes_nothing(store: Store) -> None:
    store_turn(store, make_turn(PROMPT, "ask", "answer"))

    assert erase(store, "f" * 32) == 0
    assert erase_entries.turn_of_source(store, "f" * 32) is None
