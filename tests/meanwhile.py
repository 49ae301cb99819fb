"""Another process changes the memory after a function has read it and before its next transaction begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engram.models.engine.transaction import Store, Tx


def change_before_next_transaction(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make ``change`` once, when the next transaction is about to begin."""
    begin, waiting = Store.transaction, [change]

    @contextlib.contextmanager
    def begin_late(store: Store, *arguments: Any, **options: Any) -> Iterator[Tx]:
        while waiting:
            waiting.pop()()
        with begin(store, *arguments, **options) as tx:
            yield tx

    monkeypatch.setattr(Store, "transaction", begin_late)
