"""A round with one hub: hello, pull, push. It may be killed at any instant and be run by any process, one at a time."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from engram.errors import HubError, HubRefused
from engram.hub.client.connection import LIMITS, Connection, Limits
from engram.hub.client.keys import Keyring
from engram.hub.client.pull import Pulled, pull_space
from engram.hub.client.push import Pushed, push_space
from engram.hub.client.sharing import share_by_rules
from engram.hub.protocol import statement
from engram.hub.protocol.messages import HelloAnswer, HelloRequest, Membership, SpaceFacts
from engram.hub.protocol.stamps import MAX_CLOCK_ERROR_MS
from engram.ingest.moves import read_hints
from engram.models.hub_outgoing import become_device, enqueue_all, say_all_again
from engram.models.hub_projects import adopt_placeholders
from engram.models.hub_spaces import (
    Server,
    Space,
    add_hub_space,
    change_server,
    change_space,
    count_outgoing,
    drop_space,
    list_servers,
    list_spaces,
    private_space,
    read_anew_after_update,
    server_by_id,
    space_by_id,
)
from engram.models.store import Store
from engram.paths import Home

logger = logging.getLogger(__name__)

#: Waits after failures in a row, in seconds; the last one stays.
RETRY_SECONDS = (5, 15, 60, 300, 900)


@dataclass(slots=True)
class Round:
    """What a round did."""

    pulled: int = 0
    pushed: int = 0
    #: Memories that were made, changed or forgotten here.
    changed: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    #: True where its time was over before everything was done: the rest waits for the next round.
    is_unfinished: bool = False
    #: Why it did not succeed; "" where it did.
    error: str = ""

    @property
    def did_something(self) -> bool:
        """True where anything was pulled or pushed."""
        return bool(self.pulled or self.pushed)


@dataclass(frozen=True, slots=True)
class Steps:
    """What the steps of a round have in common."""

    store: Store
    places: Home
    redact: Callable[[str], str]
    limits: Limits
    #: False where the round is to end at its next step.
    goes_on: Callable[[], bool]


def sync_all(
    store: Store,
    places: Home,
    redact: Callable[[str], str],
    *,
    is_forced: bool = False,
    limits: Limits = LIMITS,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Round]:
    """Make a round with every hub whose time has come. A hub that fails is tried again later; the others go on.

    Args:
        store: the open memory.
        places: the memory folder.
        redact: removes secrets.
        is_forced: also with hubs that failed just now.
        limits: how long each hub may take.
        goes_on: is asked before each step; where it says False, the rounds end.
    """
    rounds = []
    servers = list_servers(store)
    if servers:
        # A project that is told before its remote was read would be another one on the other machine.
        read_hints(store)
    for server in servers:
        if not is_forced and store.now_ms() < server.retry_at_ms <= store.now_ms() + RETRY_SECONDS[-1] * 2_000:
            continue
        done = Round()
        if not goes_on():
            break
        try:
            sync_server(Steps(store, places, redact, limits, goes_on), server, done)
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
    """Put the next round off, for longer with each failure in a row; one that moved something counts as the first."""
    failures = 0 if has_moved else server.failures
    wait = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)] * random.uniform(0.8, 1.2)
    with store.transaction() as tx:
        change_server(
            tx,
            server.id,
            failures=failures + 1,
            retry_at_ms=tx.now_ms() + int(wait * 1000),
            last_error=reason[:300],
        )
    logger.warning("action=sync hub=%d failures=%d reason=%s", server.id, failures + 1, reason)


def sync_server(steps: Steps, server: Server, done: Round) -> None:
    """Make one round, and note in ``done`` what it did. Raises HubError."""
    store, places = steps.store, steps.places
    keyring = Keyring(places.hub_keys)
    read_anew_after_update(store, f"{statement.FORMAT} {' '.join(statement.FIELDS)}")
    own = private_space(store)
    if own is not None and own.server_id == server.id:
        enqueue_all(store, own)
    share_by_rules(store, places, server, steps.redact)
    with Connection(server.url, keyring.token(server.url), limits=steps.limits) as connection:
        try:
            answer = _say_hello(store, connection, server, keyring)
            current = server_by_id(store, server.id)
            assert current is not None
            for facts in answer.spaces:
                space = _space_of(store, current, facts)
                if space is not None:
                    _sync_space(steps, connection, current, space, facts, keyring, done, answer.time_ms)
            _drop_lost(store, current, answer)
        finally:
            done.sent_bytes, done.received_bytes = connection.sent_bytes, connection.received_bytes
    adopt_placeholders(store)


def _say_hello(store: Store, connection: Connection, server: Server, keyring: Keyring) -> HelloAnswer:
    """Begin the round. A copy of a machine, or one that was put back, becomes another device."""
    spaces = list_spaces(store, server.id)
    marks = {space.ns_id: (space.mark_seq, space.mark) for space in spaces if space.mark_seq}
    push_ids = tuple(push_id for push_id in (server.last_push, server.in_flight) if push_id)
    answer = connection.hello(HelloRequest(push_ids, marks))
    if not answer.is_same:
        member = Membership.from_json(connection.ask("renew", {}))
        keyring.set_token(server.url, member.token)
        connection.token = member.token
        logger.warning("action=renew hub=%d reason=copy", server.id)
        answer = connection.hello(HelloRequest((), marks))
    error_ms = answer.time_ms - store.now_ms()
    now = {
        "device_id": answer.device_id,
        "last_push": answer.push_id,
        "in_flight": b"",
        "clock_error_ms": error_ms if abs(error_ms) > MAX_CLOCK_ERROR_MS else 0,
    }
    if any(getattr(server, name) != value for name, value in now.items()):
        with store.transaction() as tx:
            if answer.device_id != server.device_id:
                for space in spaces:
                    become_device(tx, space, server.device_id, answer.device_id)
                    # What the other copy pushed under the common id was left out of this one's pages.
                    change_space(tx, space.id, cursor=0)
            change_server(tx, server.id, **now)
    return answer


def _space_of(store: Store, server: Server, facts: SpaceFacts) -> Space | None:
    """Return the space here that the hub tells of, and keep a team that this person joined on another machine.

    None for a second private space, and for kinds to come.
    """
    known = next((space for space in list_spaces(store, server.id) if space.ns_id == facts.ns_id), None)
    if known is None and facts.kind == "team":
        with store.transaction() as tx:
            return add_hub_space(tx, server, facts)
    return known


def _sync_space(
    steps: Steps,
    connection: Connection,
    server: Server,
    space: Space,
    facts: SpaceFacts,
    keyring: Keyring,
    done: Round,
    hub_ms: int,
) -> None:
    """Pull and push one space. What is wrong with it does not hold up the others."""
    store, redact = steps.store, steps.redact

    def goes_on() -> bool:
        done.is_unfinished = done.is_unfinished or connection.is_over or not steps.goes_on()
        return not done.is_unfinished

    try:
        _check_key(keyring, server, facts)
        if not facts.is_known:
            logger.warning("action=heal hub=%d space=%d reason=put_back", server.id, space.id)
            with store.transaction() as tx:
                say_all_again(tx, space.id, server.member_id)
                change_space(tx, space.id, cursor=0, mark_seq=0, mark=b"")
        if (space.role, space.name, space.reports) != (facts.role, facts.name, facts.reports):
            with store.transaction() as tx:
                change_space(tx, space.id, role=facts.role, name=facts.name, reports=facts.reports)
        now = _reload(store, space)
        if facts.head > now.cursor:
            pulled = Pulled()
            try:
                pull_space(store, steps.places, connection, server, now, keyring, redact, facts.head, goes_on, pulled)
            finally:
                done.pulled += pulled.rows
                done.changed += pulled.memories + pulled.forgotten
            now = _reload(store, space)
        if count_outgoing(store, space.id) and facts.role != "reader":
            pushed = Pushed()
            try:
                push_space(store, connection, server, now, keyring, hub_ms, goes_on, pushed)
            finally:
                done.pushed += pushed.rows
                done.refused += pushed.refused
        error = ""
    except HubRefused as refusal:
        if refusal.status in (0, 401, 409, 429):
            raise
        error = str(refusal)
    except _NoKey as missing:
        error = str(missing)
    if error != space.last_error:
        with store.transaction() as tx:
            change_space(tx, space.id, last_error=redact(error)[:300])


class _NoKey(Exception):
    """This machine has not the key that seals a space now."""


def _check_key(keyring: Keyring, server: Server, facts: SpaceFacts) -> None:
    if not facts.is_sealed:
        return
    keys = keyring.keys(server.url, facts.ns_id)
    if not facts.key_id or facts.key_id not in keys:
        raise _NoKey(f"its key was changed, or is not here: run `engram hub key {facts.name}` with the recovery phrase")
    if list(keys)[-1] != facts.key_id:
        keyring.add_key(server.url, facts.ns_id, keys[facts.key_id])


def _drop_lost(store: Store, server: Server, answer: HelloAnswer) -> None:
    """Let spaces go in which this member has no seat any more. What was pulled stays."""
    told = {facts.ns_id for facts in answer.spaces}
    for space in list_spaces(store, server.id):
        if space.ns_id not in told and not space.is_private:
            with store.transaction() as tx:
                drop_space(tx, space.id)


def _reload(store: Store, space: Space) -> Space:
    now = space_by_id(store, space.id)
    assert now is not None
    return now
