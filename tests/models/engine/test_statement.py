"""A prepared query is compiled once, and every call asks with its own values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from peewee import ModelSelect, ModelUpdate

from engram.models import tables
from engram.models.engine.statement import compile_query, in_json_list, prepared
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store

built: list[str] = []


@prepared
def keys_of(kind: str, ids: str, limit: int = 10) -> ModelSelect[tables.Work]:
    """Keys of some work of a kind."""
    built.append("keys_of")
    query = tables.Work.select(tables.Work.key).where((tables.Work.kind == kind) & in_json_list(tables.Work.id, ids))
    return query.order_by(tables.Work.id).limit(limit)


@prepared
def finish(key: str, now_ms: int) -> ModelUpdate:
    """End the work of a key."""
    return tables.Work.update(state="done", updated_at_ms=now_ms).where(tables.Work.key == key)


@pytest.fixture(params=["sqlite3", "cysqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "memory.db", driver=request.param) as opened:
        with opened.transaction() as tx:
            tx.insert_many(
                tables.Work,
                [
                    {
                        "kind": "embed" if n % 2 else "scan",
                        "key": str(n),
                        "state": "due",
                        "due_at_ms": 1,
                        "updated_at_ms": 0,
                    }
                    for n in range(2_000)
                ],
            )
        yield opened


def test_each_call_asks_with_its_own_values_and_compiles_nothing(store: Store) -> None:
    built.clear()

    assert store.fetch_values(keys_of("embed", "[1, 2, 4]")) == ["1", "3"]
    assert store.fetch_values(keys_of("scan", "[1, 2, 4]", limit=1)) == ["0"]

    assert built in (["keys_of"], [])
    assert keys_of("x", "[]").sql == keys_of("y", "[1]").sql


def test_sqlite_plans_a_query_without_its_arguments() -> None:
    assert keys_of("x", "[]").sql.count("+?") == 3
    assert finish("x", 1).sql.count("+?") == 2


def test_any_number_of_values_is_one_parameter(store: Store) -> None:
    many = json.dumps(list(range(1, 2_001)))

    assert len(store.fetch_values(keys_of("embed", many, limit=5_000))) == 1_000


def test_a_prepared_change_says_how_many_rows_it_changed(store: Store) -> None:
    with store.transaction() as tx:
        assert tx.run(finish("5", 77)) == 1
        assert tx.run(finish("nothing", 77)) == 0

    row = store.fetch_first(tables.Work.select().where(tables.Work.key == "5"))
    assert (row.state, row.updated_at_ms) == ("done", 77)


def test_a_query_is_compiled_in_the_dialect_of_sqlite() -> None:
    statement = compile_query(tables.Work.select(tables.Work.id).where(tables.Work.key == "a").limit(3))

    assert "?" in statement.sql
    assert statement.parameters == ("a", 3)
    assert compile_query(statement) is statement


def test_a_wrong_argument_is_told_at_the_call() -> None:
    with pytest.raises(TypeError, match="colour"):
        keys_of("embed", "[]", colour=1)  # type: ignore[call-arg]
