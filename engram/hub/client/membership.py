"""Join and leave a hub, and move keys between a person's machines."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import platform
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.errors import BadRequest, EngramError, HubError, HubRefused, NotFound
from engram.hub.client.connection import Connection, Limits, Transport, check_url
from engram.hub.client.folder_files import GIT, folder_of, is_folder
from engram.hub.client.hub_folder import Folder
from engram.hub.protocol.frames import WrongKey, key_id_of, new_key, unwrap_keys, wrap_keys
from engram.hub.protocol.requests import (
    HelloAnswer,
    HelloRequest,
    Membership,
    SpaceFacts,
    code_hash,
    code_text,
    hash_token,
    key_of,
    new_code,
    phrase_of,
    split_code,
)
from engram.models.engine.transaction import Reader, Store
from engram.models.hub.outgoing_statements import begin_enqueuing, say_with_new_key, seal_again
from engram.models.hub.spaces import (
    Server,
    Space,
    add_hub_space,
    add_server,
    change_server,
    change_space,
    drop_server,
    find_server,
    find_space,
    list_servers,
    list_spaces,
    private_space,
    server_by_id,
    server_of,
)
from engram.paths import Home
from engram.system.atomic import locked_folder, read_whole, write_atomic
from engram.trust.display import as_arguments

# -- The file with the tokens of hubs and the keys of sealed spaces: ``hub-keys.json``, mode 0600, not part of any
# backup.
#
# It also contains what keeps a machine from becoming two devices of a hub, however the hub responds: the token with
# which it asked for access, so that asking again yields the same device, and the secret that lets it recognise its own
# pushes and those of a copy of itself.

#: Maximum size of the file, in bytes.
_MAX_BYTES = 1_000_000


class Keyring:
    """Contains tokens by hub address, and keys by hub and space, newest last. Each change rereads it under a lock."""

    def __init__(self, path: Path) -> None:
        """Read the file at ``path``, if there is one. Raises HubError if it cannot be read."""
        self._path = path
        self._hubs = self._read()

    def joined(self) -> list[str]:
        """Return the addresses of the hubs for which this machine has a token."""
        return [url for url, kept in self._hubs.items() if kept.get("token")]

    def token(self, url: str) -> str:
        """Return the token of a hub. Raises HubError if there is none."""
        token = self.of_hub(url).get("token", "")
        if not token:
            raise HubError(f"{self._path.name} has no token for {url}: run `engram hub leave`, then join again")
        return str(token)

    def drop_token(self, url: str) -> None:
        """Delete a hub's token, but not its keys."""
        with self._changing(url) as hub:
            hub.pop("token", None)
            hub.pop("device", None)

    # -- one device

    def pending_token(self, url: str) -> str:
        """Return the token with which this machine asks to become a device. It is kept until the request is settled."""
        if not self.of_hub(url).get("pending_token"):
            with self._changing(url) as hub:
                hub.setdefault("pending_token", secrets.token_urlsafe(32))
        return str(self.of_hub(url)["pending_token"])

    def drop_pending(self, url: str) -> None:
        """Delete the pending token, because it can no longer become a device's token."""
        with self._changing(url) as hub:
            hub.pop("pending_token", None)

    def become_device(self, url: str, token: str) -> None:
        """Store the token of a new device that has no confirmed id yet."""
        with self._changing(url) as hub:
            hub["token"] = token
            hub.setdefault("secret", secrets.token_hex(16))
            hub.pop("pending_token", None)
            hub.pop("device", None)

    def device(self, url: str) -> int:
        """Return the id of this machine at a hub; 0 until the hub has accepted something from it under that id."""
        return int(self.of_hub(url).get("device", 0))

    def settle_device(self, url: str, device_id: int) -> None:
        """Record the id under which a hub accepted something from this machine."""
        if self.device(url) != device_id:
            with self._changing(url) as hub:
                hub["device"] = device_id

    def new_push_id(self, url: str, device_id: int) -> bytes:
        """Return a new push id: sixteen bytes that only this machine, or a copy of it, could have made."""
        if not self.of_hub(url).get("secret"):
            with self._changing(url) as hub:
                hub.setdefault("secret", secrets.token_hex(16))
        chosen = secrets.token_bytes(8)
        return chosen + self._proof(url, device_id, chosen)

    def has_made(self, url: str, device_id: int, push_id: bytes) -> bool:
        """Return True if this machine or a copy of it made a push id.

        Also return True if that can't be checked yet, because the machine joined with an earlier version of Engram and
        has not pushed with this one.
        """
        if not self.of_hub(url).get("secret"):
            return True
        return hmac.compare_digest(push_id[8:], self._proof(url, device_id, push_id[:8]))

    def _proof(self, url: str, device_id: int, chosen: bytes) -> bytes:
        key = bytes.fromhex(self.of_hub(url)["secret"])
        data = device_id.to_bytes(8) + chosen
        return hashlib.blake2b(data, key=key, digest_size=8, person=b"engram push").digest()

    # -- keys of spaces

    def keys(self, url: str, ns_id: int) -> Mapping[bytes, bytes]:
        """Return key id → key for a space, newest last."""
        hub = self.of_hub(url)
        stored = [*hub.get("next", {}).get(str(ns_id), []), *hub.get("keys", {}).get(str(ns_id), [])]
        keys = [bytes.fromhex(text) for text in stored]
        return {key_id_of(key): key for key in keys}

    def add_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Store a key as the newest key of a space."""
        with self._changing(url) as hub:
            keys = hub.setdefault("keys", {}).setdefault(str(ns_id), [])
            if key.hex() in keys:
                keys.remove(key.hex())
            keys.append(key.hex())
            coming = hub.get("next", {})
            if key.hex() in coming.get(str(ns_id), []):
                del coming[str(ns_id)]

    def add_keys(self, url: str, ns_id: int, keys: Sequence[bytes]) -> None:
        """Store a space's keys from a code, newest last.

        If this machine already has the newest of them, the order of its own keys is kept, because the code may be
        older.
        """
        here = self.keys(url, ns_id)
        own = [key for key_id, key in here.items() if not self.is_next_key(url, ns_id, key_id)]
        is_older = bool(keys) and key_id_of(keys[-1]) in here
        for key in [*keys, *own] if is_older else keys:
            self.add_key(url, ns_id, key)

    def add_next_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Store a key that the hub has been asked to accept. It is not used for sealing until the hub reports it."""
        with self._changing(url) as hub:
            hub.setdefault("next", {}).setdefault(str(ns_id), []).append(key.hex())

    def is_next_key(self, url: str, ns_id: int, key_id: bytes) -> bool:
        """Return True for a key that the hub has been asked to accept, even if the hub has not reported it yet."""
        stored = self.of_hub(url).get("next", {}).get(str(ns_id), [])
        return any(key_id_of(bytes.fromhex(text)) == key_id for text in stored)

    def drop_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Delete a key that the hub did not accept for a space."""
        with self._changing(url) as hub:
            for kind in ("keys", "next"):
                keys = hub.get(kind, {}).get(str(ns_id), [])
                if key.hex() in keys:
                    keys.remove(key.hex())

    def export_keys(self, url: str) -> bytes:
        """Return all keys of a hub's spaces, for another machine of the same person."""
        return json.dumps(self.of_hub(url).get("keys", {})).encode()

    def import_keys(self, url: str, data: bytes) -> None:
        """Store keys that another machine exported."""
        for ns_id, keys in json.loads(data).items():
            self.add_keys(url, int(ns_id), [bytes.fromhex(key) for key in keys])

    def move(self, url: str, to_url: str) -> None:
        """Also store a hub's token and keys under its new address."""
        with self._changing(to_url):
            self._hubs[to_url] = dict(self.of_hub(url))

    def drop(self, url: str) -> None:
        """Delete a hub's token and keys."""
        with self._changing(url):
            del self._hubs[url]

    def _read(self) -> dict[str, dict[str, Any]]:
        data = read_whole(self._path, _MAX_BYTES)
        try:
            hubs = {} if data == b"" else json.loads(data or b"?")
        except ValueError:
            hubs = None
        if not isinstance(hubs, dict):
            raise HubError(
                f"{self._path} is damaged or a link: move it elsewhere, run `engram hub leave`, then join again with a "
                "code from another machine or with the recovery phrase"
            )
        return hubs

    def of_hub(self, url: str) -> dict[str, Any]:
        """Return what is stored about a hub, for reading."""
        return self._hubs.get(url, {})

    @contextlib.contextmanager
    def _changing(self, url: str) -> Iterator[dict[str, Any]]:
        """Yield what is stored about a hub, as read again from the file; it is written at the end."""
        with locked_folder(self._path.parent):
            self._hubs = self._read()
            yield self._hubs.setdefault(url, {})
            self._hubs = {known: kept for known, kept in self._hubs.items() if kept}
            if self._hubs:
                write_atomic(self._path, json.dumps(self._hubs, indent=1).encode())
            else:
                self._path.unlink(missing_ok=True)


