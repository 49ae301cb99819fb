"""Make packs of memories, and install, update and remove packs made by others. A pack is a read-only space."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.hub.client.push_and_pull import make_incoming
from engram.hub.protocol.frames import Row
from engram.hub.protocol.pack import Pack, pack_memory_id
from engram.hub.protocol.statements import COUNTER_BITS, TEXT, Statement
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.hub.incoming_statements import Incoming, take_statement
from engram.models.hub.memory_statements import SYNC, SaidMemory, drop_said, said_in_space
from engram.models.hub.spaces import Space, add_space, change_space, drop_space, list_spaces
from engram.models.memories.memory_changes import change_memory, remove_memory
from engram.models.memories.memory_records import Memory, find_memory
from engram.paths import Home
from engram.system.atomic import locked_folder, read_whole, write_atomic
from engram.trust.suspicion import why_any_suspect


@dataclass(frozen=True, slots=True)
class PackChange:
    pack: Pack
    #: True to update an installed pack, False to install one.
    is_update: bool
    #: Summaries of the memories that are added, changed and removed.
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    #: Summaries that look like planted instructions, which are stored but never injected.
    suspects: tuple[str, ...]


def make_pack(name: str, version: int, memories: Sequence[Memory], redact: Callable[[str], str]) -> Pack:
    """Return a pack of memories, redacted again, without evidence, sessions or projects.

    Raises:
        BadRequest: a memory came from a teammate or another pack.
    """
    for memory in memories:
        if memory.origin:
            raise BadRequest(f"{memory.episode_id} is {memory.origin}'s, so it is not yours to pass on")
    packed = [
        {
            "id": pack_memory_id(name, memory.stable_id),
            "kind": memory.kind.value,
            "summary": redact(memory.summary),
            "content": redact(memory.content),
            "facts": [redact(fact) for fact in memory.facts],
            "entities": [redact(entity) for entity in memory.entities],
            "created_at_ms": memory.created_at_ms,
        }
        for memory in memories
    ]
    return Pack(name=name, version=version, memories=tuple(packed))


def held_back_of(pack: Pack) -> list[tuple[str, str]]:
    """Return the summaries that a recipient's machine stores but never shows automatically, each with the reason."""
    judged = (
        (m["summary"], why_any_suspect((m["summary"], m["content"], *m["facts"]), m["entities"])) for m in pack.memories
    )
    return [(summary, reason) for summary, reason in judged if reason]


def signing_key(home: Home) -> bytes:
    """Return this machine's key for signing packs, creating it on first use. Raises BadRequest if it can't be read."""
    path = home.root / "pack-key"
    with locked_folder(home.root):
        data = read_whole(path, 1_000)
        if data == b"":
            data = secrets.token_bytes(32).hex().encode()
            write_atomic(path, data)
    try:
        return bytes.fromhex((data or b"?").decode())
    except ValueError as error:
        raise BadRequest(
            f"{path} is damaged or a link: move it elsewhere, and the next pack will get a new key"
        ) from error


def installed_packs(store: Reader) -> list[Space]:
    return [space for space in list_spaces(store) if space.kind == "pack"]


def find_pack(store: Reader, name: str) -> Space:
    """Return an installed pack. Raises NotFound."""
    for space in installed_packs(store):
        if space.name == name:
            return space
    raise NotFound(f"no pack {name[:60]!r} is installed; `engram pack list` lists them")


