"""Cheap questions to an open memory.db: has it changed, is it whole, who holds leases."""

from __future__ import annotations

from engram.models.store import Store
from engram.models.transaction import Reader
from engram.models.work import BACK_OFF_SECONDS, Work


def data_version(store: Reader) -> int:
    """A number that differs once another connection has changed the database; it means nothing else."""
    return int(store.value("PRAGMA data_version") or 0)


def quick_damage(store: Reader) -> str:
    """What a quick check finds wrong with the file; "" where all is well. Raises BrokenDatabase where it cannot look."""
    found = store.value("PRAGMA quick_check(1)")
    return "" if found in (None, "ok") else str(found)


def file_identity(store: Reader) -> tuple[int, int] | None:
    """Device and inode of memory.db now; None where there is none. Another one than at the start: it was replaced."""
    try:
        facts = store.path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def lease_owners(store: Reader) -> dict[str, str]:
    """Name of a lease → its owner, for those that are held."""
    return {str(name): str(owner) for name, owner in store.rows("SELECT name, owner FROM lease WHERE owner <> ''")}


def drop_lease(store: Store, name: str, owner: str) -> None:
    """Take a lease from an owner that is gone; its last run stays as it is, one that never ran leaves nothing."""
    with store.transaction() as tx:
        tx.run("DELETE FROM lease WHERE name = ? AND owner = ? AND last_run_ms = 0", (name, owner))
        tx.run("UPDATE lease SET owner = '', until_ms = 0 WHERE name = ? AND owner = ?", (name, owner))


def note_crash(store: Store, work: Work, error: str, *, free: int, max_attempts: int) -> None:
    """The process died while it was at this work: ``free`` times may be chance, then it waits, and is dead in the end."""
    attempts = work.attempts + 1
    wait = 0 if attempts <= free else BACK_OFF_SECONDS[min(attempts - free, len(BACK_OFF_SECONDS)) - 1]
    with store.transaction() as tx:
        tx.run(
            "UPDATE work SET state = ?, attempts = ?, last_error = ?, due_at_ms = ?, updated_at_ms = ? "
            "WHERE id = ? AND state = 'due'",
            (
                "dead" if attempts >= max_attempts else "due", attempts, error, store.now_ms() + wait * 1000,
                store.now_ms(), work.id,
            ),
        )  # fmt: skip


def embeddable_mark(store: Reader) -> tuple[int, int, int]:
    """What differs once a passage, an episode or a note has come or changed; cheap at any size."""
    found = store.row(
        "SELECT coalesce((SELECT max(id) FROM passage), 0), coalesce((SELECT max(updated_at_ms) FROM episode), 0), "
        "coalesce((SELECT max(id) FROM note_chunk), 0)"
    )
    assert found is not None
    return int(found[0]), int(found[1]), int(found[2])