def connect(
    store: Store, keyring: Keyring, server: Server, limits: Limits | None = None, *, is_asked: bool = False
) -> Transport:
    """Return the transport to a hub, which is either HTTPS or a folder.

    Args:
        is_asked: True if a person is waiting for the result.

    Raises:
        HubError: the token, or a folder's key, is missing.
    """
    token = keyring.token(server.url)
    if not is_folder(server.url):
        return Connection(server.url, token, limits=limits)
    spaces = list_spaces(store, server.id)
    keys = keyring.keys(server.url, spaces[0].ns_id) if spaces else {}
    if not keys:
        raise HubError(
            f"the key of {folder_of(server.url)} is missing: run `engram hub leave`, then `engram sync` again"
        )
    new_push_id = functools.partial(keyring.new_push_id, server.url)
    return Folder(store, server, token, keys, new_push_id, limits=limits, is_asked=is_asked)


#: When a space's key is changed, the maximum number of its keys to try as the hub's current one, newest first.
MAX_KEYS_TRIED = 5


@dataclass(frozen=True, slots=True)
class Joined:
    server: Server
    spaces: tuple[Space, ...]
    #: The recovery phrase of the private space, shown once on the machine that created its key; "" on any other.
    phrase: str


def check_join(store: Store, url: str, code: str) -> tuple[str, str, str]:
    """Return the address of a hub and the two halves of a code, in normalised form, before a phrase is asked for.

    Raises:
        BadRequest: the address or code can't be used, or the hub has already been joined.
    """
    url = check_url(url)
    hub_half, key_half = split_code(code)
    if find_server(store, url) is not None:
        raise BadRequest(f"{url} has already been joined; `engram hub status` shows it")
    return url, hub_half, key_half


