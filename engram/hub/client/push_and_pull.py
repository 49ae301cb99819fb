"""Push pending statements to a hub, and pull those of other machines, a page at a time.

Each page that is pulled is stored in the same transaction as its cursor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from engram.enums import Actor, Voice
from engram.errors import BadRequest, HubRefused
from engram.forgetting.forget import forget_together
from engram.hub.client.connection import Transport, reading
from engram.hub.client.membership import Keyring
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
    Page,
    Push,
    Row,
    WrongKey,
    open_body,
    read_body,
    seal_body,
)
from engram.hub.protocol.statements import (
    EXTRACTED,
    MAX_ACCEPTED_AHEAD_MS,
    MAX_AHEAD_MS,
    TEXT,
    Statement,
    clock_of,
    decode,
    encode,
)
from engram.models.engine.transaction import Store, Tx
from engram.models.hub.incoming_statements import Incoming, known_memories, note_rows, take_forgotten, take_statements
from engram.models.hub.memory_statements import SaidMemory
from engram.models.hub.outgoing_statements import (
    build_statements,
    give_versions,
    load_outgoing,
    mark_pushed,
    restamp_future,
)
from engram.models.hub.shares import build_shares, take_share
from engram.models.hub.spaces import (
    NEWER_FIELDS,
    Member,
    Server,
    Space,
    change_server,
    change_space,
    drop_set_aside,
    keep_members,
    list_members,
    note_push,
    raise_clock,
    set_aside,
    space_by_id,
)
from engram.models.memories.memory_records import MAX_SUMMARY_CHARACTERS
from engram.paths import Home
from engram.redaction import redact_parts
from engram.text.titles import MAX_QUESTIONS, clean_questions
from engram.trust.suspicion import why_any_suspect, why_suspect

# -- Identify who wrote the rows of a space: this person, a named teammate, or a muted one.


class Authors:
    """Identifies the authors in one space. Outside teams, all rows are this person's own."""

    def __init__(self, store: Store, connection: Transport, server: Server, space: Space) -> None:
        """Set up without making a request; the hub is queried for names only when a row has an unknown author."""
        self._store, self._connection = store, connection
        self._server, self._space = server, space
        self._known: dict[int, Member] = {}

    def learn(self, rows: Sequence[Row]) -> None:
        """Make sure that the authors of the given rows are known."""
        if not self._space.is_team:
            return
        self._read()
        if {row.author for row in rows} - set(self._known) - {self._server.member_id}:
            learn_members(self._store, self._connection, self._server, self._space)
            self._read()

    def is_share(self, row: Row) -> bool:
        """Return True for a row that this person shared with a team, on this machine or another."""
        return self._space.is_team and row.author == self._server.member_id

    def is_muted(self, row: Row) -> bool:
        """Return True for a row from a member whom this person has muted."""
        member = self._known.get(row.author)
        return member is not None and member.is_muted

    def origin(self, row: Row) -> str:
        """Return the owner of a row, such as "teammate ada"; "" for this person's own."""
        if not self._space.is_team:
            return ""
        member = self._known.get(row.author)
        return f"teammate {'unknown' if member is None else member.name}"

    def _read(self) -> None:
        self._known = {member.member_id: member for member in list_members(self._store, self._server.id)}


def learn_members(store: Store, connection: Transport, server: Server, space: Space) -> list[dict[str, object]]:
    """Ask the hub for the members of a team, store their names, and return the hub's response. Raises HubError."""
    answer = connection.ask("team-members", {"ns": space.ns_id})
    with reading():
        members = [dict(member) for member in answer.get("members", [])]
        names = {int(member["member"]): str(member["name"])[:60] for member in members}
        if any(not 0 < member_id < 1 << 62 for member_id in names):
            raise ValueError("a member's number is out of range")
    with store.transaction() as tx:
        keep_members(tx, server.id, names)
    return members


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpaceLink:
    """A space during a round, with everything that pulling and pushing it needs."""

    store: Store
    home: Home
    connection: Transport
    server: Server
    space: Space
    keyring: Keyring
    #: Called before each page; pulling or pushing stops if it returns False.
    goes_on: Callable[[], bool]


