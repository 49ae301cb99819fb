"""Small facts by name: the latest value counts, and it commits with what belongs to it."""

from __future__ import annotations

import pytest

from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Store


def test_a_later_value_takes_the_place_of_an_earlier_one(store: Store) -> None:
    with store.transaction() as tx:
        put_meta(tx, "colour", "red")
        put_meta(tx, "taste", "")
        put_meta(tx, "colour", "green")

    assert [get_meta(store, key) for key in ("colour", "taste", "size")] == ["green", "", None]


def test_a_value_of_a_transaction_that_failed_is_not_kept(store: Store) -> None:
    def put_and_fail() -> None:
        with store.transaction() as tx:
            put_meta(tx, "colour", "red")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_and_fail()

    assert get_meta(store, "colour") is None
