"""Who may write: nothing but a transaction, while it is open, in its own thread."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from pathlib import Path

import pytest

from engram.errors import StoreError
from engram.models import tables
from engram.models.engine import transaction
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Store, Tx
from engram.models.open_memory import open_store

PUT = "INSERT INTO meta (key, value) VALUES ('k', 'v')"


def rows(store: Store) -> int:
    return int(store.value("SELECT count(*) FROM meta WHERE key = 'k'"))


def test_a_store_has_no_writing_statement() -> None:
    written = {name for name in vars(Tx) if not name.startswith("_")}

    assert written == {"run", "insert", "insert_many", "insert_row", "update_row", "run_many"}
    assert not any(hasattr(Store, name) for name in written)


def test_a_transaction_commits_together_or_not_at_all(store: Store) -> None:
    def write_and_fail() -> None:
        with store.transaction() as tx:
            tx.run(PUT)
            assert tx.value("SELECT value FROM meta WHERE key = 'k'") == "v"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert rows(store) == 0

    with store.transaction() as tx:
        tx.run(PUT)
    assert rows(store) == 1


def test_a_nested_transaction_joins_the_outer_one(store: Store) -> None:
    def write_and_fail() -> None:
        with store.transaction() as outer:
            outer.run("INSERT INTO meta (key, value) VALUES ('outer', '')")
            with store.transaction() as inner:
                inner.run(PUT)
            assert rows(store) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()

    assert rows(store) == 0


@pytest.mark.parametrize("lost", ["memory.db", "memory.db-wal", "memory.db-shm"])
def test_a_transaction_refuses_to_write_where_nobody_would_see_it(store: Store, lost: str) -> None:
    with store.transaction() as tx:
        tx.run("INSERT INTO meta (key, value) VALUES ('before', '')")
    path = store.path.with_name(lost)
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").replace(path)

    with pytest.raises(StoreError, match="try again"), store.transaction() as tx:
        tx.run(PUT)

    path.unlink()
    with pytest.raises(StoreError, match="try again"), store.transaction() as tx:
        tx.run(PUT)


@pytest.mark.parametrize("lost", ["memory.db-wal", "memory.db-shm"])
def test_so_does_the_first_one_of_a_connection_that_has_only_read(store: Store, lost: str) -> None:
    with Store(store.path).open() as reader:
        assert rows(reader) == 0
        store.path.with_name(lost).unlink()

        with pytest.raises(StoreError, match="try again"), reader.transaction() as tx:
            tx.run(PUT)


def test_a_transaction_that_is_over_writes_nothing(store: Store) -> None:
    with store.transaction() as tx:
        pass

    with pytest.raises(RuntimeError):
        tx.run(PUT)
    with pytest.raises(RuntimeError):
        tx.insert(PUT)
    with pytest.raises(RuntimeError):
        tx.run_many("INSERT INTO meta (key, value) VALUES ('k', ?)", [("v",)])
    assert rows(store) == 0


def test_a_transaction_writes_nothing_in_another_thread(store: Store) -> None:
    refused: list[BaseException] = []

    def write(tx: Tx) -> None:
        try:
            tx.run(PUT)
        except RuntimeError as error:
            refused.append(error)
        finally:
            store.close()

    with store.transaction() as tx:
        thread = threading.Thread(target=write, args=(tx,))
        thread.start()
        thread.join()

    assert len(refused) == 1
    assert rows(store) == 0


def test_a_snapshot_stays_as_it_was(store: Store) -> None:
    with open_store(store.path) as other, store.snapshot() as reader:
        assert reader.value("SELECT count(*) FROM meta WHERE key = 'k'") == 0
        with other.transaction() as tx:
            tx.run(PUT)

        assert reader.value("SELECT count(*) FROM meta WHERE key = 'k'") == 0
    assert rows(store) == 1


def test_queries_of_peewee_and_sql_run_alike(store: Store) -> None:
    with store.transaction() as tx:
        row_id = tx.insert(tables.Entity.insert(kind="", name="sqlite"))
        tx.run(tables.Tombstone.insert(kind="episode", key=b"a", at_ms=1))
        assert tx.run(tables.Tombstone.update(at_ms=2).where(tables.Tombstone.key == b"a")) == 1
        assert tx.run("UPDATE tombstone SET at_ms = at_ms + 1 WHERE key = ?", (b"a",)) == 1

    rows = store.fetch(tables.Tombstone.select(tables.Tombstone.key, tables.Tombstone.at_ms))
    assert store.fetch_value(tables.Entity.select(tables.Entity.id)) == row_id
    assert [(row.key, row.at_ms) for row in rows] == store.rows("SELECT key, at_ms FROM tombstone") == [(b"a", 3)]
    assert store.fetch_first(tables.Tombstone.select().where(tables.Tombstone.key == b"b")) is None


def test_records_are_read_by_name(store: Store) -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Forgotten:
        at_ms: int
        kind: str

    records = RecordReader(Forgotten, tables.Tombstone, left_out=("key",))
    assert store.fetch_record(records, records.select()) is None
    with store.transaction() as tx:
        tx.run(tables.Tombstone.insert(kind="turn", key=b"k", at_ms=7))

    assert store.fetch_record(records, records.select()) == Forgotten(at_ms=7, kind="turn")
    assert store.fetch_records(records, records.select()) == [Forgotten(at_ms=7, kind="turn")]


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
@pytest.mark.parametrize("values", [2, 400])
@pytest.mark.parametrize("has_cause", [True, False])
def test_a_full_disk_is_named_wherever_a_transaction_meets_it(
    driver: str, values: int, has_cause: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a statement, whose pages no longer fit into the cache, or at the commit; SQLite rolls back by itself."""
    if has_cause:
        monkeypatch.setattr(transaction, "explain_disk", lambda path, **_: f"disk of {path.parent} is full: free space")

    def fill(store: Store) -> None:
        with store.transaction() as tx:
            for number in range(values):
                tx.run("INSERT INTO meta (key, value) VALUES (?, ?)", (f"k{number}", "x" * 20_000))

    with open_store(tmp_path / "memory.db", driver=driver) as store:
        pages = store.value("PRAGMA page_count")
        store.value(f"PRAGMA max_page_count = {pages}")
        for _ in range(2):
            with pytest.raises(StoreError, match="full") as failed:
                fill(store)
            assert "rollback" not in str(failed.value)
            assert ("free space" in str(failed.value)) is has_cause
        store.value(f"PRAGMA max_page_count = {pages + 10_000}")
        fill(store)
        assert store.value("SELECT count(*) FROM meta WHERE key LIKE 'k_%'") == values


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
@pytest.mark.parametrize("name", ["caf\udce9", "\udcff/\udcfe", "tail \ud800"])
def test_a_name_that_is_not_utf_8_is_stored_and_found(tmp_path: Path, driver: str, name: str) -> None:
    with open_store(tmp_path / "memory.db", driver=driver) as store:
        with store.transaction() as tx:
            tx.run("INSERT INTO meta (key, value) VALUES (?, 'kept')", (name,))
        written = store.value("SELECT key FROM meta WHERE value = 'kept'")

        assert written == "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in name)
        assert store.value("SELECT value FROM meta WHERE key = ?", (name,)) == "kept"
        assert not store.has_any(tables.Project.select(tables.Project.id).where(tables.Project.name == name))


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_who_waited_for_another_writer_in_vain_is_told_so(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "memory.db"
    with open_store(path, driver=driver) as other, Store(path, driver=driver, busy_ms=1) as store, other.transaction():
        with pytest.raises(StoreError, match="another process is taking unusually long") as told, store.transaction():
            pass

        assert "BEGIN" not in str(told.value)
