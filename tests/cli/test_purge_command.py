"""``engram purge``: shows what would go, deletes with ``--yes`` alone, and says what it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from engram.enums import Actor, Importance, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records

Run = Callable[..., Result]
RunJson = Callable[..., Any]


@pytest.fixture
def archived(filled: Store) -> list[str]:
    """Ids of two archived memories, none of which is important."""
    chosen = memory_records.all_memories(filled)[:2]
    with filled.transaction() as tx:
        for memory in chosen:
            memory_changes.change_memory(
                tx,
                memory,
                "age",
                "not used for 180 days",
                status=Status.ARCHIVED,
                importance=Importance.NORMAL,
                actor=Actor.TIDYING,
            )
    return [memory.episode_id for memory in chosen]


def left(store: Store) -> set[str]:
    return {memory.episode_id for memory in memory_records.all_memories(store)}


def test_without_yes_it_shows_what_would_go_and_deletes_nothing(
    filled: Store, run: Run, run_json: RunJson, archived: list[str]
) -> None:
    before = left(filled)

    shown = run("purge", "--archived", "0").stdout
    facts = run_json("purge", "--archived", "0")

    assert all(kept in shown for kept in archived)
    assert "Nothing was deleted" in shown
    assert "can't be undone" in shown
    assert (facts["purged"], facts["count"], facts["run"]) == (False, 2, None)
    assert facts["bytes"] > 0
    assert {memory["id"] for memory in facts["memories"]} == set(archived)
    assert left(filled) == before
    assert "nothing to purge" in run("purge").stdout


def test_with_yes_they_are_gone_and_their_turns_stay(
    filled: Store, run: Run, run_json: RunJson, archived: list[str]
) -> None:
    turns = run_json("status")["turns"]

    facts = run_json("purge", "--archived", "0", "--yes")

    assert (facts["purged"], facts["count"]) == (True, 2)
    assert not left(filled) & set(archived)
    assert run_json("status")["turns"] == turns
    assert "no memory" in run("expand", archived[0], code=1).stderr
    assert "nothing to purge" in run("purge", "--archived", "0", "--yes").stdout


def test_a_named_memory_must_be_archived_and_options_do_not_mix_with_names(
    filled: Store, run: Run, archived: list[str]
) -> None:
    (active,) = [memory.episode_id for memory in memory_records.all_memories(filled) if memory.status == "active"][:1]

    assert "is active" in run("purge", active, "--yes", code=1).stderr
    assert "not both" in run("purge", archived[0], "--archived", "5", code=2).stderr
    assert "no memory" in run("purge", "ep_000000000000", code=1).stderr
    assert "Purged 1 memory" in run("purge", archived[0], "--yes").stdout
    assert archived[0] not in left(filled)
    assert archived[1] in left(filled)


def test_what_was_purged_comes_back_from_an_export_and_what_was_forgotten_does_not(
    filled: Store, run: Run, run_json: RunJson, archived: list[str], tmp_path: Any
) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text(run("export").stdout)

    run("purge", *archived, "--yes")
    run("import", str(path))
    assert left(filled) >= set(archived)

    for episode_id in archived:
        run("forget", episode_id, "--yes")
    assert run_json("import", str(path))["forgotten"] == len(archived)
    assert not left(filled) & set(archived)