#: Maximum number of rows in a page; each page is stored in one transaction.
PAGE_ROWS = 1_000
#: Minimum page size, in rows, after repeated failures.
MIN_PAGE_ROWS = 20
#: Maximum length of a memory's stored content, in characters.
_MAX_CONTENT = 20_000


@dataclass(slots=True)
class Pulled:
    rows: int = 0
    memories: int = 0
    forgotten: int = 0
    set_aside: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    statements: list[Incoming] = field(default_factory=list)
    forgotten: list[Row] = field(default_factory=list)
    #: Rows that this person's other machines shared with a team, and rows from muted members.
    shares: list[Incoming] = field(default_factory=list)
    muted: list[Row] = field(default_factory=list)
    #: Rows that could not be read, each with the reason.
    unread: list[tuple[Row, str]] = field(default_factory=list)


def pull_space(link: SpaceLink, head: int, pulled: Pulled) -> None:
    """Store all rows beyond a space's cursor, at least up to ``head``. The process may be killed at any time.

    Args:
        head: the newest position in the space according to the hub.
        pulled: counts the changes, including those made before an error stops the pull.

    Raises:
        HubError: no page arrived, or the page is impossible.
    """
    server, space, connection = link.server, link.space, link.connection
    rows = _page_rows(server)
    cursor = space.cursor
    keys = link.keyring.keys(server.url, space.ns_id)
    authors = Authors(link.store, connection, server, space)
    while link.goes_on():
        # Include this machine's own rows in a team: it may have shared something before it left and rejoined the team.
        page = connection.pull(space.ns_id, cursor, rows, with_own=space.is_team)
        if page.upto <= cursor:
            if page.rows:
                raise HubRefused("the hub returned a page before the requested one")
            return
        authors.learn(page.rows)
        latest_ms = link.store.now_ms() + max(0, server.clock_error_ms) + 2 * MAX_ACCEPTED_AHEAD_MS
        read = _read_page(page.rows, space, keys, authors, latest_ms)
        _take_page(link, page, read, authors, pulled)
        cursor = page.upto
        if cursor >= head and len(page.rows) < rows:
            return


def _page_rows(server: Server) -> int:
    """Return how many rows a page may have; fewer after failures, so that some get through on a slow connection."""
    return max(MIN_PAGE_ROWS, PAGE_ROWS >> min(server.failures, 10))


def _read_page(
    rows: Sequence[Row], space: Space, keys: Mapping[bytes, bytes], authors: Authors, latest_ms: int
) -> _Read:
    """Open, decode, redact and judge the rows of a page, outside any transaction."""
    read = _Read()
    for row in rows:
        try:
            # In a sealed space, nobody but its members could have written it.
            if row.hlc > clock_of(latest_ms) and not space.is_sealed:
                raise BadRequest("its time is far in the future")
            plain = (
                b""
                if row.is_forgotten and not space.is_sealed
                else read_body(keys, space.ns_id, row, is_sealed=space.is_sealed)
            )
            if row.is_forgotten:
                read.forgotten.append(row)
                continue
            if authors.is_muted(row):
                read.muted.append(row)
                continue
            is_own = space.is_private
            incoming = make_incoming(
                row, decode(plain), is_own=is_own, is_proven=space.is_sealed, origin=authors.origin(row)
            )
            (read.shares if authors.is_share(row) else read.statements).append(incoming)
        except WrongKey:
            read.unread.append((row, "sealed with a key that this machine does not have"))
        except (BadRequest, LookupError, TypeError, ValueError) as error:
            read.unread.append((row, str(error) if isinstance(error, BadRequest) else "malformed"))
    return read


