"""Pull what other machines sent, a page at a time. Each page is stored in the same transaction as its cursor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engram.enums import Actor, Voice
from engram.errors import BadRequest, HubRefused
from engram.forgetting.forget import forget_together
from engram.hub.client.connection import Transport, reading
from engram.hub.client.membership import Keyring
from engram.hub.protocol.frames import Page, Row, WrongKey, read_body
from engram.hub.protocol.statements import EXTRACTED, TEXT, Statement, clock_of, decode
from engram.models.engine.transaction import Store, Tx
from engram.models.hub.incoming_statements import Incoming, known_memories, note_rows, take_forgotten, take_statements
from engram.models.hub.shares import take_share
from engram.models.hub.spaces import (
    NEWER_FIELDS,
    Member,
    Server,
    Space,
    change_space,
    drop_set_aside,
    keep_members,
    list_members,
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


def pull_space(
    store: Store,
    places: Home,
    connection: Transport,
    server: Server,
    space: Space,
    keyring: Keyring,
    head: int,
    goes_on: Callable[[], bool],
    pulled: Pulled,
) -> None:
    """Store all rows beyond a space's cursor, at least up to ``head``. The process may be killed at any time.

    Args:
        head: the newest position in the space according to the hub.
        goes_on: called before each page; the pull stops if it returns False.
        pulled: counts the changes, including those made before an error stops the pull.

    Raises:
        HubError: no page arrived, or the page is impossible.
    """
    rows = page_rows(PAGE_ROWS, server)
    cursor = space.cursor
    keys = keyring.keys(server.url, space.ns_id)
    authors = Authors(store, connection, server, space)
    while goes_on():
        page = connection.pull(space.ns_id, cursor, rows)
        if page.upto <= cursor:
            if page.rows:
                raise HubRefused("the hub returned a page before the requested one")
            return
        authors.learn(page.rows)
        latest_ms = store.now_ms() + max(0, server.clock_error_ms) + connection.most_ahead_ms
        read = _read_page(page.rows, space, keys, authors, latest_ms)
        _take_page(store, places, connection, space, page, read, authors, pulled)
        cursor = page.upto
        if cursor >= head and len(page.rows) < rows:
            return


def page_rows(most: int, server: Server) -> int:
    """Return how many rows a page may have; fewer after failures, so that some get through on a slow connection."""
    return max(MIN_PAGE_ROWS, most >> min(server.failures, 10))


def _read_page(
    rows: Sequence[Row], space: Space, keys: Mapping[bytes, bytes], authors: Authors, latest_ms: int
) -> _Read:
    """Open, decode, redact and judge the rows of a page, outside any transaction."""
    read = _Read()
    for row in rows:
        try:
            if row.hlc > clock_of(latest_ms):
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


def _take_page(
    store: Store,
    places: Home,
    connection: Transport,
    space: Space,
    page: Page,
    read: _Read,
    authors: Authors,
    pulled: Pulled,
) -> None:
    """Store a page and its cursor in one transaction."""
    done: list[object] = []

    def take(tx: Tx) -> None:
        for row in read.forgotten:
            take_forgotten(tx, space, row)
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
        connection.took_page(tx, page)
        now = space_by_id(tx, space.id)
        if now is not None and page.mark_seq >= now.mark_seq:
            change_space(tx, space.id, mark_seq=page.mark_seq, mark=page.mark)

    # Withdrawing a share does not delete the memory that it was copied from.
    here = known_memories(store, space, [row for row in read.forgotten if not authors.is_share(row)])
    if here:
        pulled.forgotten += forget_together(store, places, here, take, actor=Actor.TIDYING)
    else:
        with store.transaction() as tx:
            take(tx)
    pulled.rows += len(page.rows)
    pulled.memories += len(done)
    pulled.set_aside += len(read.unread)
    if read.unread:
        logger.warning("action=pull space=%d set_aside=%d", space.id, len(read.unread))
