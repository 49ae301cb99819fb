"""The command ``recall "question"`` of a run: query the run's memory in this process, and print the answer.

    python -I benchmarks/bench/recall_arms.py HOME WAY PROJECT_ID NOW_MS MODEL QUESTION…

MODEL is ``model`` or ``text``: whether the embedding model is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from engram.errors import EngramError
from engram.models.open_memory import open_store
from engram.search.searcher import Searcher
from engram.settings import Settings

# Python runs this file by its path and isolated, so it finds only what is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.given import QuestionedMemory
from bench.homes import load_settings_embedder
from bench.memories import embed_all

#: Maximum number of words of an answer.
ANSWER_WORDS = 400


def main(arguments: Sequence[str]) -> int:
    """Print the answer to a question; return the exit code."""
    home, way, project_id, now_ms, model, *words = arguments
    if not " ".join(words).strip():
        click.echo('usage: recall "a question about earlier sessions"')
        return 2
    settings = Settings(home=Path(home))
    try:
        embedder = load_settings_embedder(settings) if model == "model" else None
        with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
            embed_all(store, embedder)
            searcher = Searcher(store, settings, embedder=embedder)
            searcher.refresh()
            memory = QuestionedMemory(store, searcher, int(project_id) or None, int(now_ms))
            click.echo(memory.givers()[way](" ".join(words), ANSWER_WORDS))
    except EngramError as error:
        click.echo(f"recall failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
