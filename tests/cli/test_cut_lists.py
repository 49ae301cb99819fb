"""A list that leaves rows out says how many, and which option shows them."""

from __future__ import annotations

import re

import pytest

from engram.models.engine.transaction import Store
from engram.models.work.task_runs import RunState, begin_task_run, end_task_run
from tests.cli.conftest import Run

_REST = re.compile(r"\n(\d+) more; add -n (\d+) to see all\n")


@pytest.mark.parametrize(
    "words",
    [
        ("sessions",),
        ("sessions", "--project", "harbor"),
        ("timeline",),
        ("timeline", "--project", "harbor"),
        ("timeline", "2026-10"),
        ("how", "pytest", "--all"),
        ("tasks", "runs"),
    ],
    ids=" ".join,
)
def test_a_list_that_is_cut_says_what_shows_the_rest(run: Run, filled: Store, words: tuple[str, ...]) -> None:
    for kind in ("scan", "embed"):
        end_task_run(filled, begin_task_run(filled, kind, ""), kind, RunState.DONE, duration_ms=1, outcome="done")

    cut = run(*words, "-n", "1").stdout

    rest = _REST.search(cut)
    assert rest is not None, cut
    left, total = map(int, rest.groups())
    assert left == total - 1 > 0
    assert " more; add " not in run(*words, "-n", str(total)).stdout
    assert f"\n{1} more; add -n {total} " in run(*words, "-n", str(total - 1)).stdout or total == 2


def test_every_prompt_of_a_session_that_is_left_out_is_counted(run: Run, filled: Store) -> None:
    session_id = str(filled.value("SELECT session_id FROM session ORDER BY message_count DESC LIMIT 1"))

    total = len(run("why", session_id, "-n", "1000").stdout.split("\n2"))

    assert f"{total - 1} more; add -n {total} to see all" in run("why", session_id, "-n", "1").stdout