def plan_pack(store: Reader, pack: Pack, *, is_update: bool) -> PackChange:
    """Return what installing or updating a pack would change, without changing anything.

    Raises:
        BadRequest: the pack is not signed or is already installed; or an update is signed with another key or is not
            newer.
        NotFound: the pack to update is not installed.
    """
    if not pack.key:
        raise BadRequest("the pack is not signed: its author signs it with `engram pack sign`")
    known: dict[str, SaidMemory] = {}
    if is_update:
        space = find_pack(store, pack.name)
        if space.mark != pack.key:
            raise BadRequest(
                f"this pack and the installed {pack.name} were signed with different keys; nothing was installed"
            )
        if pack.version <= space.cursor:
            raise BadRequest(f"version {space.cursor} of {pack.name} is installed; this is version {pack.version}")
        known = {said.memory_id.hex(): said for said in said_in_space(store, space.id)}
    elif any(space.name == pack.name for space in installed_packs(store)):
        raise BadRequest(f"a pack {pack.name} is already installed; `engram pack update` updates it")
    incoming = {said["id"]: _incoming(pack, said) for said in pack.memories}
    added, changed = [], []
    for memory_id, arrived in incoming.items():
        text, said = arrived.text or {}, known.get(memory_id)
        here = None if said is None else find_memory(store, said.episode_id)
        if said is not None and said.is_forgotten:
            continue  # the user forgot it
        if here is None:
            added.append(str(text["s"]))
        elif (here.summary, here.content) != (text["s"], text["c"]):
            changed.append(str(text["s"]))
    gone = [find_memory(store, said.episode_id) for key, said in known.items() if key not in incoming]
    return PackChange(
        pack=pack,
        is_update=is_update,
        added=tuple(added),
        changed=tuple(changed),
        removed=tuple(memory.summary for memory in gone if memory is not None),
        suspects=tuple(str((arrived.text or {})["s"]) for arrived in incoming.values() if arrived.suspect),
    )


def install_pack(store: Store, change: PackChange, project_id: int | None) -> int:
    """Install or update a pack as planned, in one transaction, and return how many memories changed.

    Args:
        project_id: the project to which its memories apply; None for the project of the installed version.

    Raises:
        BadRequest, NotFound: the installed packs have changed since; nothing was installed.
    """
    pack = change.pack
    incoming = [_incoming(pack, said) for said in pack.memories]
    with store.transaction() as tx:
        if plan_pack(tx, pack, is_update=change.is_update) != change:
            raise BadRequest(f"what {pack.name} would change is not what was shown; nothing was installed. Try again")
        if change.is_update:
            space = find_pack(tx, pack.name)
            project_id = _project_of(tx, space) if project_id is None else project_id
        else:
            space = add_space(tx, None, _author(pack), pack.name, kind="pack")
        ids = {arrived.row.memory_id for arrived in incoming}
        for said in said_in_space(tx, space.id):
            if said.memory_id not in ids:
                _remove(tx, said)
        done = 0
        for arrived in incoming:
            memory = take_statement(tx, space, arrived)
            if memory is not None:
                done += 1
                if memory.project_id is None and project_id is not None:
                    change_memory(tx, memory, SYNC, arrived.origin, actor=Actor.TIDYING, project_id=project_id)
        change_space(tx, space.id, cursor=pack.version, mark=pack.key)
    return done + len(change.removed)


def remove_pack(store: Store, name: str) -> int:
    """Remove an installed pack with its memories, and return how many there were. Raises NotFound."""
    with store.transaction() as tx:
        space = find_pack(tx, name)
        memories = said_in_space(tx, space.id)
        removed = sum(_remove(tx, memory) for memory in memories)
        drop_space(tx, space.id)
    return removed


def _remove(tx: Tx, said: SaidMemory) -> bool:
    memory = find_memory(tx, said.episode_id)
    if memory is not None:
        remove_memory(tx, memory, actor=Actor.USER)
    drop_said(tx, said)
    return memory is not None


def _project_of(tx: Tx, space: Space) -> int | None:
    memories = (find_memory(tx, said.episode_id) for said in said_in_space(tx, space.id))
    return next((memory.project_id for memory in memories if memory is not None), None)


def _author(pack: Pack) -> int:
    digest = hashlib.blake2b(pack.key + pack.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 2


def _incoming(pack: Pack, memory: Mapping[str, Any]) -> Incoming:
    """Return a memory from a pack as a statement by the pack's author, judged like pasted text."""
    text = {"s": memory["summary"], "c": memory["content"], "f": memory["facts"], "e": memory["entities"]}
    hlc = pack.version << COUNTER_BITS
    row = Row(
        author=_author(pack),
        memory_id=bytes.fromhex(memory["id"]),
        device=0,
        hlc=hlc,
        version=pack.version,
        is_forgotten=False,
        body=b"",
    )
    birth = {"k": memory["kind"], "c": memory["created_at_ms"]}
    statement = Statement(birth, {TEXT: (hlc, 0, text)})
    return make_incoming(row, statement, is_own=False, is_proven=False, origin=f"pack {pack.name}")
