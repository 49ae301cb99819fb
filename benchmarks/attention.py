"""Measure how much of an agent's attention Engram takes: replay real sessions in order, and record what each was shown.

    python benchmarks/attention.py --corpus DIR [DIR …] --out FILE [--starts]

Every session of a project begins with what was learned from the sessions before it, and nothing else. Its start and
each prompt go through the service that answers the hooks, at the original time and on the branch that the transcript
names; then the session is read, and its memories are made by rules. The output says how many starts and prompts were
shown anything, and how many tokens (characters / 4) that took. FILE gets a JSON line for each text that was shown, with
the prompt and what the assistant said next, for a reader who decides whether it was used. Tool calls, failures and
subagents are not replayed. ``--starts`` replays only the starts, which need no vectors and take minutes instead of an
hour.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.homes import NO_LIMIT, BenchHomes, load_settings_embedder
from bench.memories import embed_all
from bench.prompts import as_one_project, usual_folder
from bench.storing import join_projects
from engram.embedding.embedder import Embedder
from engram.enums import Actor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import SessionRow, list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings, load
from engram.system.clock import FixedClock
from engram.transcripts.turns import Role, Turn

#: Characters per token, and maximum number of characters shown to a reader of the prompt and of the reply.
TOKEN_CHARACTERS, SHOWN_CHARACTERS = 4, 3_000


@dataclass(slots=True)
class Figures:
    """Counts by channel (``start``, ``prompt``): requests, answers, and tokens of the answers."""

    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    sessions: int = 0

    def add(self, channel: str, text: str) -> None:
        """Count an answer; "" if nothing was shown."""
        self.asked[channel] += 1
        self.answered[channel] += bool(text)
        self.tokens[channel] += len(text) // TOKEN_CHARACTERS


def main() -> None:
    """Replay every project and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--starts", action="store_true")
    options = parser.parse_args()
    settings, figures = load().settings, Figures()
    embedder = None if options.starts else load_settings_embedder(settings)
    with tempfile.TemporaryDirectory() as folder, options.out.open("w", encoding="utf-8") as out:
        for corpus in options.corpus:
            for project in sorted(path for path in corpus.iterdir() if path.is_dir()):
                replay = Replay(Path(folder) / project.name, project, settings, embedder, figures)
                for line in replay.run():
                    out.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{figures.sessions} sessions")
    for channel, asked in figures.asked.items():
        print(
            f"{channel}: {figures.answered[channel]} of {asked} got something, {figures.tokens[channel]} tokens, "
            f"{figures.tokens[channel] / max(figures.sessions, 1):.0f} a session"
        )


@dataclass(slots=True)
class Replay:
    """One project's sessions in the order in which they began."""

    home: Path
    folder: Path
    settings: Settings
    #: None to replay only the starts.
    embedder: Embedder | None
    figures: Figures

    def run(self) -> Iterator[dict[str, Any]]:
        """Yield every text that was shown."""
        homes = BenchHomes(self.home / "all", self.settings, None)
        with homes.memory("all", as_one_project(self.folder)) as (whole, _):
            sessions = sorted(list_sessions(whole), key=lambda one: (one.first_at_ms, one.session_id))
            turns = {one.session_id: [row.turn for row in turns_of_session(whole, one.id)] for one in sessions}
            cwd = usual_folder(whole)
        settings = replace(
            self.settings,
            home=self.home / "grown",
            hourly_memories=NO_LIMIT,
            exclude=(),
            capture=True,
            claude_folder=self.folder,
            codex_folder=self.folder,
            gemini_folder=self.folder,
        )
        settings.places.prepare()
        clock = FixedClock()
        store = open_store(settings.places.memory_db, driver=settings.sqlite_driver, clock=clock)
        try:
            searcher = Searcher(store, settings, embedder=self.embedder)
            for session in sessions:
                self.figures.sessions += 1
                said = turns[session.session_id]
                with patch("engram.recollection.branch_state.read_branch", lambda folder, turns=said: branch_of(turns)):
                    yield from self._ask(store, searcher, settings, clock, session, said, cwd)
                self._read(store, searcher, settings, clock, session)
        finally:
            store.close()

    def _ask(
        self,
        store: Store,
        searcher: Searcher,
        settings: Settings,
        clock: FixedClock,
        session: SessionRow,
        turns: Sequence[Turn],
        cwd: str,
    ) -> Iterator[dict[str, Any]]:
        service = RecollectionService(store, searcher, settings, embedder=self.embedder)
        clock.at_ms = session.first_at_ms
        payloads: list[tuple[str, dict[str, Any], str]] = [("start", {"source": "startup"}, said_next(turns[:1]))]
        for number, turn in enumerate(turns if self.embedder is not None else ()):
            typed = [block for block in turn.said if block.role is Role.USER and not block.message_id]
            if typed:
                payloads.append(
                    ("prompt", {"prompt": "\n\n".join(block.text for block in typed)}, said_next(turns[number:]))
                )
        for channel, payload, said in payloads:
            event = "SessionStart" if channel == "start" else "UserPromptSubmit"
            clock.advance(30)
            answer = service.answer_hook(
                payload | {"hook_event_name": event, "session_id": session.session_id, "cwd": cwd}
            )
            service.write_down()
            text = json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""
            self.figures.add(channel, text)
            if text:
                asked = str(payload.get("prompt", ""))[:SHOWN_CHARACTERS]
                yield {
                    "id": f"{session.session_id}#{len(asked)}#{channel}",
                    "project": self.folder.name,
                    "channel": channel,
                    "prompt": asked,
                    "given": text,
                    "said next": said,
                }

    def _read(
        self, store: Store, searcher: Searcher, settings: Settings, clock: FixedClock, session: SessionRow
    ) -> None:
        clock.at_ms = max(clock.at_ms, session.last_at_ms)
        for path in sorted(self.folder.rglob(f"*{session.session_id}*.jsonl")):
            ingest_path(store, path, settings=settings, redact=redact, close=True)
        usual, *others = Counter(
            one.project_id for one in list_sessions(store) if one.project_id is not None
        ).most_common() or [(0, 0)]
        if others:
            join_projects(store, usual[0], [project_id for project_id, _ in others], actor=Actor.TIDYING)
        extract_session(
            store, session.session_id, extractor=LocalExtractor(), embedder=self.embedder, settings=settings
        )
        embed_all(store, self.embedder)
        searcher.refresh()


def branch_of(turns: Sequence[Turn]) -> str:
    """Return the branch on which a session began, by its transcript, since its folder is not here; "" if unknown."""
    return next((turn.branch for turn in turns if turn.branch), "")


def said_next(turns: Sequence[Turn]) -> str:
    """Return the beginning and the end of what the assistant said in a turn."""
    said = "\n".join(block.text for turn in turns[:1] for block in turn.said if block.role is Role.ASSISTANT)
    return (
        said
        if len(said) <= SHOWN_CHARACTERS
        else f"{said[: SHOWN_CHARACTERS // 2]}\n[…]\n{said[-SHOWN_CHARACTERS // 2 :]}"
    )


if __name__ == "__main__":
    main()