def join_hub(store: Store, home: Home, url: str, code: str, *, device_name: str = "", phrase: str = "") -> Joined:
    """Join a hub with a one-time code.

    The first machine creates the private space's key. Any other machine gets it with the second half of a code that
    another machine created, or from the recovery phrase. A wrong key is refused before anything is stored or pushed.

    Raises:
        BadRequest: the address or code can't be used, or the hub has already been joined.
        WrongKey: the key is missing or wrong; this machine has not become a device of the hub.
        HubError: the hub can't be reached, or refuses the code.
    """
    url, hub_half, key_half = check_join(store, url, code)
    given = key_of(phrase) if phrase else None
    keyring = Keyring(home.hub_keys)
    with Connection(url) as connection:
        member = _ask_in(connection, keyring, url, {"code": hub_half, "name": device_name or platform.node()})
        try:
            _check_spaces(member, connection.hello(HelloRequest((), {})))
            _check_address(store, keyring, url, member)
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
            # The key is kept, because the hub may have recorded it although no response arrived, and this would then be
            # the only copy.
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
    """Ask to become a device, with a token chosen by this machine, so that a repeated request returns the same device.

    Raises:
        HubError: the hub can't be reached, or refuses the code.
    """
    connection.open()
    is_repeated = "pending_token" in keyring.of_hub(url)
    pending = keyring.pending_token(url)
    try:
        member = connection.membership("join", request | {"token_hash": hash_token(pending).hex()})
    except HubRefused as refusal:
        if refusal.status == 422 or (refusal.status and not is_repeated):
            # The device with this token has been shut out, or no request with it was ever accepted.
            keyring.drop_pending(url)
        raise
    connection.token = pending
    return member


def _check_spaces(member: Membership, told: HelloAnswer) -> None:
    """Raise HubRefused if the hub contradicts itself, or would receive private memories unsealed."""
    if told.device_id != member.device_id or {f.ns_id for f in told.spaces} != {f.ns_id for f in member.spaces}:
        raise HubRefused("the hub gave contradictory information about this machine and its spaces: try again")
    if any(facts.kind == "private" and not facts.is_sealed for facts in member.spaces):
        raise HubRefused("the hub lists a private space that is not sealed: it could read this machine's memories")


def _check_address(store: Store, keyring: Keyring, url: str, member: Membership) -> None:
    """Raise BadRequest if this is a new address of the hub that has this machine's private space."""
    if (own := private_space(store)) is None:
        return
    before = server_of(store, own).url
    if any(facts.ns_id == own.ns_id and facts.key_id in keyring.keys(before, own.ns_id) for facts in member.spaces):
        raise BadRequest(f"this is the hub that was joined at {before}: `engram hub move {url}` continues with it")


