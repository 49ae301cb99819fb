"""Whose the rows of a space are: this person's own, a teammate's by name, or a muted one's."""

from __future__ import annotations

from collections.abc import Sequence

from engram.hub.client.connection import Connection, reading
from engram.hub.protocol.frames import Row
from engram.models.hub_members import Member, keep_members, list_members
from engram.models.hub_spaces import Server, Space
from engram.models.store import Store


class Authors:
    """Tells the authors of one space apart. Outside of a team everything is this person's own."""

    def __init__(self, store: Store, connection: Connection, server: Server, space: Space) -> None:
        """Prepare; the hub is asked for names only where a row is by somebody unknown."""
        self._store, self._connection = store, connection
        self._server, self._space = server, space
        self._known: dict[int, Member] = {}

    def learn(self, rows: Sequence[Row]) -> None:
        """Get the names of those who wrote some rows."""
        if not self._space.is_team:
            return
        self._read()
        if {row.author for row in rows} - set(self._known) - {self._server.member_id}:
            learn_members(self._store, self._connection, self._server, self._space)
            self._read()

    def is_share(self, row: Row) -> bool:
        """True for what this person shared with a team, on this machine or another."""
        return self._space.is_team and row.author == self._server.member_id

    def is_muted(self, row: Row) -> bool:
        """True for what somebody said whom this person does not want to hear."""
        member = self._known.get(row.author)
        return member is not None and member.is_muted

    def origin(self, row: Row) -> str:
        """Return whose a row is, such as "teammate ada"; "" for this person's own."""
        if not self._space.is_team:
            return ""
        member = self._known.get(row.author)
        return f"teammate {'unknown' if member is None else member.name}"

    def _read(self) -> None:
        self._known = {member.member_id: member for member in list_members(self._store, self._server.id)}


def learn_members(store: Store, connection: Connection, server: Server, space: Space) -> list[dict[str, object]]:
    """Ask the hub who is in a team, keep their names, and return what it said. Raises HubError."""
    answer = connection.ask("team-members", {"ns": space.ns_id})
    with reading():
        members = [dict(member) for member in answer.get("members", [])]
        names = {int(member["member"]): str(member["name"])[:60] for member in members}
        if any(not 0 < member_id < 1 << 62 for member_id in names):
            raise ValueError("a member's number is out of range")
    with store.transaction() as tx:
        keep_members(tx, server.id, names)
    return members
