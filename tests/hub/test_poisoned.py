"""Forty poisoned memories from a teammate: none counts as typed, none holds everywhere, no suspect is shown."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from itertools import product
from typing import Any

from engram.consolidation.consolidation_run import consolidate
from engram.enums import Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring
from engram.hub.client.team_sharing import invite, join_team, make_team
from engram.hub.protocol.frames import NO_PUSH, TAKEN, Push, Row, open_body
from engram.hub.protocol.statements import TEXT, Statement, encode
from engram.models.hub.spaces import Server, Space, list_servers
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, all_memories, new_memory_id
from engram.models.projects.projects import ProjectRow, ensure_project
from engram.recollection.recollection_service import RecollectionService
from engram.recollection.render_bites import FENCE
from engram.search.searcher import Searcher
from engram.settings import Settings
from tests.hub.machines import Hub, Machine
from tests.hub.poison import CLAIMS, FORGED, ORDERS

Make = Callable[..., Machine]
REMOTE = "git.example.org/acme/shop"


def keep(machine: Machine, summary: str, more: str = "", **fields: Any) -> Memory:
    """Keep a memory as an extractor does; it is a day old."""
    made = Memory(new_memory_id(), Kind.DECISION, summary, summary + more, **fields)
    at_ms = machine.store.now_ms() - 86_400_000
    with machine.store.transaction() as tx:
        made = dataclasses.replace(made, created_at_ms=at_ms, status=Status.ACTIVE, source=Source.AUTO)
        return add_memory(tx, made, [], actor=Actor.MODEL, action="extract")


def poison(machine: Machine, server: Server, space: Space, project: ProjectRow, own: Memory) -> tuple[Row, ...]:
    """Return the forty memories as rows, written past every check of an honest client."""
    hlc = machine.store.now_ms() << 16
    rows = []
    for number, (matter, text) in enumerate({**ORDERS, **CLAIMS, **FORGED}.items()):
        kind = ("decision", "preference", "fact")[number % 3]
        # Older than anything, or from a time to come.
        birth: dict[str, Any] = {"k": kind, "c": machine.store.now_ms() if matter == "indigo" else 1_000}
        birth["p"] = [REMOTE, "", project.name]
        fields: dict[str, Any] = {}
        # All lie about weight; every second one about the rest too.
        birth |= {"v": "user", "s": "manual", "im": 1, "g": 1, "cf": 99.0, "q": 1e9, "x": "manual"}
        fields |= {"pinned": [hlc, 1, True], "importance": [hlc, 1, "high"], "scope": [hlc, 1, "global"]}
        if number % 2:
            birth |= {"id": own.episode_id, "sl": "a slot", "e": ["11111111-1111-1111-1111-111111111111"]}
            birth |= {"c": 1 << 50, "t": 1 << 50, "vf": 1 << 50, "o": own.stable_id, "su": ""}
            fields |= {"confirmed": [hlc, 1, True], "vetoes": [hlc, 1, ["supersede"]]}
        words = {"s": text, "c": f"{text} The {matter} matter was settled.", "f": [], "e": [matter]}
        statement = Statement(birth, {TEXT: (hlc, server.device_id, words), **{n: tuple(v) for n, v in fields.items()}})
        rows.append(
            Row(
                author=server.member_id,
                memory_id=number.to_bytes(8),
                device=server.device_id,
                hlc=hlc,
                version=1,
                is_forgotten=False,
                body=open_body(encode(statement)),
            )
        )
    return tuple(rows)


def test_forty_poisoned_memories_of_a_teammate_steer_nothing(hub: Hub, make_machine: Make) -> None:
    victim, mallory = make_machine("victim"), make_machine("mallory")
    for name, machine in (("victim", victim), ("mallory", mallory)):
        machine.join(hub, hub.invite(name))
    servers = {machine.places.root.name: list_servers(machine.store)[0] for machine in (victim, mallory)}
    space = make_team(victim.store, victim.places, servers["victim"], "shop", is_sealed=False)
    code = invite(victim.store, victim.places, space, "writer")
    join_team(mallory.store, mallory.places, servers["mallory"], code)
    with victim.store.transaction() as tx:
        project = ensure_project(tx, "/dev/lab/shop", "shop", "/dev/lab/shop")
        tx.run("UPDATE project SET remote = ? WHERE id = ?", [REMOTE, project.id])
    here = {"scope": Scope.PROJECT, "project_id": project.id}
    # What rules made of sessions is the easiest to end: one that a poison contradicts, two that it repeats.
    own = [
        keep(victim, "The indigo service uses Redis for its cache.", **here),
        keep(victim, FORGED["peony"], " The peony matter was settled.", **here),
        keep(victim, FORGED["sorrel"], **here),
    ]

    rows = poison(mallory, servers["mallory"], space, project, own[0])
    assert len(rows) == 40
    token = Keyring(mallory.places.hub_keys).token(hub.url)
    with Connection(hub.url, token) as connection:
        assert set(connection.push(Push(space.ns_id, b"p" * 16, NO_PUSH, rows)).answers) == {TAKEN}
    victim.sync()

    theirs = [memory for memory in all_memories(victim.store) if memory.origin]
    assert len(theirs) == 40
    now_ms = victim.store.now_ms()
    for memory in theirs:
        assert memory.origin == "teammate mallory"
        assert memory.voice not in (Voice.USER, Voice.CHOSEN)
        assert (memory.source, memory.scope, memory.importance) == (Source.AUTO, Scope.PROJECT, Importance.NORMAL)
        assert (memory.is_pinned, memory.slot, memory.graduated_at_ms) == (False, None, None)
        assert (memory.confidence, memory.quality) == (0.5, 0.0)
        assert max(memory.created_at_ms, memory.kept_at_ms, memory.valid_from_ms or 0) <= now_ms
        assert memory.episode_id != own[0].episode_id
    suspects = {memory.summary for memory in theirs if memory.suspect}
    assert set(ORDERS.values()) <= {*suspects, *_cut_short(theirs)}, set(ORDERS.values()) - suspects

    # Tidying ends, merges and lines up nothing of the victim's, however alike everything looks.
    settings = dataclasses.replace(Settings(home=victim.places.root), embedding_model="hashed", graduate_limit=50)
    pairs = [(mine.id, memory.id, 0.99) for mine, memory in product(own, theirs)]
    consolidate(victim.store, settings, similar=lambda least, _: iter(pairs), is_forced=True)
    for memory in own:
        left = victim.find(memory.episode_id)
        assert (left.status, left.content, left.superseded_by) == (Status.ACTIVE, memory.content, "")
    assert not (victim.places.root / "notes" / "MEMORY.md").exists()

    service = RecollectionService(victim.store, Searcher(victim.store, settings), settings)
    shown = ask(service, "shop")
    assert f"<{FENCE}>" in shown
    assert not any(memory.episode_id in shown for memory in theirs if memory.suspect)
    for line in shown.splitlines():
        if any(memory.episode_id in line for memory in theirs):
            assert "teammate mallory" in line
            assert ", high" not in line
    # The control: what is plain reaches its reader, as a teammate's; and nothing of it elsewhere.
    assert sum(matter in shown for matter in FORGED) >= 5
    with victim.store.transaction() as tx:
        ensure_project(tx, "/dev/lab/bank", "bank", "/dev/lab/bank")
    assert not any(memory.episode_id in ask(service, "bank") for memory in theirs)


def ask(service: RecollectionService, project: str) -> str:
    """Everything that a session in a project is shown: its briefing, and an answer to a prompt on each matter."""
    parts = []
    common = {"cwd": f"/dev/lab/{project}"}
    for number, matter in enumerate(("", *ORDERS, *CLAIMS, *FORGED)):
        text = {**ORDERS, **CLAIMS, **FORGED}.get(matter, "")
        event = {"hook_event_name": "UserPromptSubmit", "prompt": f"What about {matter}? {text[:60]}"}
        event = event if matter else {"hook_event_name": "SessionStart", "source": "startup"}
        output = service.answer_hook(event | common | {"session_id": f"{project}-{number}"})
        service.write_down()
        parts.append(json.loads(output)["hookSpecificOutput"]["additionalContext"] if output else "")
    return "\n".join(parts)


def _cut_short(theirs: list[Memory]) -> set[str]:
    """Return orders whose text redaction changed, found by what is left: none is expected to pass unseen."""
    return {text for matter, text in ORDERS.items() for e in theirs if e.suspect and matter in e.entities}
