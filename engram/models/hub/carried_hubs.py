"""Carry over joined hubs, what was decided about their teams, and packs, from another memory.db of this machine."""

from __future__ import annotations

import json

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.meta import made_at_ms
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.hub.incoming_statements import mute_member, remove_received, unmute_member
from engram.models.hub.memory_statements import SYNC, TEXT_FIELDS, add_said, drop_said, find_said, said_in_space
from engram.models.hub.outgoing_statements import begin_enqueuing
from engram.models.hub.shares import list_rules, take_back
from engram.models.hub.spaces import (
    Server,
    Space,
    add_server,
    add_space,
    change_space,
    drop_space,
    find_server,
    keep_members,
    list_members,
    list_servers,
    list_spaces,
    private_space,
    put_folder_state,
    read_folder_state,
)
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import find_memory
from engram.models.projects.projects import ensure_project, project_by_id


def carry_hubs(tx: Tx, source: Reader) -> None:
    """Join the hubs and teams that another memory.db of this machine has joined, and pull everything again.

    If this memory.db is an earlier state of it, also carry over the members that were muted or unmuted since, the
    rules for sharing, and which memories were withdrawn or must not be shared.
    """
    _carry_packs(tx, source)
    for server in list_servers(source):
        here = find_server(tx, server.url) or _add_server(tx, source, server)
        is_earlier = here.joined_at_ms == server.joined_at_ms
        muted_here = {member.member_id: member.is_muted for member in list_members(tx, here.id)}
        spaces = {space.ns_id: space for space in list_spaces(tx, here.id)}
        for space in list_spaces(source, server.id):
            known = spaces.get(space.ns_id)
            into = known or _add_space(tx, here, space)
            if space.is_team:
                _carry_withdrawn(tx, source, space, into, server.member_id)
                if is_earlier or known is None:
                    _carry_rules(tx, source, space, into)
        for member in list_members(source, server.id):
            if member.is_muted == muted_here.get(member.member_id, False) or not (member.is_muted or is_earlier):
                continue
            keep_members(tx, here.id, {member.member_id: member.name})
            kept = next(known for known in list_members(tx, here.id) if known.member_id == member.member_id)
            if member.is_muted:
                mute_member(tx, kept)
            else:
                unmute_member(tx, kept)


def _carry_packs(tx: Tx, source: Reader) -> None:
    """Install the packs of the source, whose memories are here, and remove those that were removed there since."""
    here = {space.ns_id: space for space in list_spaces(tx) if space.kind == "pack"}
    for pack in list_spaces(source):
        if pack.kind != "pack":
            continue
        into = here.pop(pack.ns_id, None) or add_space(tx, None, pack.ns_id, pack.name, kind=pack.kind)
        change_space(tx, into.id, cursor=pack.cursor, mark=pack.mark)
        theirs = {said.memory_id: said for said in said_in_space(source, pack.id)}
        former = {said.memory_id: said for said in said_in_space(tx, into.id)}
        for said in former.values():
            remove_received(tx, () if said.memory_id in theirs else (said,))
            drop_said(tx, said)
        for said in theirs.values():
            if (memory := find_memory(tx, said.episode_id)) is None:
                continue
            is_changed = said.memory_id in former and former[said.memory_id].said != said.said
            if is_changed and (there := find_memory(source, said.episode_id)) is not None:
                text = {name: getattr(there, name) for name in (*TEXT_FIELDS, "suspect")}
                change_memory(tx, memory, SYNC, there.origin, actor=Actor.TIDYING, **text)
            own_text = None if said.own_text is None else json.dumps(said.own_text)
            columns: dict[str, Value] = {"said": json.dumps(said.said), "own_text": own_text}
            columns |= {"version": said.version, "pushed": said.pushed}
            add_said(tx, into.id, said.author, said.memory_id, said.episode_id, **columns)
    if made_at_ms(tx) == made_at_ms(source):
        for pack in here.values():
            remove_received(tx, said_in_space(tx, pack.id))
            drop_space(tx, pack.id)


def _add_server(tx: Tx, source: Reader, server: Server) -> Server:
    joined = add_server(tx, server.url, server.member_id, server.member_name, server.device_id)
    branch = json.loads(read_folder_state(source, server.id) or "{}").get("branch", "")
    put_folder_state(tx, joined.id, json.dumps({"branch": branch}))
    return joined


def _add_space(tx: Tx, server: Server, space: Space) -> Space:
    has_private = private_space(tx) is not None
    added = add_space(
        tx, server.id, space.ns_id, space.name, kind=space.kind, role=space.role, is_sealed=space.is_sealed
    )
    if space.is_private and not has_private:
        begin_enqueuing(tx, added.id)
    return added


def _carry_rules(tx: Tx, source: Reader, space: Space, into: Space) -> None:
    """Replace the rules of a team with those of the source."""
    table = tables.HubRule
    tx.run(table.delete().where(table.space == into.id))
    for rule in list_rules(source, space.id):
        project = project_by_id(source, rule.project_id)
        if project is not None:
            place = ensure_project(tx, project.identity, project.name, project.root)
            row: dict[str, Value] = {"space_id": into.id, "project_id": place.id}
            row |= {"delay_ms": rule.delay_ms, "made_at_ms": rule.made_at_ms}
            tx.insert_many(table, [row], or_ignore=True)


def _carry_withdrawn(tx: Tx, source: Reader, space: Space, into: Space, member_id: int) -> None:
    """Withdraw the shares that were withdrawn in the source, and keep rules from sharing what was held back there."""
    for said in said_in_space(source, space.id):
        is_waiting = said.version > said.pushed
        if not said.is_forgotten or not (said.author == member_id or is_waiting):
            continue
        known = find_said(tx, into.id, said.author, said.memory_id)
        if known is None:
            columns: dict[str, Value] = {"is_forgotten": 1, "version": int(is_waiting)}
            add_said(tx, into.id, said.author, said.memory_id, said.episode_id, **columns)
        elif not known.is_forgotten:
            take_back(tx, into, known)
