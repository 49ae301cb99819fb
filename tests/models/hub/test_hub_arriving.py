"""A page of statements taken over together leaves what the same statements leave one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from engram.enums import Actor, Status
from engram.models.engine.transaction import Store
from engram.models.hub.incoming_statements import Incoming, take_statement, take_statements
from engram.models.hub.memory_statements import said_in_space
from engram.models.hub.spaces import Space
from engram.models.memories.memory_changes import delete_memory
from engram.models.memories.memory_records import all_memories, find_memory
from engram.models.open_memory import open_store
from engram.system.clock import FixedClock
from tests.models.hub.test_hub_incoming import incoming, words
from tests.models.hub_spaces_made import join_made_up

SHOP = ["github.com/ada/shop", "c0ffee", "shop"]


def page() -> list[Incoming]:
    """Statements of every kind: plain ones, of one memory twice, with decisions, of one slot, forgotten, purged."""
    return [
        incoming("plain", {"text": (5, words("use pnpm for the otter"))}, id="ep_000000000001", p=SHOP, e=["a" * 36]),
        incoming("pinned", {"text": (5, words("pinned")), "pinned": (6, True)}, id="ep_000000000002", p=SHOP, im=1),
        incoming("old", {"text": (5, words("old")), "next": (6, b"new".ljust(8, b".").hex())}, id="ep_000000000003"),
        incoming("new", {"text": (5, words("new"))}, id="ep_000000000004", g=1),
        incoming("plain", {"text": (9, words("use yarn"))}, id="ep_000000000001"),
        incoming("grown", {"extracted": (5, words("grown"))}, id="ep_000000000005", sl="slot-1", s="auto"),
        incoming("twin", {"extracted": (5, words("twin"))}, id="ep_000000000006", sl="slot-1", s="auto"),
        incoming("gone", {"text": (5, words("gone"))}, id="ep_00000000aaaa"),
        incoming("purged", {"text": (5, words("purged"))}, id="ep_00000000bbbb"),
        incoming("waited", {"text": (5, words("waited for"))}, id="ep_000000000007"),
        incoming("same id", {"text": (5, words("another id"))}, id="ep_000000000001"),
        dataclasses.replace(incoming("field", {"pinned": (9, True)}), text=None),
    ]


def state(store: Store, space: Space) -> dict[str, Any]:
    """Everything that statements leave, without ids that are made at random and the order of rows."""
    left_out = {"id", "project_id", "updated_at_ms", "revision"}
    memories = {
        kept.summary: {
            field.name: getattr(kept, field.name)
            for field in dataclasses.fields(kept)
            if field.name not in left_out and (field.name != "episode_id" or kept.episode_id.startswith("ep_0000"))
        }
        for kept in all_memories(store)
    }
    said = {
        memory.memory_id: (dict(memory.said), memory.version, memory.pushed, memory.is_forgotten, memory.waits_for)
        for memory in said_in_space(store, space.id)
    }
    match = "SELECT count(*) FROM episode_fts WHERE episode_fts MATCH ?"
    rows = "SELECT e.summary, {} FROM episode e JOIN {} ORDER BY 1, 2"
    return {
        "episodes": memories,
        "said": said,
        "history": sorted(store.rows("SELECT action, reason, actor, before, after FROM history")),
        "evidence": store.rows(rows.format("v.seq, v.uuid", "evidence v ON v.episode_ref = e.id")),
        "entities": store.rows(
            rows.format("n.name", "episode_entity l ON l.episode_ref = e.id JOIN entity n ON n.id = l.entity_id")
        ),
        "found": [store.value(match, [word]) for word in ("otter", "yarn", "new")],
        "projects": sorted(store.rows("SELECT identity, name FROM project")),
    }


@pytest.mark.parametrize("is_backwards", [False, True])
def test_a_page_leaves_what_its_statements_leave_one_by_one(tmp_path: Path, is_backwards: bool) -> None:
    states = []
    for name in ("together", "one by one"):
        with open_store(tmp_path / f"{name}.db", clock=FixedClock()) as store:
            space = join_made_up(store)
            statements = page()
            waiting = incoming(
                "waits",
                {"text": (5, words("waits")), "next": (6, b"waited".ljust(8, b".").hex())},
                id="ep_000000000008",
            )
            gone = [incoming("x", {"text": (5, words("x"))}, id=f"ep_00000000{letter * 4}") for letter in "ab"]
            with store.transaction() as tx:
                take_statement(tx, space, waiting)
                for number, before in enumerate(gone):
                    row = dataclasses.replace(before.row, memory_id=bytes([number]) * 8)
                    made = take_statement(tx, space, dataclasses.replace(before, row=row))
                    assert made is not None
                    delete_memory(tx, made, actor=Actor.USER, is_purge=bool(number))
            if is_backwards:
                statements.reverse()
            with store.transaction() as tx:
                if name == "together":
                    take_statements(tx, space, statements)
                else:
                    for statement in statements:
                        take_statement(tx, space, statement)
            states.append(state(store, space))
            replaced = find_memory(store, "ep_000000000003")
            assert replaced is not None
            assert (replaced.status, replaced.superseded_by) == (Status.SUPERSEDED, "ep_000000000004")

    assert states[0] == states[1]
    assert len(states[0]["episodes"]) == 9
    assert "gone" not in states[0]["episodes"]
