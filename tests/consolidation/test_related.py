"""Memories about the same files, symbols and commands lead to each other."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Importance, Status
from engram.models import episode_lists
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.recollection.briefing import build_briefing
from engram.settings import Settings

Keep = Callable[..., Episode]


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

    found = episode_lists.related_episodes(store, one, one.project_id)

    assert [e.episode_id for e in found] == [near.episode_id, far.episode_id]


def test_the_briefing_names_what_is_related(store: Store, settings: Settings, keep: Keep) -> None:
    one = keep("the parser reads ahead", entities=("parser.py",), importance=Importance.HIGH, confidence=0.9)
    other = keep("tokens are cut twice", entities=("parser.py",))

    told = build_briefing(store, settings)

    lines = told.splitlines()
    at = next(n for n, line in enumerate(lines) if one.episode_id in line and line.startswith("- ["))
    assert f"  related: {other.episode_id}" in lines[at + 1 : at + 4]
