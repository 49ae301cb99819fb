"""The file with the tokens of hubs and the keys of sealed spaces: ``hub-keys.json``, mode 0600, in no backup.

It also holds what makes a machine one device of a hub, whatever the hub answers: the token that it asked to get in with
(so that asking again is the same device), and the secret by which it knows its own pushes and those of a copy of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engram.atomic import locked_folder, read_regular, write_atomic
from engram.errors import HubError
from engram.hub.protocol.sealing import key_id_of

#: Largest file that is read, in bytes.
_MAX_BYTES = 1_000_000


class Keyring:
    """Tokens by the address of their hub, and keys by hub and space; the newest key of a space comes last.

    A round of the worker and a command may change the file at the same time: each change reads it anew under a lock.
    """

    def __init__(self, path: Path) -> None:
        """Read the file at ``path``; there may be none. Raises HubError where it cannot be read."""
        self._path = path
        self._hubs = self._read()

    def token(self, url: str) -> str:
        """Return the token of a hub. Raises HubError where there is none."""
        token = self._hubs.get(url, {}).get("token", "")
        if not token:
            raise HubError(f"{self._path.name} has no token for {url}: run `engram hub leave`, then join again")
        return str(token)

    def set_token(self, url: str, token: str) -> None:
        """Keep a token."""
        with self._changing() as hubs:
            hubs.setdefault(url, {})["token"] = token

    def drop_token(self, url: str) -> None:
        """Forget a hub's token, and no key."""
        with self._changing() as hubs:
            kept = hubs.get(url, {})
            kept.pop("token", None)
            kept.pop("device", None)

    # -- one device

    def pending_token(self, url: str) -> str:
        """Return the token that this machine asks to become a device with; the same one until that is settled."""
        token = self._hubs.get(url, {}).get("pending_token", "")
        if not token:
            token = secrets.token_urlsafe(32)
            with self._changing() as hubs:
                token = hubs.setdefault(url, {}).setdefault("pending_token", token)
        return str(token)

    def drop_pending(self, url: str) -> None:
        """Forget the token that was asked with: it can't become a device's."""
        with self._changing() as hubs:
            hubs.get(url, {}).pop("pending_token", None)

    def become_device(self, url: str, token: str) -> None:
        """Keep the token of another device, whose id is not settled yet."""
        with self._changing() as hubs:
            kept = hubs.setdefault(url, {})
            kept["token"] = token
            kept.setdefault("secret", secrets.token_hex(16))
            kept.pop("pending_token", None)
            kept.pop("device", None)

    def device(self, url: str) -> int:
        """Return the id of this machine at a hub; 0 until the hub took something from it under its id."""
        return int(self._hubs.get(url, {}).get("device", 0))

    def settle_device(self, url: str, device_id: int) -> None:
        """Note under which id a hub took something from this machine."""
        if self.device(url) != device_id:
            with self._changing() as hubs:
                hubs.setdefault(url, {})["device"] = device_id

    def new_push_id(self, url: str, device_id: int) -> bytes:
        """Return the id of a push: sixteen bytes that only this machine, or a copy of it, can have made."""
        if not self._hubs.get(url, {}).get("secret"):
            with self._changing() as hubs:
                hubs.setdefault(url, {}).setdefault("secret", secrets.token_hex(16))
        chosen = secrets.token_bytes(8)
        return chosen + self._proof(url, device_id, chosen)

    def has_made(self, url: str, device_id: int, push_id: bytes) -> bool:
        """True where this machine or a copy of it made the id of a push. One that joined with an earlier version has no
        proof before its first push with this one.
        """
        if not self._hubs.get(url, {}).get("secret"):
            return True
        return hmac.compare_digest(push_id[8:], self._proof(url, device_id, push_id[:8]))

    def _proof(self, url: str, device_id: int, chosen: bytes) -> bytes:
        key = bytes.fromhex(self._hubs[url]["secret"])
        data = device_id.to_bytes(8) + chosen
        return hashlib.blake2b(data, key=key, digest_size=8, person=b"engram push").digest()

    # -- keys of spaces

    def keys(self, url: str, ns_id: int) -> Mapping[bytes, bytes]:
        """Return id of a key → key, for a space, the newest last."""
        hub = self._hubs.get(url, {})
        stored = [*hub.get("next", {}).get(str(ns_id), []), *hub.get("keys", {}).get(str(ns_id), [])]
        keys = [bytes.fromhex(text) for text in stored]
        return {key_id_of(key): key for key in keys}

    def add_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Keep a key as the newest of a space."""
        with self._changing() as hubs:
            keys = hubs.setdefault(url, {}).setdefault("keys", {}).setdefault(str(ns_id), [])
            if key.hex() in keys:
                keys.remove(key.hex())
            keys.append(key.hex())
            coming = hubs[url].get("next", {})
            if key.hex() in coming.get(str(ns_id), []):
                del coming[str(ns_id)]

    def add_keys(self, url: str, ns_id: int, keys: Sequence[bytes]) -> None:
        """Keep the keys of a space that a code carried, the newest last. One that is here already comes before this
        machine's own: the code may be older.
        """
        here = self.keys(url, ns_id)
        own = [key for key_id, key in here.items() if not self.is_next_key(url, ns_id, key_id)]
        is_older = bool(keys) and key_id_of(keys[-1]) in here
        for key in [*keys, *own] if is_older else keys:
            self.add_key(url, ns_id, key)

    def add_next_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Keep a key that the hub is asked to take. It seals nothing before the hub names it."""
        with self._changing() as hubs:
            hubs.setdefault(url, {}).setdefault("next", {}).setdefault(str(ns_id), []).append(key.hex())

    def is_next_key(self, url: str, ns_id: int, key_id: bytes) -> bool:
        """True for a key that the hub was asked to take, and named or not."""
        stored = self._hubs.get(url, {}).get("next", {}).get(str(ns_id), [])
        return any(key_id_of(bytes.fromhex(text)) == key_id for text in stored)

    def drop_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Forget a key that a space did not take."""
        with self._changing() as hubs:
            for kind in ("keys", "next"):
                keys = hubs.get(url, {}).get(kind, {}).get(str(ns_id), [])
                if key.hex() in keys:
                    keys.remove(key.hex())

    def export_keys(self, url: str) -> bytes:
        """Return all keys of a hub's spaces, for another machine of the same person."""
        return json.dumps(self._hubs.get(url, {}).get("keys", {})).encode()

    def import_keys(self, url: str, data: bytes) -> None:
        """Keep keys that another machine exported."""
        for ns_id, keys in json.loads(data).items():
            self.add_keys(url, int(ns_id), [bytes.fromhex(key) for key in keys])

    def drop(self, url: str) -> None:
        """Forget a hub's token and keys."""
        with self._changing() as hubs:
            hubs.pop(url, None)

    def _read(self) -> dict[str, dict[str, Any]]:
        data = read_regular(self._path, _MAX_BYTES)
        try:
            hubs = {} if data is None else json.loads(data)
        except ValueError:
            hubs = None
        if not isinstance(hubs, dict):
            raise HubError(
                f"{self._path} is damaged: move it away, run `engram hub leave`, then join again with a code "
                "of another machine or the recovery phrase"
            )
        return hubs

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, Any]]]:
        with locked_folder(self._path.parent):
            self._hubs = self._read()
            yield self._hubs
            write_atomic(self._path, json.dumps(self._hubs, indent=1).encode())
