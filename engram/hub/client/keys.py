"""The file with the tokens of hubs and the keys of sealed spaces: ``hub-keys.json``, mode 0600, in no backup."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
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
            hubs.get(url, {}).pop("token", None)

    def keys(self, url: str, ns_id: int) -> Mapping[bytes, bytes]:
        """Return id of a key → key, for a space, the newest last."""
        stored = self._hubs.get(url, {}).get("keys", {}).get(str(ns_id), [])
        keys = [bytes.fromhex(text) for text in stored]
        return {key_id_of(key): key for key in keys}

    def add_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Keep a key as the newest of a space."""
        with self._changing() as hubs:
            keys = hubs.setdefault(url, {}).setdefault("keys", {}).setdefault(str(ns_id), [])
            if key.hex() in keys:
                keys.remove(key.hex())
            keys.append(key.hex())

    def drop_key(self, url: str, ns_id: int, key: bytes) -> None:
        """Forget a key that a space did not take."""
        with self._changing() as hubs:
            keys = hubs.get(url, {}).get("keys", {}).get(str(ns_id), [])
            if key.hex() in keys:
                keys.remove(key.hex())

    def export_keys(self, url: str) -> bytes:
        """Return all keys of a hub's spaces, for another machine of the same person."""
        return json.dumps(self._hubs.get(url, {}).get("keys", {})).encode()

    def import_keys(self, url: str, data: bytes) -> None:
        """Keep keys that another machine exported."""
        for ns_id, keys in json.loads(data).items():
            for key in keys:
                self.add_key(url, int(ns_id), bytes.fromhex(key))

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
