"""The one way in which tests write raw SQL: for states that no function of the program makes."""

from __future__ import annotations

from collections.abc import Sequence

from engram.models.engine.transaction import Store, Value


def plant_beside_index(store: Store, index: str, sql: str, parameters: Sequence[Value] = ()) -> int:
    """Run one writing statement that leaves an index as it is, as damage to the table's pages does."""
    where = "FROM sqlite_master WHERE name = ?"
    kept = store.rows(f"SELECT type, name, tbl_name, rootpage, sql {where}", (index,))

    def change_schema(statement: str, values: Sequence[Value]) -> None:
        plant(store, "PRAGMA writable_schema = 1")
        plant(store, statement, values)
        store.close()

    change_schema(f"DELETE {where}", (index,))
    changed = plant(store, sql, parameters)
    change_schema("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", kept[0])
    return changed


def plant(store: Store, sql: str, parameters: Sequence[Value] = ()) -> int:
    """Run one writing statement in a transaction of its own; returns how many rows it changed."""
    with store.transaction() as tx:
        return tx.run(sql, parameters)