def _take_key(
    connection: Connection,
    keyring: Keyring,
    url: str,
    facts: SpaceFacts,
    given: bytes | None,
    left: Mapping[bytes, bytes],
) -> str:
    """Create or check the key of a private space; return its phrase if this machine created it, and "" otherwise.

    Args:
        given: the key derived from the phrase that was typed.
        left: the keys that an interrupted join left behind.
    """
    if given is not None:
        if facts.key_id and key_id_of(given) != facts.key_id:
            raise WrongKey("the recovery phrase belongs to a key other than the hub's; nothing was changed")
        keyring.add_key(url, facts.ns_id, given)
    if facts.key_id:
        if facts.key_id in left:
            # The key was created here by an interrupted join, so no user has seen its phrase.
            return phrase_of(left[facts.key_id])
        if facts.key_id not in keyring.keys(url, facts.ns_id):
            raise WrongKey(
                "this space is sealed: create a code with `engram hub devices --add` on a machine that has joined it, "
                "or give the recovery phrase with --phrase; nothing was changed"
            )
        return ""
    key = given or new_key()
    keyring.add_key(url, facts.ns_id, key)
    change = {"ns": facts.ns_id, "before": "", "after": key_id_of(key).hex()}
    if not connection.ask("key", change).get("set"):
        keyring.drop_key(url, facts.ns_id, key)
        raise WrongKey(
            "another machine created the key at the same time: create a code there with `engram hub devices --add`"
        )
    return phrase_of(key)


def leave_hub(store: Store, home: Home, server: Server) -> bool:
    """Leave a hub: delete its token and keys, and the record of what was sent there. Memories are kept on both sides.

    Returns:
        True if this machine's files in a folder were deleted, because another space there takes their place.
    """
    keyring, answer = Keyring(home.hub_keys), dict[str, Any]()
    with contextlib.suppress(EngramError), connect(store, keyring, server) as connection:
        answer = connection.ask("devices", {"leave": True, "remove": server.device_id})
    with store.transaction() as tx:
        drop_server(tx, server.id)
    keyring.drop(server.url)
    return bool(answer.get("erased"))


def move_hub(store: Store, home: Home, server: Server, to_url: str) -> Server:
    """Continue to use a hub that has a new address, as the same device. Its token is sent there: only a user gives it.

    Raises:
        BadRequest: the address can't be used, or is that of another hub; nothing was changed.
        HubError: nothing answers there, or what answers doesn't know this machine.
    """
    url, keyring = check_url(to_url), Keyring(home.hub_keys)
    if is_folder(server.url):
        raise BadRequest(f"{folder_of(server.url)} is a folder: `engram sync DIR` continues with it in another place")
    if find_server(store, url) is not None:
        raise BadRequest(f"{url} has already been joined; `engram hub status` shows it")
    own = {space.ns_id for space in list_spaces(store, server.id)}
    with Connection(url, keyring.token(server.url)) as connection:
        told = connection.hello(HelloRequest((), {}))
    if told.device_id != server.device_id or not own <= {facts.ns_id for facts in told.spaces}:
        raise BadRequest(f"{url} is not the hub at {server.url}; nothing was changed")
    keyring.move(server.url, url)
    with store.transaction() as tx:
        change_server(tx, server.id, url=url, failures=0, retry_at_ms=0, last_error="")
    keyring.drop(server.url)
    return server_by_id(store, server.id) or server


def list_unknown(store: Reader, home: Home) -> dict[str, str]:
    """Return the hubs that this machine has joined but memory.db lacks, because it is older or has been recreated.

    Returns:
        Place → the command that joins it again, which brings back what was sent there.
    """
    found, keyring = {}, Keyring(home.hub_keys)
    known = {keyring.token(url) for url in keyring.joined() if find_server(store, url) is not None}
    for url in keyring.joined():
        # An interrupted `move_hub` leaves the former address of a known hub.
        if find_server(store, url) is None and keyring.token(url) not in known:
            folder, is_there = folder_of(url), is_folder(url)
            git = " --git" if url.startswith(GIT) else ""
            again = f"engram sync {shlex.quote(str(folder))}{git}" if is_there else f"engram hub join {url} CODE"
            found[str(folder) if is_there else url] = again
    return found


def make_code(home: Home, server: Server) -> str:
    """Return a one-time code for another machine of this person.

    Its second half contains the keys, hidden from the hub.

    Raises:
        BadRequest: the hub is a folder, which needs no code.
        HubError: the hub can't be reached.
    """
    _refuse_folder(
        server,
        "needs no code: run `engram sync` with the same folder on the other machine, and type the recovery phrase",
    )
    keyring = Keyring(home.hub_keys)
    hub_half, key_half = new_code()
    bundle = wrap_keys(key_half, keyring.export_keys(server.url))
    with Connection(server.url, keyring.token(server.url)) as connection:
        connection.ask("code", {"digest": code_hash(hub_half).hex(), "bundle": bundle.hex()})
    return code_text(hub_half, key_half)


