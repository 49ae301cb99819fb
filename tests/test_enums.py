"""The enums of a memory: parsed from people's words, stored as their values, read from damaged rows too."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engram import enums
from engram.enums import Actor, Importance, Kind, Scope, Source, Status, StoredEnum, Voice
from engram.errors import BadRequest
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import ENUM_FIELDS, Memory, all_memories, find_memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.search.fulltext import search_rows

ENUMS = StoredEnum.__subclasses__()


def test_a_memory_is_current_until_it_is_replaced_or_set_aside() -> None:
    assert {status: status.is_current for status in Status} == {
        Status.ACTIVE: True,
        Status.PROVISIONAL: True,
        Status.SUPERSEDED: False,
        Status.ARCHIVED: False,
    }


@pytest.mark.parametrize("enum", ENUMS)
def test_an_unknown_word_is_refused_with_the_list_of_choices(enum: type[StoredEnum]) -> None:
    with pytest.raises(BadRequest) as refused:
        enum.parse("nonsense")

    assert "nonsense" in str(refused.value)
    assert all(value in str(refused.value) for value in enum.values())
    assert [enum.parse(value) for value in enum.values()] == list(enum)


@pytest.mark.parametrize("enum", ENUMS)
@pytest.mark.parametrize("damaged", ["", "ACTIVE?", None, 7, b"active"])
def test_a_damaged_value_is_read_as_the_member_that_grants_least(enum: type[StoredEnum], damaged: object) -> None:
    assert enum.from_stored(damaged) is enum.safest()


def test_what_grants_least_is_hidden_from_others_and_not_current() -> None:
    assert not Status.safest().is_current
    assert Scope.safest() is Scope.PROJECT
    assert Voice.safest() is not Voice.USER
    assert Source.safest() is Source.AUTO


def test_every_enum_field_of_an_memory_is_read_as_its_enum() -> None:
    enum_names = {name for name in dir(enums) if isinstance(getattr(enums, name), type)}

    assert {name for name, value in Memory.__annotations__.items() if value in enum_names} == set(ENUM_FIELDS)


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_a_damaged_row_costs_no_other_row(tmp_path: Path, driver: str) -> None:
    """Both drivers store the plain values, and a listing survives a row whose values are none of them."""
    store = open_store(tmp_path / "memory.db", driver=driver)
    first = Memory(new_memory_id(), Kind.DEAD_END, "first", "x", voice=Voice.CHOSEN, status=Status.PROVISIONAL)
    second = Memory(new_memory_id(), Kind.FIX, "second", "y", scope=Scope.GLOBAL, importance=Importance.HIGH)
    with store.transaction() as tx:
        first, second = (add_memory(tx, memory, [], actor=Actor.MODEL) for memory in (first, second))
    columns = ", ".join(ENUM_FIELDS)
    stored = store.row(f"SELECT {columns} FROM episode WHERE id = ?", (first.id,))
    with store.transaction() as tx:
        tx.run("PRAGMA ignore_check_constraints = 1")
        tx.run(
            f"UPDATE episode SET {', '.join(f'{name} = ?' for name in ENUM_FIELDS)} WHERE id = ?",
            (*["damaged"] * len(ENUM_FIELDS), second.id),
        )

    damaged, sound = find_memory(store, second.episode_id), find_memory(store, first.episode_id)

    assert stored is not None
    assert [type(value) for value in stored] == [str] * len(ENUM_FIELDS)
    assert stored == ("dead-end", "project", "normal", "auto", "chosen", "provisional")
    assert sound == first
    assert damaged is not None
    assert {name: getattr(damaged, name) for name in ENUM_FIELDS} == {
        name: enum.safest() for name, enum in ENUM_FIELDS.items()
    }
    assert [memory.summary for memory in all_memories(store)] == ["first", "second"]
    assert {row.status for row in search_rows(store, [first.id, second.id]).values()} == {
        Status.PROVISIONAL,
        Status.ARCHIVED,
    }
    store.close()


def test_json_and_the_command_line_show_values() -> None:
    @click.command()
    @click.option("--scope", type=click.Choice(Scope.values()))
    def show(scope: str) -> None:
        click.echo(Scope(scope))

    runner = CliRunner()

    assert json.loads(json.dumps({Kind.FIX: Status.ACTIVE})) == {"fix": "active"}
    assert runner.invoke(show, ["--scope", "global"]).output == "global\n"
    assert "'project', 'global'" in runner.invoke(show, ["--scope", "planet"]).output
