"""What producers import stays light, and every task has its stable name."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "sentence_transformers",
    "openai",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "transformers",
    "click",
    "mcp",
)


def loaded_by(statement: str) -> set[str]:
    """Heavy modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    ["engram.tasks.session_tasks", "engram.tasks.queue", "engram.tasks.enqueue_due", "engram.watcher.watch"],
)
def test_a_producer_loads_no_model_and_no_client(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_a_hook_that_enqueues_a_flush_loads_no_database_of_ours(tmp_path: object) -> None:
    code = (
        "from engram.paths import Home\nfrom pathlib import Path\nfrom engram.tasks.queue import huey\n"
        f"from engram.tasks.session_tasks import flush\nhuey.bind(Home(Path({str(tmp_path)!r})))\nflush('s1')\n"
        "import sys\nprint('peewee' in sys.modules, len(huey.pending()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["False", "1"]


def test_the_names_of_the_tasks_are_fixed() -> None:
    from engram.tasks.queue import huey, import_tasks

    import_tasks()

    assert set(huey._registry._registry) == {
        "ingest",
        "recollect",
        "extract",
        "flush",
        "consolidate",
        "scan",
        "refresh",
        "embed",
        "index_notes",
        "sync",
    }
