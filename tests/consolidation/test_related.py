"""Memories about the same files, symbols and commands lead to each other."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.search import memory_lists
from engram.settings import Settings

Keep = Callable[..., Memory]


def test_shared_and_rare_names_join_memories_and_suspect_lowered_or_replaced_ones_stay_out(
    store: Store, settings: Settings, keep: Keep
) -> None:
    one = keep("the parser reads ahead", entities=("parser.py", "python"))
    near = keep("tokens are cut twice", entities=("parser.py", "python"))
    far = keep("nothing but the language", entities=("python",))
    for changes in (
        {"suspect": "orders"},
        {"is_lowered": True},
        {"status": Status.SUPERSEDED},
        {"status": Status.ARCHIVED},
    ):
        keep("left out", entities=("parser.py",), **changes)

    found = memory_lists.related_memories(store, one, one.project_id)

    assert [e.episode_id for e in found] == [near.episode_id, far.episode_id]
