"""SQL conditions on memories that several queries share; their values come from the enums."""

from __future__ import annotations

from collections.abc import Iterable

from engram.enums import CURRENT_STATUSES, Scope, Source, Status, StoredEnum


def sql_list(members: Iterable[StoredEnum]) -> str:
    """Return the values as a list of SQL literals, without parentheses."""
    return ", ".join(f"'{member.value}'" for member in members)


#: All conditions are over ``e``, a row of the table episode.
IS_CURRENT = f"e.status IN ({sql_list(CURRENT_STATUSES)})"
IS_NOT_CURRENT = f"e.status NOT IN ({sql_list(CURRENT_STATUSES)})"
IS_ACTIVE = f"e.status = '{Status.ACTIVE}'"
IS_ARCHIVED = f"e.status = '{Status.ARCHIVED}'"
IS_SUPERSEDED = f"e.status = '{Status.SUPERSEDED}'"
IS_GLOBAL = f"e.scope = '{Scope.GLOBAL}'"
IS_OF_PROJECT = f"e.scope = '{Scope.PROJECT}'"
IS_AUTO = f"e.source = '{Source.AUTO}'"
IS_MANUAL = f"e.source = '{Source.MANUAL}'"
