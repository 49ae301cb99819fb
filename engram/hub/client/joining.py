"""Join and leave a hub, and move keys between a person's machines."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from engram.errors import BadRequest, EngramError, HubRefused, NotFound
from engram.hub.client.connection import LIMITS, Connection, check_url
from engram.hub.client.keys import Keyring
from engram.hub.protocol.messages import HelloAnswer, HelloRequest, Membership, SpaceFacts, hash_token
from engram.hub.protocol.phrase import code_hash, code_text, key_of, new_code, phrase_of, split_code
from engram.hub.protocol.sealing import WrongKey, key_id_of, new_key, unwrap_keys, wrap_keys
from engram.models.hub_outgoing import begin_enqueuing, say_with_new_key
from engram.models.hub_spaces import (
    Server,
    Space,
    add_hub_space,
    add_server,
    change_space,
    drop_server,
    find_server,
    find_space,
    list_servers,
    list_spaces,
    private_space,
    server_by_id,
)
from engram.models.store import Store
from engram.paths import Home

#: Keys of a space of which one is taken for the hub's when it is changed, the newest first.
MAX_KEYS_TRIED = 5


@dataclass(frozen=True, slots=True)
class Joined:
    """What joining led to."""

    server: Server
    spaces: tuple[Space, ...]
    #: The recovery phrase of the private space, for the machine that made its key; shown once. "" for any other.
    phrase: str


def join_hub(store: Store, places: Home, url: str, code: str, *, device_name: str = "", phrase: str = "") -> Joined:
    """Join a hub with a one-time code.

    The first machine makes the key of the private space. Any other one gets it with the second half of a code that
    another machine made, or with the recovery phrase. A wrong key is refused before anything is kept or pushed.

    Raises:
        BadRequest: the address or code can't be used, or the hub was joined already.
        WrongKey: the key is missing or wrong; this machine is no device of the hub.
        HubError: the hub can't be reached, or refuses the code.
    """
    url = check_url(url)
    hub_half, key_half = split_code(code)
    given = key_of(phrase) if phrase else None
    if find_server(store, url) is not None:
        raise BadRequest(f"{url} was joined already; `engram hub status` shows it")
    keyring = Keyring(places.hub_keys)
    with Connection(url, limits=LIMITS) as connection:
        member = _ask_in(connection, keyring, url, {"code": hub_half, "name": device_name or platform.node()})
        try:
            _check_spaces(member, connection.hello(HelloRequest((), {})))
            left_keys = {facts.ns_id: keyring.keys(url, facts.ns_id) for facts in member.spaces}
            if key_half and member.bundle:
                keyring.import_keys(url, unwrap_keys(key_half, member.bundle))
            made = ""
            for facts in member.spaces:
                if facts.kind == "private":
                    left = left_keys.get(facts.ns_id, {})
                    made = _take_key(connection, keyring, url, facts, given, left) or made
        except BaseException:
            with contextlib.suppress(EngramError):
                connection.ask("devices", {"leave": True})
                keyring.drop_pending(url)
            # A key stays: the hub may have noted it although no answer came. It would be the only copy.
            keyring.drop_token(url)
            raise
    keyring.become_device(url, connection.token)
    with store.transaction() as tx:
        server = add_server(tx, url, member.member_id, member.member_name, member.device_id)
        for facts in member.spaces:
            if facts.kind == "private" and private_space(tx) is None:
                begin_enqueuing(tx, add_hub_space(tx, server, facts).id)
    return Joined(server, tuple(list_spaces(store, server.id)), made)


def _ask_in(connection: Connection, keyring: Keyring, url: str, request: dict[str, str]) -> Membership:
    """Ask to become a device, with a token of this machine's own: asked again after no answer, it is the same device.

    Raises:
        HubError: the hub can't be reached, or refuses the code.
    """
    pending = keyring.pending_token(url)
    try:
        member = connection.membership("join", request | {"token_hash": hash_token(pending).hex()})
    except HubRefused as refusal:
        if refusal.status == 422:
            # The device of this token was shut out.
            keyring.drop_pending(url)
        raise
    # An earlier hub chooses the token itself.
    connection.token = member.token or pending
    return member


def _check_spaces(member: Membership, told: HelloAnswer) -> None:
    """Refuse a hub that tells two things, or would be told private memories openly. Raises HubRefused."""
    if told.device_id != member.device_id or {f.ns_id for f in told.spaces} != {f.ns_id for f in member.spaces}:
        raise HubRefused("the hub contradicts itself about this machine and its spaces: try again")
    if any(facts.kind == "private" and not facts.is_sealed for facts in member.spaces):
        raise HubRefused("the hub names a private space that is not sealed: it could read everything of this machine")


def _take_key(
    connection: Connection,
    keyring: Keyring,
    url: str,
    facts: SpaceFacts,
    given: bytes | None,
    left: Mapping[bytes, bytes],
) -> str:
    """Make or check the key of a private space; returns its phrase where it was made here.

    Args:
        given: the key of the phrase that was typed.
        left: the keys that an interrupted joining left here.
    """
    if given is not None:
        if facts.key_id and key_id_of(given) != facts.key_id:
            raise WrongKey("the recovery phrase belongs to another key than the hub's; nothing was changed")
        keyring.add_key(url, facts.ns_id, given)
    if facts.key_id:
        if facts.key_id in left:
            # It was made here when joining was interrupted: nobody has seen its phrase.
            return phrase_of(left[facts.key_id])
        if facts.key_id not in keyring.keys(url, facts.ns_id):
            raise WrongKey(
                "this space is sealed: make a code on a machine that is in it with `engram hub devices --add`, or give "
                "the recovery phrase with --phrase; nothing was changed"
            )
        return ""
    key = given or new_key()
    keyring.add_key(url, facts.ns_id, key)
    change = {"ns": facts.ns_id, "before": "", "after": key_id_of(key).hex()}
    if not connection.ask("key", change).get("set"):
        keyring.drop_key(url, facts.ns_id, key)
        raise WrongKey("another machine made the key at this moment: make a code there with `engram hub devices --add`")
    return phrase_of(key)


def leave_hub(store: Store, places: Home, server: Server) -> None:
    """Leave a hub: its token and keys go, and what was said there. Memories stay here and there."""
    keyring = Keyring(places.hub_keys)
    with contextlib.suppress(EngramError), Connection(server.url, keyring.token(server.url)) as connection:
        connection.ask("devices", {"leave": True, "remove": server.device_id})
    with store.transaction() as tx:
        drop_server(tx, server.id)
    keyring.drop(server.url)


def make_code(places: Home, server: Server) -> str:
    """Return a one-time code for another machine of this person; its second half carries the keys past the hub."""
    keyring = Keyring(places.hub_keys)
    hub_half, key_half = new_code()
    bundle = wrap_keys(key_half, keyring.export_keys(server.url))
    with Connection(server.url, keyring.token(server.url)) as connection:
        connection.ask("code", {"digest": code_hash(hub_half).hex(), "bundle": bundle.hex()})
    return code_text(hub_half, key_half)


def give_key(store: Store, places: Home, name: str, phrase: str) -> None:
    """Keep the key of a space, from its recovery phrase; what could not be read is pulled again.

    Raises:
        WrongKey: the space is sealed with another key now; nothing was kept.
        HubError: the hub can't be reached.
    """
    space = require_space(store, name)
    server = _server_of(store, space)
    key, keyring = key_of(phrase), Keyring(places.hub_keys)
    with Connection(server.url, keyring.token(server.url)) as connection:
        told = connection.hello(HelloRequest(server.pushes[-1:], {}))
    named = next((facts.key_id for facts in told.spaces if facts.ns_id == space.ns_id), b"")
    if key_id_of(key) != named:
        raise WrongKey(
            f"this is the phrase of another key than the one that seals {space.name} now, such as a former one; it was "
            f"not kept. Where the key was made, `engram hub key {space.name} --show` prints its phrase"
        )
    keyring.add_key(server.url, space.ns_id, key)
    with store.transaction() as tx:
        change_space(tx, space.id, cursor=0, last_error="")


def rotate_key(store: Store, places: Home, name: str) -> str:
    """Seal a space with a new key, and return its recovery phrase; everything is said again with it.

    Other machines need the phrase, or a new code. What an old key sealed can still be read by those who have it.
    """
    space = require_space(store, name)
    server = _server_of(store, space)
    keyring = Keyring(places.hub_keys)
    # Not only the newest: where a rotation got no answer, the hub may still have the one before.
    kept = list(keyring.keys(server.url, space.ns_id))
    asked = [key_id for key_id in kept if keyring.is_next_key(server.url, space.ns_id, key_id)]
    known = [*asked, *(key_id for key_id in reversed(kept) if key_id not in asked)]
    key = new_key()
    keyring.add_next_key(server.url, space.ns_id, key)
    with Connection(server.url, keyring.token(server.url)) as connection:
        is_set = any(
            connection.ask("key", {"ns": space.ns_id, "before": before.hex(), "after": key_id_of(key).hex()}).get("set")
            for before in known[:MAX_KEYS_TRIED] or [b""]
        )
    if not is_set:
        keyring.drop_key(server.url, space.ns_id, key)
        raise BadRequest("another machine changed the key meanwhile, or you are no keeper of this space")
    keyring.add_key(server.url, space.ns_id, key)
    with store.transaction() as tx:
        say_with_new_key(tx, space.id, server.member_id)
    return phrase_of(key)


def require_server(store: Store, url: str | None = None) -> Server:
    """Return the hub of an address, or the only one. Raises NotFound or BadRequest."""
    servers = list_servers(store)
    if url is not None:
        server = find_server(store, check_url(url))
        if server is None:
            raise NotFound(f"{url} was not joined; `engram hub status` lists the hubs")
        return server
    if not servers:
        raise NotFound("no hub was joined; `engram hub join URL CODE` joins one")
    if len(servers) > 1:
        raise BadRequest("several hubs were joined: name one with --hub")
    return servers[0]


def require_space(store: Store, name: str) -> Space:
    """Return the space of a name. Raises NotFound."""
    space = find_space(store, name)
    if space is None:
        raise NotFound(f"there is no space {name[:60]!r}; `engram hub spaces` lists them")
    return space


def _server_of(store: Store, space: Space) -> Server:
    server = None if space.server_id is None else server_by_id(store, space.server_id)
    if server is None:
        raise BadRequest(f"{space.name} is a pack: it has no hub and no key")
    return server
