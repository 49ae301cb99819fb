"""Run a round with one hub: hello, pull, push.

Any process may run it, but only one at a time, and it may be killed at any instant.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from engram.errors import HubError, HubRefused
from engram.hub.client.connection import Limits, Transport
from engram.hub.client.membership import Keyring, connect
from engram.hub.client.push_and_pull import Pulled, Pushed, SpaceLink, pull_space, push_space
from engram.hub.client.team_sharing import share_by_rules
from engram.hub.protocol import statements
from engram.hub.protocol.requests import HelloAnswer, HelloRequest, SpaceFacts, hash_token
from engram.hub.protocol.statements import MAX_CLOCK_ERROR_MS
from engram.ingest.project_moves import MAX_READ_AT_ONCE, read_hints
from engram.models.engine.transaction import Store, Tx
from engram.models.hub.outgoing_statements import (
    adopt_placeholders,
    become_device,
    enqueue_all,
    say_all_again,
    say_refused_again,
    say_with_new_key,
)
from engram.models.hub.spaces import (
    Server,
    Space,
    change_server,
    change_space,
    count_outgoing,
    drop_space,
    list_servers,
    list_set_aside,
    list_spaces,
    note_offers,
    private_space,
    read_anew_after_update,
    read_set_aside_again,
    server_by_id,
    space_by_id,
)
from engram.paths import Home
from engram.trust.display import as_arguments, counted

logger = logging.getLogger(__name__)

#: Delays after one, two and more failures in a row, in seconds; the last one is repeated.
RETRY_SECONDS = (5, 15, 60, 300, 900)
#: How long rows that were set aside are left alone before they are retried, in milliseconds.
_TRY_AGAIN_MS = 86_400_000
#: Number of this machine's latest pushes that are reported to the hub when a round begins, so that the hub can compare
#: them with the last one that it has.
_REPORTED_PUSHES = 16


@dataclass(slots=True)
class Round:
    pulled: int = 0
    pushed: int = 0
    #: Memories that were created, changed or forgotten on this machine.
    changed: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    #: True if it stopped before everything was done, leaving the rest to the next round.
    is_unfinished: bool = False
    #: Why the round failed; "" if it succeeded.
    error: str = ""

    @property
    def did_something(self) -> bool:
        return bool(self.pulled or self.pushed)


@dataclass(frozen=True, slots=True)
class Steps:
    """State that the steps of a round share."""

    store: Store
    home: Home
    redact: Callable[[str], str]
    limits: Limits | None
    is_forced: bool
    #: Called before each step; the round stops if it returns False.
    goes_on: Callable[[], bool]
    #: Called before each page with the number of changes that were pulled and pushed so far.
    on_progress: Callable[[int, int], None]


def sync_all(
    store: Store,
    home: Home,
    redact: Callable[[str], str],
    *,
    is_forced: bool = False,
    limits: Limits | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    on_progress: Callable[[int, int], None] = lambda pulled, pushed: None,
) -> list[Round]:
    """Run a round with every hub that is due. A hub that fails is retried later, and does not affect the others.

    Args:
        is_forced: True to include hubs that have just failed.
        limits: how long each hub may take; the usual limits if None.
        goes_on: called before each step; the rounds stop if it returns False.
        on_progress: called from time to time with the number of changes that a round has pulled and pushed so far.
    """
    rounds = []
    servers = list_servers(store)
    if servers:
        # A project that is sent before its git remote has been read would become a different project on the other
        # machine.
        read_hints(store, MAX_READ_AT_ONCE)
    for server in servers:
        if not is_forced and store.now_ms() < server.retry_at_ms <= store.now_ms() + RETRY_SECONDS[-1] * 2_000:
            continue
        done = Round()
        if not goes_on():
            break
        try:
            _sync_server(Steps(store, home, redact, limits, is_forced, goes_on, on_progress), server, done)
            now_ms = store.now_ms()
            if server.failures or server.last_error or not 0 <= now_ms - server.synced_at_ms < 1_000:
                with store.transaction() as tx:
                    change_server(tx, server.id, synced_at_ms=now_ms, failures=0, retry_at_ms=0, last_error="")
        except HubError as error:
            done.error = str(error)
            _note_failure(store, server, redact(str(error)), has_moved=done.did_something)
        rounds.append(done)
    return rounds


def _note_failure(store: Store, server: Server, reason: str, *, has_moved: bool) -> None:
    """Postpone the next round, for longer with each consecutive failure; progress resets the count."""
    failures = 0 if has_moved else server.failures
    wait = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)] * random.uniform(0.8, 1.2)
    with store.transaction() as tx:
        change_server(
            tx, server.id, failures=failures + 1, retry_at_ms=tx.now_ms() + int(wait * 1000), last_error=reason[:300]
        )
    logger.warning("action=sync hub=%d failures=%d reason=%s", server.id, failures + 1, reason)


def _sync_server(steps: Steps, server: Server, done: Round) -> None:
    """Run one round, and record its changes in ``done``. Raises HubError."""
    store, home = steps.store, steps.home
    keyring = Keyring(home.hub_keys)
    read_anew_after_update(store, f"{statements.FORMAT} {' '.join(statements.FIELDS)}")
    own = private_space(store)
    if own is not None and own.server_id == server.id:
        enqueue_all(store, own)
    share_by_rules(store, home, server, steps.redact)
    with connect(store, keyring, server, steps.limits, is_asked=steps.is_forced) as connection:
        try:
            _sync_spaces(steps, connection, server, keyring, done)
        except HubRefused as refusal:
            if refusal.status != 409:
                raise
            # A push that this machine had given up on arrived after the hello, or a copy of this machine has pushed.
            _sync_spaces(steps, connection, _reload_server(store, server), keyring, done)
        finally:
            done.sent_bytes, done.received_bytes = connection.sent_bytes, connection.received_bytes
    adopt_placeholders(store)


def _sync_spaces(steps: Steps, connection: Transport, server: Server, keyring: Keyring, done: Round) -> None:
    store = steps.store
    answer = _say_hello(store, connection, server, keyring)
    current = _reload_server(store, server)
    for space, facts in _known_spaces(store, current, answer):
        link = SpaceLink(store, steps.home, connection, current, space, keyring, steps.goes_on)
        _sync_space(steps, link, facts, done, answer.time_ms)
    _drop_lost(store, connection, current, answer)
    connection.finish(steps.goes_on)


def _say_hello(store: Store, connection: Transport, server: Server, keyring: Keyring) -> HelloAnswer:
    """Begin the round. A copied or restored machine becomes another device.

    This machine trusts what the hub says about it only as far as it can check. A push that was made neither by this
    machine nor by a copy of it is an error, as is an id other than the one under which the hub has accepted rows; in
    both cases, nothing is changed.

    Raises:
        HubRefused: the hub's response can't be true.
    """
    spaces = list_spaces(store, server.id)
    marks = {space.ns_id: (space.mark_seq, space.mark) for space in spaces if space.mark_seq}
    answer = _hello(connection, server, keyring, marks)
    if answer.push_id and answer.push_id not in server.pushes:
        if not keyring.has_made(server.url, answer.device_id, answer.push_id):
            raise HubRefused(
                "the hub reports a push that neither this machine nor a copy of it made; nothing was changed. If "
                "this continues, run `engram hub leave`, and join the hub again"
            )
        answer = _become_other(connection, server, keyring, marks)
    connection.last_push = answer.push_id
    error_ms = answer.time_ms - store.now_ms()
    is_other = answer.device_id != server.device_id
    now = {
        "device_id": answer.device_id,
        "last_push": answer.push_id,
        "clock_error_ms": error_ms if abs(error_ms) > MAX_CLOCK_ERROR_MS else 0,
    }
    if any(getattr(server, name) != value for name, value in now.items()):
        with store.transaction() as tx:
            for space in spaces:
                if is_other:
                    become_device(tx, space, server.device_id, answer.device_id)
                    # This machine's pages left out the rows that the other copy pushed under the shared id.
                    change_space(tx, space.id, cursor=0)
                elif _is_older(server, answer.push_id):
                    logger.warning("action=heal hub=%d space=%d reason=push_lost", server.id, space.id)
                    _start_over(tx, connection, server, space)
            change_server(tx, server.id, **now)
    return answer


def _hello(connection: Transport, server: Server, keyring: Keyring, marks: dict[int, tuple[int, bytes]]) -> HelloAnswer:
    """Say hello as this machine. Raises HubRefused if the hub takes it for another machine."""
    answer = connection.hello(HelloRequest(server.pushes[-_REPORTED_PUSHES:], marks))
    known = keyring.device(server.url)
    if known and answer.device_id != known:
        raise HubRefused("the hub takes this machine for another one; nothing was changed")
    return answer


def _become_other(
    connection: Transport, server: Server, keyring: Keyring, marks: dict[int, tuple[int, bytes]]
) -> HelloAnswer:
    """Become another device, because a copy of this machine has pushed.

    However often the machine asks, the hub creates only one device.

    Raises:
        HubError: the hub did not create a device; the machine remains the device that it is.
    """
    former, pending = connection.token, keyring.pending_token(server.url)
    try:
        connection.membership("renew", {"token_hash": hash_token(pending).hex()})
        connection.token = pending
        with contextlib.suppress(HubRefused):
            answer = connection.hello(HelloRequest((), marks))
            if not answer.push_id:
                keyring.become_device(server.url, pending)
                former = pending
                logger.warning("action=renew hub=%d reason=copy", server.id)
                return answer
        raise HubRefused("this machine is a copy of another one, and the hub did not make it a separate device")
    finally:
        connection.token = former


def _is_older(server: Server, push_id: bytes) -> bool:
    """Return True if the hub was restored from an older copy.

    This is the case if its last push from this machine is older than one that it had before.
    """
    pushes = server.pushes
    return bool(server.last_push) and (
        not push_id or (push_id in pushes and pushes.index(push_id) < pushes.index(server.last_push))
    )


def _start_over(tx: Tx, connection: Transport, server: Server, space: Space) -> None:
    """Send and read everything in a space again, because the hub was restored from an older copy."""
    say_all_again(tx, space.id, server.member_id)
    change_space(tx, space.id, cursor=0, mark_seq=0, mark=b"")
    connection.start_over(tx)


def _known_spaces(store: Store, server: Server, answer: HelloAnswer) -> list[tuple[Space, SpaceFacts]]:
    """Return this machine's spaces as listed by the hub, and record listed teams that it has not joined.

    Either such a team was joined on another of this person's machines, or it is not theirs; ``engram team accept``
    settles which. A second private space and spaces of unknown kinds are ignored.
    """
    known = {space.ns_id: space for space in list_spaces(store, server.id)}
    listed = [(known[facts.ns_id], facts) for facts in answer.spaces if facts.ns_id in known]
    offers = {facts.ns_id: facts.name for facts in answer.spaces if facts.kind == "team" and facts.ns_id not in known}
    note_offers(store, server.id, offers)
    return [(space, facts) for space, facts in listed if space.kind == facts.kind]


def _sync_space(steps: Steps, link: SpaceLink, facts: SpaceFacts, done: Round, hub_ms: int) -> None:
    """Pull and push one space. Problems with a space do not hold up the others."""
    store, space = link.store, link.space
    pulled, pushed = Pulled(), Pushed()

    def goes_on() -> bool:
        steps.on_progress(done.pulled + pulled.rows, done.pushed + pushed.rows)
        done.is_unfinished = done.is_unfinished or link.connection.is_over or not steps.goes_on()
        return not done.is_unfinished

    try:
        _check_key(link, facts)
        if not facts.is_known:
            logger.warning("action=heal hub=%d space=%d reason=put_back", link.server.id, space.id)
            with store.transaction() as tx:
                _start_over(tx, link.connection, link.server, space)
        if (space.role, space.name, space.reports) != (facts.role, facts.name, facts.reports):
            with store.transaction() as tx:
                change_space(tx, space.id, role=facts.role, name=facts.name, reports=facts.reports)
        tried = _try_set_aside_again(steps, space)
        link = replace(link, space=_reload(store, space), goes_on=goes_on)
        if facts.head > link.space.cursor:
            pull_space(link, facts.head, pulled)
            link = replace(link, space=_reload(store, space))
        error, waiting = "", count_outgoing(store, space.id)
        if waiting and facts.role == "reader":
            error = f"{counted(waiting, 'change')} can't be sent: you are a reader here"
        elif waiting:
            push_space(link, hub_ms, pushed, tried)
    except HubRefused as refusal:
        if refusal.status in (0, 401, 409, 429):
            raise
        error = str(refusal)
    except _NoKey as missing:
        error = str(missing)
    finally:
        done.pulled, done.pushed = done.pulled + pulled.rows, done.pushed + pushed.rows
        done.changed += pulled.memories + pulled.forgotten
        done.refused += pushed.refused
    if error != space.last_error:
        with store.transaction() as tx:
            change_space(tx, space.id, last_error=steps.redact(error)[:300])


class _NoKey(Exception):
    """This machine lacks the key that now seals a space, or a person has to choose the key."""


def _check_key(link: SpaceLink, facts: SpaceFacts) -> None:
    """Make sure that this machine's newest key is the hub's, so that pushed data is sealed with it."""
    keyring, server, space = link.keyring, link.server, link.space
    if facts.is_sealed != space.is_sealed:
        kinds = ("open", "sealed")
        raise _NoKey(
            f"it is {kinds[space.is_sealed]}, but the hub reports it as {kinds[facts.is_sealed]}: nothing is sent"
        )
    if not space.is_sealed:
        return
    keys, name = keyring.keys(server.url, facts.ns_id), as_arguments(space.name)
    if not facts.key_id or facts.key_id not in keys:
        raise _NoKey(f"its key was changed or is missing: run `engram hub key {name}` with the recovery phrase")
    if keyring.is_next_key(server.url, facts.ns_id, facts.key_id):
        # A key change got no response, but the hub accepted it.
        keyring.add_key(server.url, facts.ns_id, keys[facts.key_id])
        with link.store.transaction() as tx:
            say_with_new_key(tx, space.id, server.member_id)
    elif list(keys)[-1] != facts.key_id:
        raise _NoKey(
            "the hub reports one of its older keys: the hub was restored from an older copy, or the report is false. "
            f"Nothing is sent until you settle it: `engram hub key --rotate {name}` seals it with a new key; to "
            f"keep the older one, type its recovery phrase: `engram hub key {name}`"
        )


def _drop_lost(store: Store, connection: Transport, server: Server, answer: HelloAnswer) -> None:
    """Leave spaces in which this member no longer has a seat, if the hub confirms that.

    Memories that were pulled are kept.
    """
    listed = {facts.ns_id for facts in answer.spaces}
    for space in list_spaces(store, server.id):
        if space.is_team and space.ns_id not in listed and not _has_seat(connection, space):
            with store.transaction() as tx:
                drop_space(tx, space.id)


def _has_seat(connection: Transport, space: Space) -> bool:
    try:
        connection.ask("team-members", {"ns": space.ns_id})
    except HubRefused as refusal:
        if refusal.status == 404:
            return False
        raise
    return True


def _try_set_aside_again(steps: Steps, space: Space) -> set[tuple[int, bytes]]:
    """From time to time, retry rows that were set aside.

    A false report, a lost key or a full space may be fixed by now.

    Return the author and memory of each row that is pushed again.
    """
    before_ms = steps.store.now_ms() - (0 if steps.is_forced else _TRY_AGAIN_MS)
    rows = [row for row in list_set_aside(steps.store, space.id) if row.at_ms <= before_ms]
    refused = [row for row in rows if row.direction == "push"]
    if rows:
        with steps.store.transaction() as tx:
            read_set_aside_again(tx, space.id, before_ms)
            say_refused_again(tx, space.id, refused)
    return {(row.author, row.memory_id) for row in refused}


def _reload_server(store: Store, server: Server) -> Server:
    now = server_by_id(store, server.id)
    if now is None:
        raise HubError("this machine has left the hub in the meantime")
    return now


def _reload(store: Store, space: Space) -> Space:
    now = space_by_id(store, space.id)
    if now is None:
        raise HubError("this machine has left the space in the meantime")
    return now
