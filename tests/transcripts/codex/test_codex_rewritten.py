"""A rollout from which something was taken out is read again, and its texts, which have no ids, are stored once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.models.engine.transaction import Store
from engram.transcripts.turns import Turn
from tests.rollouts import Rollout

#: Longer than what is taken out.
THIRD = "three, " * 200 + "four"


@pytest.mark.parametrize("with_turn_ids", [True, False])
@pytest.mark.parametrize("number", [1, 3, 5, 6, 8, 9])
def test_nothing_is_stored_twice(
    rollout: Rollout, read: Callable[..., list[Turn]], store: Store, number: int, with_turn_ids: bool
) -> None:
    rollout.head()
    for text in ("one", "two"):
        rollout.user(text)
        rollout.says(f"first answer to {text}")
        rollout.says(f"second answer to {text}")
        rollout.begin()
    lines = rollout.path.read_bytes().splitlines(keepends=True)
    if not with_turn_ids:
        lines = [line for line in lines if b'"turn_id"' not in line]
        rollout.path.write_bytes(b"".join(lines))
    before = read()

    rollout.path.write_bytes(b"".join(line for place, line in enumerate(lines) if place != number))
    rollout.user(THIRD)
    after = read()

    texts = [text for (text,) in store.rows("SELECT text FROM said")]
    assert len(texts) == len(set(texts))
    assert [turn.prompt for turn in after] == [*(turn.prompt for turn in before), THIRD]
    assert [turn.reply for turn in after[:-1]] == [turn.reply for turn in before]
