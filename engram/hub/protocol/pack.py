"""Read and write packs, which are curated memories in a file of JSON lines, signed with Ed25519.

The first line is the manifest, which contains the SHA-256 of the lines with memories; the last line is the manifest's
signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engram.errors import BadRequest
from engram.system.lazy_regex import lazy_regex

#: Version of the pack format; a pack with a higher version needs a newer program.
FORMAT = 1
#: Maximum size of a pack, in bytes, and maximum number of memories in it.
MAX_PACK_BYTES, MAX_MEMORIES = 20_000_000, 5_000
_NAME = lazy_regex(r"[a-z0-9][a-z0-9._-]{0,59}")


@dataclass(frozen=True, slots=True)
class Pack:
    name: str
    #: Increases with each edition of the pack.
    version: int
    #: Each with id, kind, summary, content, facts, entities and created_at_ms.
    memories: tuple[Mapping[str, Any], ...]
    #: The public key that signed it, and the manifest's signature; b"" for an unsigned pack.
    key: bytes = b""
    signature: bytes = b""

    @property
    def fingerprint(self) -> str:
        """The beginning of the key's hash, for people to compare."""
        digest = hashlib.sha256(self.key).hexdigest()[:24]
        return " ".join(digest[i : i + 4] for i in range(0, 24, 4))


def pack_memory_id(name: str, stable_id: str) -> str:
    """Return the id of a memory in a pack. It is the same in each version of the pack, and used nowhere else."""
    return hashlib.blake2b(f"{name}\0{stable_id}".encode(), digest_size=8, person=b"engram pack").hexdigest()


def write_pack(pack: Pack) -> bytes:
    """Return a pack as the bytes of a file. Raises BadRequest for an invalid name or too many memories."""
    if not _NAME.fullmatch(pack.name):
        raise BadRequest("a pack's name must have 1 to 60 lower-case letters, digits, dots and dashes")
    if not 0 < len(pack.memories) <= MAX_MEMORIES:
        raise BadRequest(f"a pack must have 1 to {MAX_MEMORIES} memories: specify their ids, or a project")
    lines = [_manifest(pack), *map(_line, pack.memories)]
    if pack.signature:
        lines.append(_line({"signature": pack.signature.hex()}))
    return b"\n".join(lines) + b"\n"


def read_pack(data: bytes) -> Pack:
    """Return the pack in a file, signed or not.

    Raises:
        BadRequest: it is not a pack, was truncated or changed, or its signature is wrong.
    """
    if len(data) > MAX_PACK_BYTES:
        raise BadRequest(f"a pack may have at most {MAX_PACK_BYTES} bytes")
    try:
        head, *lines = data.decode("utf-8").strip("\n").split("\n")
        manifest = json.loads(head)
        if manifest["pack"] > FORMAT:
            raise BadRequest("the pack was made by a newer Engram: update Engram")
        signature = b""
        if manifest["key"]:
            signature = bytes.fromhex(json.loads(lines.pop())["signature"])
        pack = Pack(
            name=str(manifest["name"]),
            version=int(manifest["version"]),
            memories=tuple(map(_memory, lines)),
            key=bytes.fromhex(manifest["key"]),
            signature=signature,
        )
        is_whole = manifest["digest"] == _digest(line.encode() for line in lines) and manifest["memories"] == len(lines)
    except BadRequest:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadRequest("this is not an Engram pack, or it is damaged") from error
    if not is_whole or not _NAME.fullmatch(pack.name) or not 0 < len(lines) <= MAX_MEMORIES:
        raise BadRequest("the pack was truncated or changed")
    if pack.key:
        _verify(pack, head.encode())
    return pack


def sign_pack(pack: Pack, secret: bytes) -> Pack:
    """Return a pack signed with the 32 bytes of an Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(secret)
    named = replace(pack, key=private.public_key().public_bytes_raw(), signature=b"")
    return replace(named, signature=private.sign(_manifest(named)))


def _verify(pack: Pack, manifest: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(pack.key).verify(pack.signature, manifest)
    except (InvalidSignature, ValueError) as error:
        raise BadRequest("the signature of the pack is wrong: it was changed after it was signed") from error


def _manifest(pack: Pack) -> bytes:
    return _line(
        {
            "pack": FORMAT,
            "name": pack.name,
            "version": pack.version,
            "memories": len(pack.memories),
            "digest": _digest(map(_line, pack.memories)),
            "key": pack.key.hex(),
        }
    )


def _digest(lines: Any) -> str:
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _memory(line: str) -> Mapping[str, Any]:
    value = json.loads(line)
    texts: Sequence[str] = [value["id"], value["kind"], value["summary"], value["content"]]
    if not all(isinstance(text, str) for text in texts) or len(bytes.fromhex(value["id"])) != 8:
        raise ValueError("no memory")
    return {
        "id": value["id"],
        "kind": value["kind"],
        "summary": value["summary"],
        "content": value["content"],
        "facts": [str(fact) for fact in value["facts"]],
        "entities": [str(name) for name in value["entities"]],
        "created_at_ms": int(value["created_at_ms"]),
    }
