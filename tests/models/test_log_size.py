"""The write-ahead log is emptied once it has grown large, as soon as no reader stands in the way."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from engram.models.engine import transaction as store_module
from engram.models.engine.transaction import LOG_AGAIN_SECONDS, LOG_LIMIT_BYTES, Store
from engram.models.open_memory import open_store
from engram.system.clock import FixedClock


def write(store: Store, megabytes: int) -> None:
    for number in range(megabytes):
        with store.transaction() as tx:
            tx.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"k{number % 7}", secrets.token_hex(500_000)))


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_it_shrinks_after_the_reader_that_kept_it_has_gone(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOG_WAIT_MS", 1)
    path, clock = tmp_path / "memory.db", FixedClock()
    log = path.with_name("memory.db-wal")

    with open_store(path, driver=driver, clock=clock) as store, Store(path, driver=driver) as reader:
        with reader.snapshot():
            reader.value("SELECT count(*) FROM meta")
            write(store, 12)
            assert log.stat().st_size > LOG_LIMIT_BYTES
        clock.advance(LOG_AGAIN_SECONDS)

        write(store, 1)

        assert log.stat().st_size <= LOG_LIMIT_BYTES
        assert store.value("PRAGMA busy_timeout") == 5000
        assert store.find_damage() == ""


@pytest.mark.parametrize("driver", ["cysqlite", "sqlite3"])
def test_without_readers_it_never_grows_large(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "memory.db"
    largest = 0

    with open_store(path, driver=driver) as store:
        for _ in range(20):
            write(store, 2)
            largest = max(largest, path.with_name("memory.db-wal").stat().st_size)

    assert largest <= 16_000_000