def check_key(store: Store, name: str, *, is_new: bool) -> tuple[Space, Server]:
    """Return a space and its hub, checking that the space's key can be entered or, if ``is_new`` is set, changed.

    Raises:
        NotFound: there is no such space.
        BadRequest: it has no key, or its hub is a folder.
    """
    space, server = require_sealed(store, name)
    how = ": to change it, run `engram hub leave` on each machine, and start over in a new folder" if is_new else ""
    _refuse_folder(server, f"has one permanent key{how}")
    return space, server


def give_key(store: Store, home: Home, name: str, phrase: str) -> None:
    """Store the key of a space, given as its recovery phrase; fetch and send again what is sealed with it.

    Raises:
        WrongKey: the space is now sealed with a different key; nothing was stored.
        HubError: the hub can't be reached.
    """
    space, server = check_key(store, name, is_new=False)
    key, keyring = key_of(phrase), Keyring(home.hub_keys)
    with Connection(server.url, keyring.token(server.url)) as connection:
        told = connection.hello(HelloRequest(server.pushes[-1:], {}))
    named = next((facts.key_id for facts in told.spaces if facts.ns_id == space.ns_id), b"")
    if key_id_of(key) != named:
        raise WrongKey(
            f"this phrase belongs to a key other than the one that seals {space.name} now, such as an older one; "
            "the phrase was not stored. On a machine with the current key, "
            f"`engram hub key --show {as_arguments(space.name)}` prints its phrase"
        )
    keyring.add_key(server.url, space.ns_id, key)
    with store.transaction() as tx:
        change_space(tx, space.id, cursor=0, last_error="")
        seal_again(tx, space.id)


def rotate_key(store: Store, home: Home, name: str) -> str:
    """Seal a space with a new key, and return the key's recovery phrase.

    Everything is sent again, sealed with the new key. Other machines need the phrase or a new code. Anyone with an old
    key can still read data that was sealed with it.
    """
    space, server = check_key(store, name, is_new=True)
    keyring = Keyring(home.hub_keys)
    # Also try older keys: if a rotation got no response, the hub may still have the previous key.
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
        raise BadRequest("another machine has changed the key in the meantime, or you are not a keeper of this space")
    keyring.add_key(server.url, space.ns_id, key)
    with store.transaction() as tx:
        say_with_new_key(tx, space.id, server.member_id)
    return phrase_of(key)


def _refuse_folder(server: Server, reason: str) -> None:
    """Raise BadRequest if a hub is a folder."""
    if is_folder(server.url):
        raise BadRequest(f"{folder_of(server.url)} is a folder, which {reason}")


_JOIN = "`engram hub join URL CODE` joins one"
#: What a command says before there is a hub.
NOT_JOINED = f"no folder or hub has been joined; `engram sync DIR` uses a folder as the hub, {_JOIN}"


def require_server(store: Store, url: str | None = None, *, is_service: bool = False) -> Server:
    """Return the hub at an address; if ``url`` is None, the only hub, or the only service if ``is_service``.

    Raises:
        NotFound: no such hub has been joined.
        BadRequest: it is not an address, or there are several hubs.
    """
    servers = [server for server in list_servers(store) if not (is_service and is_folder(server.url))]
    if url is not None:
        server = find_server(store, url if is_folder(url) else check_url(url))
        if server is None:
            raise NotFound(f"{url} has not been joined; `engram hub status` lists the hubs that have")
        return server
    if not servers:
        raise NotFound(f"no hub has been joined yet; {_JOIN}" if is_service else NOT_JOINED)
    if len(servers) > 1:
        raise BadRequest("this machine has joined several hubs: specify one with --hub")
    return servers[0]


def require_sealed(store: Store, name: str) -> tuple[Space, Server]:
    """Return a space that has a key, and its hub. Raises NotFound, or BadRequest for one without a key."""
    space = find_space(store, name)
    if space is None:
        why = "; `engram hub spaces` lists the spaces" if list_servers(store) else f": {NOT_JOINED}"
        raise NotFound(f"there is no space {name[:60]!r}{why}")
    server = None if space.server_id is None else server_by_id(store, space.server_id)
    if server is None or not space.is_sealed:
        raise BadRequest(f"{space.name} is {'a pack' if server is None else 'open, not encrypted'}: it has no key")
    return space, server
