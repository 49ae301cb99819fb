"""Push the pending statements, a page at a time. A refused row never holds up the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from engram.errors import HubRefused
from engram.hub.client.connection import Transport
from engram.hub.client.membership import Keyring
from engram.hub.client.pull import page_rows
from engram.hub.protocol.frames import (
    BAD_CLOCK,
    FORGOTTEN,
    KNOWN,
    MAX_PAGE_BYTES,
    NO_PUSH,
    NOT_YOURS,
    REFUSALS,
    TAKEN,
    Answers,
    Push,
    Row,
    open_body,
    seal_body,
)
from engram.hub.protocol.statements import MAX_AHEAD_MS, Statement, encode
from engram.models.engine.transaction import Store
from engram.models.hub.memory_statements import SaidMemory
from engram.models.hub.outgoing_statements import (
    build_statements,
    give_versions,
    load_outgoing,
    mark_pushed,
    restamp_future,
)
from engram.models.hub.shares import build_shares
from engram.models.hub.spaces import (
    Server,
    Space,
    change_server,
    change_space,
    drop_set_aside,
    note_push,
    raise_clock,
    set_aside,
    space_by_id,
)

logger = logging.getLogger(__name__)

#: Maximum number of rows in a page.
PAGE_ROWS = 1_000
#: Statuses with which the hub refuses an entire page because of a single row.
_PAGE_FAULTS = (400, 413, 422)


@dataclass(slots=True)
class Pushed:
    rows: int = 0
    refused: int = 0


def push_space(
    store: Store,
    connection: Transport,
    server: Server,
    space: Space,
    keyring: Keyring,
    hub_ms: int,
    goes_on: Callable[[], bool],
    pushed: Pushed,
    tried_before: Set[tuple[int, bytes]],
) -> None:
    """Send all pending statements of a space. If the process is killed, the next round finds out what has arrived.

    Args:
        hub_ms: the hub's time, in milliseconds since 1970.
        goes_on: called before each page; the push stops if it returns False.
        pushed: counts the changes, including those made before an error stops the push.
        tried_before: the author and memory of each row that the hub refused before and that is now retried.

    Raises:
        HubUnreachable: no response arrived.
        HubRefused: the hub refuses this machine or this space.
    """
    with store.transaction() as tx:
        restamp_future(tx, space, server.device_id, hub_ms, MAX_AHEAD_MS)
        give_versions(tx, space.id)
    keys = list(keyring.keys(server.url, space.ns_id).values())
    sender = _Sender(store, connection, server, space, keyring, tried_before, keys[-1] if keys else b"")
    rows = page_rows(PAGE_ROWS, server)
    while goes_on():
        with store.snapshot() as reader:
            memories = load_outgoing(reader, space.id, rows)
            statements = build_shares(memories) if space.is_team else build_statements(reader, memories)
        if not memories:
            return
        page = sender.rows(memories, statements)
        for some in _pages(page):
            if not goes_on():
                return
            sender.send(some, pushed)
        sender.settle_faulty(pushed)
        gone = [(memory.author, memory.memory_id, memory.version) for memory in memories]
        sent = {row.memory_id for row in page}
        lost = [key for key in gone if key[1] not in sent]
        if lost:
            # The memory no longer exists, although it was not forgotten. It was purged, and a purge is local.
            with store.transaction() as tx:
                mark_pushed(tx, space.id, lost)


def _pages(rows: Sequence[Row]) -> list[list[Row]]:
    """Split rows into pages that the hub accepts."""
    pages: list[list[Row]] = []
    size = MAX_PAGE_BYTES
    for row in rows:
        if size + len(row.body) + 64 > MAX_PAGE_BYTES // 2:
            pages.append([])
            size = 0
        pages[-1].append(row)
        size += len(row.body) + 64
    return pages


@dataclass(slots=True)
class _Sender:
    _store: Store
    _connection: Transport
    _server: Server
    _space: Space
    _keyring: Keyring
    _tried_before: Set[tuple[int, bytes]]
    #: The newest key of the space; b"" for an open space.
    _key: bytes
    #: Rows for which the hub refused a whole push.
    _faulty: list[tuple[Row, str]] = field(default_factory=list)

    def rows(self, memories: Sequence[SaidMemory], statements: Mapping[bytes, Statement]) -> list[Row]:
        """Return the rows for the pending statements, except of memories that were deleted without being forgotten."""
        rows = []
        for memory in memories:
            statement = statements.get(memory.memory_id)
            if statement is None and not memory.is_forgotten:
                continue
            row = Row(
                author=memory.author,
                memory_id=memory.memory_id,
                device=self._server.device_id,
                hlc=self._space.published if statement is None else statement.hlc,
                version=memory.version,
                is_forgotten=memory.is_forgotten,
                body=b"",
            )
            rows.append(replace(row, body=self._body(row, statement)))
        return rows

    def _body(self, row: Row, statement: Statement | None) -> bytes:
        if not self._space.is_sealed:
            return b"" if statement is None else open_body(encode(statement))
        return seal_body(self._key, self._space.ns_id, row, b"" if statement is None else encode(statement))

    def send(self, rows: Sequence[Row], pushed: Pushed) -> None:
        """Send a page; if it is refused, halve it until the row at fault is found."""
        try:
            answers = self._push(rows)
        except HubRefused as error:
            if error.status not in _PAGE_FAULTS:
                raise
            if len(rows) == 1:
                self._faulty.append((rows[0], str(error)))
                return
            middle = len(rows) // 2
            self.send(rows[:middle], pushed)
            self.send(rows[middle:], pushed)
            return
        for row, answer in zip(rows, answers.answers, strict=True):
            if answer in (NOT_YOURS, BAD_CLOCK):
                # The row matches the id, role and time that the hub reported when the round began.
                raise HubRefused(f"the hub contradicts itself about a row of this machine: {REFUSALS[answer]}")
            if answer in REFUSALS:
                self._refuse(row, REFUSALS[answer])
                pushed.refused += 1
            elif answer in (TAKEN, KNOWN, FORGOTTEN):
                pushed.rows += 1

    def settle_faulty(self, pushed: Pushed) -> None:
        """Set aside the rows that are at fault.

        If the hub refuses everything, the hub is taken to be at fault, and the rows remain queued.

        Raises:
            HubRefused: the hub accepted nothing in this round, and refused several rows for the first time.
        """
        new = [row for row, _ in self._faulty if (row.author, row.memory_id) not in self._tried_before]
        if len(new) > 1 and not pushed.rows:
            raise HubRefused(f"the hub refuses every push: {self._faulty[0][1]}")
        for row, reason in self._faulty:
            self._refuse(row, reason)
            pushed.refused += 1
        self._faulty.clear()

    def _push(self, rows: Sequence[Row]) -> Answers:
        store, space_id, server_id = self._store, self._space.id, self._server.id
        url, device_id = self._server.url, self._server.device_id
        push_id = self._keyring.new_push_id(url, device_id)
        with store.transaction() as tx:
            note_push(tx, server_id, push_id)
        push = Push(self._space.ns_id, push_id, self._connection.last_push or NO_PUSH, tuple(rows))
        answers = self._connection.push(push)
        if len(answers.answers) != len(rows):
            raise HubRefused("the hub answered for a different number of rows than were sent")
        taken = [row for row, answer in zip(rows, answers.answers, strict=True) if answer in (TAKEN, KNOWN, FORGOTTEN)]
        with store.transaction() as tx:
            mark_pushed(tx, space_id, [(row.author, row.memory_id, row.version) for row in taken])
            drop_set_aside(tx, space_id, "push", [(row.author, row.memory_id) for row in taken])
            change_server(tx, server_id, last_push=push_id)
            if taken:
                raise_clock(tx, space_id, max(row.hlc for row in taken))
            space = space_by_id(tx, space_id)
            if space is not None and answers.mark_seq > space.mark_seq:
                change_space(tx, space_id, mark_seq=answers.mark_seq, mark=answers.mark)
        self._connection.last_push = push_id
        if taken:
            self._keyring.settle_device(url, device_id)
        return answers

    def _refuse(self, row: Row, reason: str) -> None:
        """Set a row aside; it is sent again once it changes."""
        with self._store.transaction() as tx:
            set_aside(tx, self._space.id, "push", row.author, row.memory_id, reason=reason)
            mark_pushed(tx, self._space.id, [(row.author, row.memory_id, row.version)])
        logger.warning("action=push space=%d refused=1 reason=%s", self._space.id, reason)