def make_incoming(row: Row, statement: Statement, *, is_own: bool, is_proven: bool, origin: str = "") -> Incoming:
    """Return a statement with its text redacted and judged again.

    Statements sealed by this person's own machines keep their voice, because only they have the key. Anything else is
    judged like pasted text, because nobody typed it here.

    Args:
        is_own: the statement comes from the person's private space.
        is_proven: the statement was opened with a key of the space.
        origin: the statement's owner, if that is not the person themselves.
    """
    register = statement.fields.get(TEXT) or statement.fields.get(EXTRACTED)
    if register is None:
        return Incoming(row=row, statement=statement, text=None, suspect="", origin=origin)
    value = register[2]
    facts, names, questions = value["f"][:50], value["e"][:100], value.get("q", [])[:MAX_QUESTIONS]
    parts = [str(part) for part in (value["s"], value["c"], *facts, *names, *questions)]
    summary, content, *listed = redact_parts(parts)
    asked = clean_questions(listed[len(facts) + len(names) :], str)
    text: dict[str, Any] = {
        "s": summary.strip()[:MAX_SUMMARY_CHARACTERS],
        "c": content[:_MAX_CONTENT],
        "f": listed[: len(facts)],
        "e": [name[:200] for name in listed[len(facts) : len(facts) + len(names)]],
    }
    if asked:
        text["q"] = list(asked)
    if not text["s"]:
        raise BadRequest("it has no summary")
    voice = Voice.from_stored(statement.birth.get("v")) if is_own and is_proven else None
    is_typed, is_assistant = voice in (Voice.USER, Voice.CHOSEN), voice in (Voice.ASSISTANT, Voice.AGENT)
    if is_typed:
        reason = why_suspect("\n".join((text["s"], text["c"], *text["f"])), is_typed=True)
    else:
        reason = why_any_suspect((text["s"], text["c"], *text["f"], *asked), text["e"], is_assistant=is_assistant)
    suspect = reason or (str(statement.birth.get("su") or "")[:200] if is_own else "")
    return Incoming(row=row, statement=statement, text=text, suspect=suspect, origin=origin)


def _take_page(link: SpaceLink, page: Page, read: _Read, authors: Authors, pulled: Pulled) -> None:
    """Store a page and its cursor in one transaction."""
    store, space = link.store, link.space
    done: list[object] = []

    def take(tx: Tx) -> None:
        for row in read.forgotten:
            take_forgotten(tx, space.id, row.author, row.memory_id)
        done.extend(take_statements(tx, space, read.statements))
        for share in read.shares:
            if share.text is not None:
                take_share(tx, space, share.row, share.statement, share.text)
        note_rows(tx, space, [(row.author, row.memory_id) for row in read.muted])
        for row, reason in read.unread:
            set_aside(tx, space.id, "pull", row.author, row.memory_id, seq=row.seq, reason=reason)
        taken = [*(incoming.row for incoming in (*read.statements, *read.shares)), *read.forgotten]
        drop_set_aside(tx, space.id, "pull", [(row.author, row.memory_id) for row in taken])
        newer = [incoming for incoming in read.statements if incoming.statement.unknown_fields]
        for incoming in newer:
            row = incoming.row
            set_aside(tx, space.id, "pull", row.author, row.memory_id, seq=row.seq, reason=NEWER_FIELDS)
        own = taken if space.is_private else [row for row in taken if authors.is_share(row)]
        if own:
            raise_clock(tx, space.id, max(row.hlc for row in own))
        change_space(tx, space.id, cursor=page.upto)
        link.connection.took_page(tx, page)
        now = space_by_id(tx, space.id)
        if now is not None and page.mark_seq >= now.mark_seq:
            change_space(tx, space.id, mark_seq=page.mark_seq, mark=page.mark)

    # Withdrawing a share does not delete the memory that it was copied from.
    here = known_memories(store, space, [row for row in read.forgotten if not authors.is_share(row)])
    if here:
        pulled.forgotten += forget_together(store, link.home, here, take, actor=Actor.TIDYING)
    else:
        with store.transaction() as tx:
            take(tx)
    pulled.rows += sum(row.device != link.server.device_id for row in page.rows)
    pulled.memories += len(done)
    pulled.set_aside += len(read.unread)
    if read.unread:
        logger.warning("action=pull space=%d set_aside=%d", space.id, len(read.unread))


# -- Push the pending statements. A refused row never holds up the others.

#: Statuses with which the hub refuses an entire page because of a single row.
_PAGE_FAULTS = (400, 413, 422)


@dataclass(slots=True)
class Pushed:
    rows: int = 0
    refused: int = 0


