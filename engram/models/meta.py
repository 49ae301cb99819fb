"""Small facts about a memory, by name: the table ``meta``."""

from __future__ import annotations

from engram.models.transaction import Reader, Tx


def get_meta(store: Reader, key: str) -> str | None:
    """Return what is stored under a key; None where nothing is."""
    value = store.value("SELECT value FROM meta WHERE key = ?", (key,))
    return None if value is None else str(value)


def put_meta(tx: Tx, key: str, value: str) -> None:
    """Store a value under a key, in place of an earlier one."""
    tx.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
