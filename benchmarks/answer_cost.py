"""Compute what recorded answers would have cost: ``python benchmarks/answer_cost.py ANSWERS CORPUS QUESTIONS``.

The memories of each project are made from the recorded answers in all steps, as ``python -m bench code --answers``
does. The benchmark counts the characters of each answered request and of its answer, at four characters per token, and
the turns of the sessions that were extracted to their end. Nothing is sent anywhere. Requests without an answer are not
counted, and a figure is valid only if at least 95 % of the requests were answered. Whole sessions are extracted at
once, as in an import; ``benchmarks/llm_cost.py`` compares that with extraction while somebody works.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from claude_price import CHARACTERS_A_TOKEN, TOKENS_A_CALL, claude_dollars

from bench.answers import AnsweredMemories
from bench.datasets import read_code_questions
from bench.homes import BenchHomes
from bench.recorded_provider import RecordedProvider
from engram.extraction.model.provider import ModelReply, ModelRequest
from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.settings import Settings


class CountingProvider(RecordedProvider):
    """Counts the calls and tokens of the answered requests."""

    def __init__(self, folder: Path) -> None:
        """See ``RecordedProvider``."""
        super().__init__(folder)
        #: Calls, and tokens in and out.
        self.counts: Counter[str] = Counter()

    def complete(self, request: ModelRequest) -> ModelReply:
        """See ``RecordedProvider.complete``."""
        reply = super().complete(request)
        self.counts["calls"] += 1
        self.counts["input_tokens"] += (len(request.system) + len(request.user)) // CHARACTERS_A_TOKEN
        self.counts["output_tokens"] += len(reply.text) // CHARACTERS_A_TOKEN
        return reply


def count_extracted_turns(store: Store) -> int:
    """Return the number of turns in the sessions that were extracted to their end."""
    sessions = [turns_of_session(store, session.id) for session in list_sessions(store)]
    return sum(len(turns) for turns in sessions if all(turn.extracted_revision >= turn.revision for turn in turns))


def cost_of(answers: Path, corpus: Path, questions: Path) -> dict[str, object]:
    """Return calls, tokens and dollars per thousand turns."""
    turns = 0
    with tempfile.TemporaryDirectory(prefix="engram-cost-") as folder:
        # Requests without an answer are written next to the answers, so work on a copy of the folder.
        copied = Path(folder) / "answers"
        shutil.copytree(answers, copied)
        provider = CountingProvider(copied)
        made = AnsweredMemories(BenchHomes(Path(folder), Settings(home=Path(folder)), None), corpus, provider)
        for project in read_code_questions(questions):
            with made.memory(project) as (store, _):
                turns += count_extracted_turns(store)
    a_thousand = 1000 / max(1, turns)
    for_1000 = {name: round(count * a_thousand) for name, count in provider.counts.items()}
    for_1000["input_tokens"] += for_1000["calls"] * TOKENS_A_CALL
    dollars = claude_dollars(
        **{name: provider.counts[name] * a_thousand for name in ("calls", "input_tokens", "output_tokens")}
    )
    return {"figures": made.figures(), "turns": turns, "for_1000_turns": for_1000, "dollars": dollars}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("answers", "corpus", "questions"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    for path in (given.answers, given.corpus, given.questions):
        if not path.exists():
            sys.exit(f"{path} does not exist: this benchmark needs recorded answers and the corpus of real sessions")
    print(json.dumps(cost_of(given.answers, given.corpus, given.questions), indent=1))


if __name__ == "__main__":
    main()
