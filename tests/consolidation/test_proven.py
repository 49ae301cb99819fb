"""What graduates was used in three sessions and confirmed by a person or a test; why something does not is said."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from showing import show_and_use

from engram.cli.main import engram
from engram.consolidation import graduation
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.graduation import confirmed_by, why_not_proven
from engram.consolidation.step_context import Context
from engram.enums import Actor, Importance, Judgement, Scope, Source, Status, Voice
from engram.forgetting.forget import forget_memory
from engram.memories.correct import judge_memory, take_back_judgement
from engram.memories.save import edit_memory
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import Usefulness
from engram.models.memories.memory_changes import change_memory, note_access
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, all_memories
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock

Keep = Callable[..., Memory]


def note(settings: Settings) -> str:
    path = settings.places.memory_note
    return path.read_text() if path.exists() else ""


def confirm(store: Store, memory: Memory, reason: str) -> None:
    with store.transaction() as tx:
        change_memory(tx, memory, "confirm", reason, actor=Actor.TIDYING, confirmations=1)


@pytest.mark.parametrize("event", ["test", "agreed", "edited", "helpful"])
def test_the_assistants_words_graduate_once_used_and_confirmed(
    store: Store, settings: Settings, keep: Keep, event: str
) -> None:
    memory = keep("The tide gate opens at six")
    show_and_use(store, memory.episode_id)
    consolidate(store, settings, is_forced=True)
    assert "tide gate" not in note(settings)

    if event == "test":
        confirm(store, memory, "a test passed: pytest -q")
    elif event == "agreed":
        confirm(store, memory, "the user agreed")
    elif event == "edited":
        edit_memory(store, memory.episode_id, redact, content="The tide gate opens at six.", actor=Actor.USER)
    else:
        judge_memory(store, memory.episode_id, Judgement.HELPFUL, "yes", redact, actor=Actor.USER)
    consolidate(store, settings, is_forced=True)

    assert memory.episode_id in note(settings)


def test_no_expand_by_a_person_no_repetition_and_no_agents_praise_makes_a_memory_graduate(
    store: Store, settings: Settings, keep: Keep
) -> None:
    opened, praised = keep("we use npm", voice=Voice.USER), keep("The tide gate opens at six")
    for _ in range(9):
        note_access(store, opened.episode_id)
    show_and_use(store, praised.episode_id)
    judge_memory(store, praised.episode_id, Judgement.HELPFUL, "yes", redact, actor=Actor.AGENT)
    confirm(store, praised, "it came back in another session")

    consolidate(store, settings, is_forced=True)

    assert note(settings) == ""


def test_praise_that_was_withdrawn_confirms_nothing(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    judge_memory(store, memory.episode_id, Judgement.HELPFUL, "yes", redact, actor=Actor.USER)
    assert confirmed_by(memory, history_of(store, memory.episode_id)) == "the user judged it helpful"

    take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert confirmed_by(memory, history_of(store, memory.episode_id)) == ""


def test_why_not_names_everything_that_is_missing() -> None:
    def why(used: int = 0, **fields: Any) -> str:
        memory = Memory("ep_000000000001", **{"kind": "fact", "summary": "x", "content": ""} | fields)
        return why_not_proven(memory, Usefulness(used=used), (), now_ms=100 * 86_400_000)

    assert why(1) == "used in 1 of 3 sessions, not confirmed by the user or a test"
    assert why(3) == "not confirmed by the user or a test"
    assert why(2, voice=Voice.USER) == "used in 2 of 3 sessions"
    assert why(3, voice=Voice.CHOSEN, status=Status.PROVISIONAL) == "provisional"
    assert why(3, voice=Voice.USER, is_lowered=True) == "judged wrong"
    assert why(3, voice=Voice.USER, suspect="orders") == "suspect: orders"
    assert why(3, voice=Voice.USER, graduated_at_ms=1) == "it already has a line"
    assert why(3, voice=Voice.AGENT, source=Source.MANUAL) == "not confirmed by the user or a test"
    assert why(3, voice=Voice.USER) == ""
    assert why(0, voice=Voice.USER, importance=Importance.HIGH, scope=Scope.GLOBAL) == ""


def test_a_dry_run_and_expand_say_why_a_used_memory_does_not_graduate(
    store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_HOME", str(settings.home))
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    memory = keep("The tide gate opens at six")
    keep("Never used")
    show_and_use(store, memory.episode_id, 7, used=1)
    reason = "used in 1 of 3 sessions, not confirmed by the user or a test"

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(engram, list(arguments))
        assert result.exit_code == 0, result.output
        return result.stdout

    facts = json.loads(run("consolidate", "--dry-run", "--json"))
    assert facts["not_graduating"] == [f"{memory.episode_id} ({reason}): The tide gate opens at six"]
    assert f"not graduating yet: {memory.episode_id} ({reason})" in run("consolidate", "--dry-run")
    shown = run("expand", memory.episode_id, "--why")
    assert f"not in it: {reason}" in shown
    assert "shown in 7 sessions, used in 1" in shown
    assert json.loads(run("expand", memory.episode_id, "--json"))["uses"] == {
        "shown_sessions": 7,
        "used_sessions": 1,
        "unused_in_a_row": 0,
        "sunk": 0.0,
        "judgement": None,
    }


def test_an_exact_duplicate_of_a_wrong_memory_goes_into_it(store: Store, settings: Settings, keep: Keep) -> None:
    trusted = keep("The tide gate opens at six", content="same", importance=Importance.HIGH)
    wrong = keep("The tide gate opens at six", content="same")
    judge_memory(store, wrong.episode_id, Judgement.WRONG, "at seven", redact, actor=Actor.USER)

    consolidate(store, settings, is_forced=True)

    states = {memory.episode_id: (memory.is_current, memory.is_lowered) for memory in all_memories(store)}
    assert states == {trusted.episode_id: (False, False), wrong.episode_id: (True, True)}


def test_a_wrong_memory_is_not_merged_with_one_that_nearly_says_the_same(
    store: Store, settings: Settings, keep: Keep
) -> None:
    wrong, other = keep("the queue is SQLite"), keep("SQLite holds the queue")
    judge_memory(store, wrong.episode_id, Judgement.WRONG, "it is Redis", redact, actor=Actor.USER)

    consolidate(store, settings, similar=lambda *_: iter([(wrong.id, other.id, 0.95)]), is_forced=True)

    assert all(memory.is_current for memory in all_memories(store))


def test_a_memory_that_is_forgotten_meanwhile_gets_no_line(
    store: Store, settings: Settings, keep: Callable[..., Memory], clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = keep("always write tests", voice=Voice.USER, importance=Importance.HIGH, content="")
    clock.advance(15 * 86_400)
    lock = graduation.notes_lock

    def forget_first(home: Home) -> contextlib.AbstractContextManager[None]:
        monkeypatch.setattr(graduation, "notes_lock", lock)
        forget_memory(store, settings.places, memory.episode_id, actor=Actor.USER)
        return lock(home)

    monkeypatch.setattr(graduation, "notes_lock", forget_first)
    graduation.graduate(Context(store, settings))

    assert not settings.places.memory_note.exists()


def test_the_line_of_an_edited_memory_follows_and_one_edited_by_the_user_stays(
    store: Store, settings: Settings, keep: Callable[..., Memory], clock: FixedClock
) -> None:
    rules = [
        keep(summary, voice=Voice.USER, importance=Importance.HIGH, content="")
        for summary in ("always write tests", "always write docs")
    ]
    clock.advance(15 * 86_400)
    consolidate(store, settings, is_forced=True)
    note = settings.places.memory_note
    note.write_text(note.read_text().replace("always write docs", "my own words"))

    for rule in rules:
        edit_memory(store, rule.episode_id, redact, summary=f"{rule.summary} first", actor=Actor.USER)
    consolidate(store, settings, is_forced=True)

    text = note.read_text()
    assert [text.count(words) for words in ("always write tests first", "my own words", "always write docs")] == [
        1,
        1,
        0,
    ]
    assert text.count("always write tests") == 1