def push_space(link: SpaceLink, hub_ms: int, pushed: Pushed, tried_before: Set[tuple[int, bytes]]) -> None:
    """Send all pending statements of a space. If the process is killed, the next round finds out what has arrived.

    Args:
        hub_ms: the hub's time, in milliseconds since 1970.
        pushed: counts the changes, including those made before an error stops the push.
        tried_before: the author and memory of each row that the hub refused before and that is now retried.

    Raises:
        HubUnreachable: no response arrived.
        HubRefused: the hub refuses this machine or this space.
    """
    store, server, space = link.store, link.server, link.space
    with store.transaction() as tx:
        restamp_future(tx, space, server.device_id, hub_ms, MAX_AHEAD_MS)
        give_versions(tx, space.id)
    keys = list(link.keyring.keys(server.url, space.ns_id).values())
    sender = _Sender(link, tried_before, keys[-1] if keys else b"")
    rows = _page_rows(server)
    while link.goes_on():
        with store.snapshot() as reader:
            memories = load_outgoing(reader, space.id, rows)
            statements = build_shares(memories) if space.is_team else build_statements(reader, memories)
        if not memories:
            return
        page = sender.rows(memories, statements)
        for some in _pages(page):
            if not link.goes_on():
                return
            sender.send(some, pushed)
        sender.settle_faulty(pushed)
        gone = [(memory.author, memory.memory_id, memory.version) for memory in memories]
        sent = {(row.author, row.memory_id) for row in page}
        lost = [key for key in gone if key[:2] not in sent]
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
    _link: SpaceLink
    _tried_before: Set[tuple[int, bytes]]
    #: The newest key of the space; b"" for an open space.
    _key: bytes
    #: Rows for which the hub refused a whole push.
    _faulty: list[tuple[Row, str]] = field(default_factory=list)

    def rows(self, memories: Sequence[SaidMemory], statements: Mapping[bytes, Statement]) -> list[Row]:
        """Return the rows for the pending statements, except of memories that were deleted without being forgotten."""
        rows = []
        for memory in memories:
            statement = None if memory.is_forgotten else statements.get(memory.memory_id)
            if statement is None and not memory.is_forgotten:
                continue
            row = Row(
                author=memory.author,
                memory_id=memory.memory_id,
                device=self._link.server.device_id,
                hlc=self._link.space.published if statement is None else statement.hlc,
                version=memory.version,
                is_forgotten=memory.is_forgotten,
                body=b"",
            )
            rows.append(replace(row, body=self._body(row, statement)))
        return rows

    def _body(self, row: Row, statement: Statement | None) -> bytes:
        space = self._link.space
        if not space.is_sealed:
            return b"" if statement is None else open_body(encode(statement))
        return seal_body(self._key, space.ns_id, row, b"" if statement is None else encode(statement))

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
        link, store, space_id = self._link, self._link.store, self._link.space.id
        push_id = link.keyring.new_push_id(link.server.url, link.server.device_id)
        with store.transaction() as tx:
            note_push(tx, link.server.id, push_id)
        push = Push(link.space.ns_id, push_id, link.connection.last_push or NO_PUSH, tuple(rows))
        answers = link.connection.push(push)
        if len(answers.answers) != len(rows):
            raise HubRefused("the hub answered for a different number of rows than were sent")
        taken = [row for row, answer in zip(rows, answers.answers, strict=True) if answer in (TAKEN, KNOWN, FORGOTTEN)]
        with store.transaction() as tx:
            mark_pushed(tx, space_id, [(row.author, row.memory_id, row.version) for row in taken])
            drop_set_aside(tx, space_id, "push", [(row.author, row.memory_id) for row in taken])
            change_server(tx, link.server.id, last_push=push_id)
            if taken:
                raise_clock(tx, space_id, max(row.hlc for row in taken))
            space = space_by_id(tx, space_id)
            if space is not None and answers.mark_seq > space.mark_seq:
                change_space(tx, space_id, mark_seq=answers.mark_seq, mark=answers.mark)
        link.connection.last_push = push_id
        if taken:
            link.keyring.settle_device(link.server.url, link.server.device_id)
        return answers

    def _refuse(self, row: Row, reason: str) -> None:
        """Set a row aside; it is sent again once it changes."""
        space_id = self._link.space.id
        with self._link.store.transaction() as tx:
            set_aside(tx, space_id, "push", row.author, row.memory_id, reason=reason)
            mark_pushed(tx, space_id, [(row.author, row.memory_id, row.version)])
        logger.warning("action=push space=%d refused=1 reason=%s", space_id, reason)
