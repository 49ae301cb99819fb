"""The hub's chores, on a queue in PostgreSQL. Each can be derived from the tables: a lost task is made again.

The queue is a doorbell, as on a machine: what is due stands in the tables, and ``look`` finds it every minute.
"""

from __future__ import annotations

import logging
from typing import Any

import huey.storage
import psycopg
from huey import PostgresHuey, crontab
from huey.consumer import Consumer

logger = logging.getLogger(__name__)

#: Marks of each space that are kept: a machine that was away longer says everything again.
KEPT_MARKS = 50_000
#: Dead rows from which on the statements are vacuumed at once, so that erased bodies leave the table's pages.
MIN_DEAD_ROWS = 1


def make_queue(dsn: str) -> PostgresHuey:
    """Return the queue with its tasks, in the database of the hub."""
    # Where a machine's queue was imported before, huey was loaded without the driver.
    huey.storage.psycopg = psycopg
    queue = PostgresHuey("engram-hub", dsn=dsn, results=False, table_prefix="hub_queue")

    @queue.task(name="erase")
    def erase() -> None:
        erase_dead_rows(dsn)

    @queue.task(name="prune")
    def prune() -> None:
        prune_tables(dsn)

    @queue.periodic_task(crontab(), name="look")
    def look() -> None:
        due = find_due(dsn)
        if due["dead_rows"] >= MIN_DEAD_ROWS:
            erase()
        if due["old_marks"] or due["old_codes"]:
            prune()

    return queue


def find_due(dsn: str) -> dict[str, int]:
    """Return what is to be done: dead rows of statements, marks beyond the limit, codes that are over."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT (SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'hub' AND relname = 'statement'), "
            "(SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY ns_id ORDER BY seq DESC) AS place "
            "FROM hub.mark) ranked WHERE place > %s), "
            "(SELECT count(*) FROM hub.code WHERE expires_at < now() - interval '1 day')",
            (KEPT_MARKS,),
        ).fetchone()
    assert row is not None
    dead_rows, old_marks, old_codes = row
    return {"dead_rows": int(dead_rows or 0), "old_marks": int(old_marks), "old_codes": int(old_codes)}


def erase_dead_rows(dsn: str) -> None:
    """Give back the room of dead rows, so that what was erased is overwritten. Docs: what remains in the log."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (INDEX_CLEANUP ON) hub.statement")
    logger.info('{"chore": "erase"}')


def prune_tables(dsn: str) -> int:
    """Delete old marks and codes that are over; returns how many rows went."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        marks = connection.execute(
            "DELETE FROM hub.mark m USING (SELECT ns_id, seq, row_number() OVER (PARTITION BY ns_id ORDER BY seq DESC) "
            "AS place FROM hub.mark) ranked WHERE m.ns_id = ranked.ns_id AND m.seq = ranked.seq AND place > %s",
            (KEPT_MARKS,),
        ).rowcount
        codes = connection.execute("DELETE FROM hub.code WHERE expires_at < now() - interval '1 day'").rowcount
        connection.execute("DELETE FROM hub.report r WHERE hub.is_gone(r.ns_id, r.author, r.memory_id)")
    logger.info('{"chore": "prune", "marks": %d, "codes": %d}', marks, codes)
    return marks + codes


def make_consumer(queue: PostgresHuey) -> Any:
    """Return the consumer that runs the chores, one at a time."""
    return Consumer(queue, workers=1, periodic=True, initial_delay=0.1, max_delay=5.0)
