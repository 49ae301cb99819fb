"""Compare what the local extractor keeps of real sessions with gold memories: ``python benchmarks/extraction.py``.

Reads real sessions (folders that each serve as a Claude configuration folder), runs the extractor over every session,
and prints how many memories of each kind a session yields, and the table of the shared matcher. Overlap with a gold
list says little about what a person would find useful: ``--kept`` writes every memory, ``--draw DIR`` writes a folder
for a reader, and ``--scores FILE`` prints the reader's findings: how many memories are useful on their own, trivial,
wrong or in the way.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.redact_turns import Cleaner
from engram.redaction import redact
from engram.transcripts.claude_code.discover import find_transcripts
from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.growing_file import Position, read_chunk
from engram.transcripts.turns import Turn

REPO = Path(__file__).resolve().parent.parent
#: Possible verdicts of a reader on a memory.
VERDICTS = ("useful", "trivial", "wrong", "in the way")
JUDGED_BY = """# Would you want to be told this in three weeks?

Read each line of memories.jsonl as somebody who works on the project and sees only `summary`; look at `content` to find
out whether it is true. Write scores.jsonl, a line each: {"id": "…", "verdict": "…"}.

- useful: you understand it alone, it is true, and it could change what you do.
- trivial: true and understandable, and of no use: a change log, a report of the moment.
- wrong: not what was said or decided, cut so that it means something else, or no longer so at the session's end.
- in the way: not understandable, or a claim that would mislead.
"""

Sessions = dict[tuple[str, str], list[Turn]]


def read_sessions(corpus: Path) -> Sessions:
    """Return the redacted turns by project and session id. A shared history counts for the smallest file only."""
    sessions: Sessions = {}
    for project in sorted(p for p in corpus.iterdir() if (p / "projects").is_dir()):
        owners: dict[str, str] = {}
        files = sorted(find_transcripts(project), key=lambda f: (f.path.stat().st_size, f.session_id))
        for file in files:
            sessions[project.name, file.session_id] = _read_turns(file.path, file.session_id, owners)
    return sessions


def _read_turns(path: Path, session_id: str, owners: dict[str, str]) -> list[Turn]:
    position, more = Position(), True
    cleaner = Cleaner(redact, b"benchmark")
    builder = TurnBuilder(session_id, owner=owners.get, note_environment=cleaner.note_environment)
    while more:
        chunk = read_chunk(path, position)
        for line in chunk.lines:
            entry = parse_line(line)
            if isinstance(entry, Entry):
                builder.add(entry)
        position, more = chunk.position, chunk.has_more
    turns = [cleaner.clean(update) for update in builder.finish(close=True).updates]
    owners.update({entry.uuid: turn.key for turn in turns for entry in turn.entries})
    return turns


@dataclass(frozen=True)
class Gold:
    """The gold memories and their matcher."""

    path: Path
    match: ModuleType

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def complete(self) -> set[str]:
        return {r["session"] for r in self.rows() if r.get("complete")}

    def table(self, kept: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the matcher's table for the memories that were kept."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "KEPT.jsonl"
            path.write_text("".join(json.dumps(k) + "\n" for k in kept), encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.match.main(str(self.path), str(path))
        table: dict[str, Any] = json.loads(printed.getvalue())
        return table


def keep(sessions: Sessions, only: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return what is kept of the sessions, in the form of ``engram export``; ``only`` is None for all sessions."""
    kept: list[dict[str, Any]] = []
    for (project, session), turns in sessions.items():
        if only is None or session in only:
            found = LocalExtractor().propose(turns, ExtractionContext(project=project.split("__")[-1]))
            kept.extend(_row(f"{session}:{n}", project, session, c) for n, c in enumerate(found))
    return kept


def _row(name: str, project: str, session: str, one: Candidate) -> dict[str, Any]:
    return {
        "id": name,
        "kind": one.kind,
        "project": project,
        "session": session,
        "summary": one.summary,
        "content": one.content,
        "evidence": list(one.evidence),
        "importance": one.importance,
        "status": one.status,
        "quality": one.quality,
        "suspect": one.suspect,
    }


def draw(folder: Path, kept: Sequence[dict[str, Any]], number: int, seed: int) -> None:
    """Write memories, drawn with a seed, to a folder for a reader, with the rules for judging them."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(seed).sample(list(kept), min(number, len(kept)))
    lines = [{key: row[key] for key in ("id", "project", "kind", "summary", "content")} for row in drawn]
    written = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "memories.jsonl").write_text(written, encoding="utf-8")
    (folder / "README.md").write_text(JUDGED_BY, encoding="utf-8")


def useful_alone(scores: Path) -> dict[str, Any]:
    """Return how many memories got each verdict, and the share useful on their own, with its 95 % interval."""
    rows = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines() if line.strip()]
    verdicts = Counter(row["verdict"] for row in rows)
    if unknown := set(verdicts) - set(VERDICTS):
        raise SystemExit(f"unknown verdicts: {', '.join(sorted(unknown))}")
    share, number = verdicts["useful"] / max(1, len(rows)), max(1, len(rows))
    margin = 1.96 * (share * (1 - share) / number) ** 0.5
    counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
    return {"read": len(rows), **counts, "useful alone": f"{100 * share:.1f} % ± {100 * margin:.1f}"}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
    parser.add_argument("--shared", type=Path, default=shared, help="folder with corpus/ and bench/")
    parser.add_argument("--draw", type=Path, help="write memories to be judged, with instructions, to this folder")
    parser.add_argument("--number", type=int, default=40, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=36, help="draws them")
    parser.add_argument("--scores", type=Path, help="a reader's verdicts, JSON lines with id and verdict")
    parser.add_argument("--kept", type=Path, help="write what is kept of every session to this JSONL file")
    asked = parser.parse_args()
    if asked.scores:
        print(json.dumps(useful_alone(asked.scores), indent=1))
        return
    gold = Gold(asked.shared / "bench" / "code" / "memories.jsonl", _load(asked.shared / "bench" / "match.py"))
    sessions = read_sessions(asked.shared / "corpus")
    kept = keep(sessions)
    kinds = Counter(str(row["kind"]) for row in kept)
    print(f"{len(sessions)} sessions, {len(kept)} memories, {len(kept) / len(sessions):.2f} a session: {dict(kinds)}")
    print(json.dumps(gold.table(kept), indent=1))
    if asked.draw:
        draw(asked.draw, kept, asked.number, asked.seed)
    if asked.kept:
        asked.kept.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("match", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"no matcher at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
