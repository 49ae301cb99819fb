"""What teammates and packs said neither ends nor joins what is one's own, and becomes no line of MEMORY.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.graduation import why_not_proven
from engram.enums import Actor, Status
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import Ending, Usefulness, ending_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.settings import Settings

Keep = Callable[..., Memory]


@pytest.mark.parametrize(
    "texts",
    [
        ("The cache lies in Redis.", "The cache lies in Redis."),
        ("The shop service uses Redis for its cache.", "The shop service no longer uses Redis for its cache."),
        ("The report is sent on Mondays at nine.", "The report is sent on Mondays at nine, by mail."),
    ],
    ids=["the same", "given up", "nearly the same"],
)
def test_tidying_leaves_ones_own_beside_a_teammates(
    store: Store, settings: Settings, keep: Keep, texts: tuple[str, str]
) -> None:
    def tidied(origin: str) -> bool:
        first = keep(texts[0], created_at_ms=1_000, origin="")
        second = keep(texts[1], created_at_ms=2_000, origin=origin)
        pairs = [(first.id, second.id, 0.99)]
        consolidate(store, settings, similar=lambda least, _: iter(pairs), is_forced=True)
        mine = find_memory(store, first.episode_id)
        theirs = find_memory(store, second.episode_id)
        assert mine is not None
        assert theirs is not None
        is_changed = (mine.content, mine.status) != (first.content, first.status) or not theirs.status.is_current
        for memory in (mine, theirs):
            with store.transaction() as tx:
                tx.run("UPDATE episode SET status = ? WHERE id = ?", [Status.ARCHIVED.value, memory.id])
        return is_changed

    assert (tidied(""), tidied("teammate ada")) == (True, False)


def test_only_its_author_or_ones_own_words_end_a_memory(keep: Keep) -> None:
    mine, theirs, others = keep("a"), keep("b", origin="teammate ada"), keep("c", origin="teammate bob")
    found = [
        ending_of(older, newer, Actor.TIDYING)
        for newer, older in ((theirs, mine), (others, theirs), (mine, theirs), (theirs, theirs))
    ]
    assert found == [Ending.STAYS, Ending.STAYS, Ending.ENDS, Ending.ENDS]
    assert why_not_proven(theirs, Usefulness(shown=9, used=9), [], 1 << 50) == "it is teammate ada's"
