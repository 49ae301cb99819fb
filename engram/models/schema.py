"""The statements that make the tables of memory.db, compiled from ``engram.models.tables``."""

from __future__ import annotations

from functools import cache

from peewee import Model, SqliteDatabase

from engram.models import tables

#: SQLite application_id of Engram's databases ("ENGR").
APPLICATION_ID = 0x454E4752

#: Tables that every version has; no other program's database has all of them.
OWN_TABLES = frozenset({"meta", "project", "session", "transcript", "turn", "said", "episode", "evidence", "tombstone"})


@cache
def schema_statements() -> tuple[str, ...]:
    """Every statement that makes the tables, indexes, views and full-text indexes, in order."""
    statements: list[str] = []
    for table in tables.ALL_TABLES:
        statements += table_statements(table)
    statements += [view.definition for view in tables.ALL_VIEWS]
    for index in tables.ALL_TEXT_INDEXES:
        statements += table_statements(index)
    return tuple(statements)


@cache
def table_statements(table: type[Model]) -> tuple[str, ...]:
    """The statements that make one table and its indexes."""
    manager = type(table._schema)(table, SqliteDatabase(None))  # type: ignore[attr-defined]  # the stubs lack it
    queries = [manager._create_table(safe=False), *manager._create_indexes(safe=False)]
    statements = []
    for query in queries:
        sql, parameters = query.query()
        assert not parameters, f"SQLite takes no parameters in {sql}"
        statements.append(sql)
    return tuple(statements)
