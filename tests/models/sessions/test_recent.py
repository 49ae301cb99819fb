"""What a session or project was about lately, the latest first, and nothing of other projects."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.sessions import recent_work
from engram.transcripts.turns import Action, Opening
from tests.models.conversations import make_turn, store_project, store_turn


def test_the_latest_turn_is_the_last_that_began_with_a_prompt(store: Store) -> None:
    store_turn(store, make_turn("t1", "first"))
    store_turn(store, make_turn("t2", "second", at_ms=6))
    store_turn(store, make_turn("t3", "", "going on", at_ms=7, opening=Opening.CONTINUATION))
    store_turn(store, make_turn("t4", "elsewhere", session_id="s2", at_ms=8))

    latest = recent_work.latest_turn(store, "s1")

    assert latest is not None
    assert latest.turn.prompt == "second"
    assert recent_work.latest_turn(store, "never") is None


def test_changed_files_come_once_the_latest_first_and_of_the_project_alone(store: Store) -> None:
    def store_edit(key: str, at_ms: int, *files: str, is_edit: bool = True, project: str = "a") -> None:
        actions = (Action(key, "Edit", files=files, is_edit=is_edit),)
        turn = make_turn(key, "go", session_id=f"s-{project}", at_ms=at_ms, actions=actions)
        store_turn(store, turn, project)

    store_edit("t1", 100, "old.py", "both.py")
    store_edit("t2", 200, "both.py", "new.py")
    store_edit("t3", 300, "only-read.py", is_edit=False)
    store_edit("t4", 400, "elsewhere.py", project="b")
    project_id = store_project(store, "a").id

    assert recent_work.recent_files(store, project_id) == ["both.py", "new.py", "old.py"]
    assert recent_work.recent_files(store, project_id, turns=2) == ["both.py", "new.py"]


def test_pinned_and_active_memories_are_the_projects_own_and_global_ones(
    store: Store, keep: Callable[..., Memory]
) -> None:
    own, other = store_project(store, "a").id, store_project(store, "b").id
    keep("own", project_id=own, scope=Scope.PROJECT, is_pinned=True, created_at_ms=100)
    keep("global", project_id=other, is_pinned=True, created_at_ms=200)
    keep("theirs", project_id=other, scope=Scope.PROJECT, is_pinned=True, created_at_ms=300)
    keep("archived", project_id=own, is_pinned=True, status=Status.ARCHIVED)
    keep("plain", project_id=own, scope=Scope.PROJECT)

    assert [memory.summary for memory in recent_work.pinned_memories(store, own)] == ["global", "own"]
    assert [memory.summary for memory in recent_work.pinned_memories(store, own, limit=1)] == ["global"]
    assert [memory.summary for memory in recent_work.pinned_memories(store, -1)] == ["global"]
