"""What the local extractor keeps, held against gold memories: ``python benchmarks/extraction.py [--cross] [--fit]``.

Reads real sessions (folders that each work as a Claude configuration folder), runs the extractor over every session
that the gold set calls complete, and prints the table of the shared matcher. ``--cross`` fits the weights on all
projects but one and measures on that one, project by project; ``--fit`` writes ``engram/extraction/weights.py``.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from engram.extraction.candidate import MAX_SUMMARY_WORDS, Candidate
from engram.extraction.local import LocalExtractor, with_refusals
from engram.extraction.protocol import ExtractionContext
from engram.extraction.select import scored
from engram.ingest.clean import Cleaner
from engram.redaction import redact
from engram.transcripts.claude_code.discover import find_transcripts
from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.record import Turn
from engram.transcripts.tail import Position, read_chunk

REPO = Path(__file__).resolve().parent.parent
WEIGHTS = REPO / "engram" / "extraction" / "weights.py"
#: Strength of the penalty on large weights.
PENALTY = 10.0

Sessions = dict[tuple[str, str], list[Turn]]
Weights = dict[str, float]


def read_sessions(corpus: Path) -> Sessions:
    """Every session's turns by project and session id, redacted; shared histories count for the smallest file."""
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
    """The gold memories and the matcher that goes with them."""

    path: Path
    match: ModuleType

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def complete(self) -> set[str]:
        return {r["session"] for r in self.rows() if r.get("complete")}

    def table(self, kept: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The matcher's own table for what was kept."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "KEPT.jsonl"
            path.write_text("".join(json.dumps(k) + "\n" for k in kept), encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.match.main(str(self.path), str(path))
        table: dict[str, Any] = json.loads(printed.getvalue())
        return table

    def examples(self, sessions: Sessions) -> tuple[list[Weights], np.ndarray, np.ndarray]:
        """Features of every passage, whether its bite tells a gold memory of the same entry, and its project."""
        wanted: dict[str, list[set[str]]] = {}
        for row in self.rows():
            for uuid in row.get("evidence", ()):
                wanted.setdefault(uuid, []).append(self.match.words(row["summary"]))
        found, tells, project_of = [], [], []
        for (project, session), turns in sessions.items():
            if session not in self.complete():
                continue
            for uuids, bite, feature in _passages(turns):
                says = self.match.words(" ".join(bite.split()[:MAX_SUMMARY_WORDS]))
                found.append(feature)
                tells.append(any(len(g & says) >= 0.4 * len(g) for u in uuids for g in wanted.get(u, ())))
                project_of.append(project)
        return found, np.array(tells, dtype=float), np.array(project_of)


def _passages(turns: Sequence[Turn]) -> Iterator[tuple[tuple[str, ...], str, Weights]]:
    turns = [with_refusals(turn) for turn in turns]
    for turn, following in zip_longest(turns, turns[1:]):
        for option, found in scored(turn, following):
            yield tuple(s.uuid for s in (option.said, *option.others)), option.passage.bite, found


def fit(found: Sequence[Weights], tells: np.ndarray) -> Weights:
    """Weights of a logistic model with a quadratic penalty, by Newton's method."""
    names = sorted({name for one in found for name in one})
    place = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(found), len(names) + 1))
    matrix[:, -1] = 1.0
    for row, one in enumerate(found):
        for name, value in one.items():
            matrix[row, place[name]] = value
    penalty = np.diag([PENALTY] * len(names) + [1e-6])
    weights = np.zeros(len(names) + 1)
    for _ in range(25):
        chance = 1 / (1 + np.exp(-matrix @ weights))
        gradient = matrix.T @ (chance - tells) + penalty @ weights
        curve = (matrix * (chance * (1 - chance))[:, None]).T @ matrix + penalty
        weights = weights - np.linalg.solve(curve, gradient)
    return {name: round(float(w), 3) for name, w in zip([*names, "bias"], weights, strict=True)}


def write_weights(weights: Weights) -> None:
    """Write the shipped module."""
    title = "Weights of the quality score, written by ``benchmarks/extraction.py --fit``; see ``docs/extraction.md``."
    head = f'"""{title}"""\n\n'
    rows = "".join(f'    "{name}": {weights[name]},\n' for name in sorted(weights))
    WEIGHTS.write_text(
        f"{head}#: Weight of each feature, and the bias, of a logistic model.\n"
        f"WEIGHTS: dict[str, float] = {{\n{rows}}}\n",
        encoding="utf-8",
    )


def keep(sessions: Sessions, only: set[str], extractor: Callable[[str], LocalExtractor]) -> list[dict[str, Any]]:
    """What is kept of the sessions, in the form of ``engram export``."""
    kept = []
    for (project, session), turns in sessions.items():
        if session in only:
            found = extractor(project).propose(turns, ExtractionContext(project=project.split("__")[-1]))
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


def main() -> None:
    """Measure, and fit where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
    parser.add_argument("--shared", type=Path, default=shared, help="folder with corpus/ and bench/")
    parser.add_argument("--cross", action="store_true", help="also measure each project with the others' weights")
    parser.add_argument("--fit", action="store_true", help="write the weights fitted on all projects")
    parser.add_argument("--kept", type=Path, help="write what is kept to this JSONL file")
    parser.add_argument("--sample", type=int, default=0, help="print so many kept memories drawn by --seed")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    gold = Gold(asked.shared / "bench" / "code" / "memories.jsonl", _load(asked.shared / "bench" / "match.py"))
    sessions = read_sessions(asked.shared / "corpus")
    if asked.cross or asked.fit:
        found, tells, project_of = gold.examples(sessions)
        if asked.fit:
            write_weights(fit(found, tells))
            print(f"{len(found)} passages, {int(tells.sum())} of them tell a gold memory; weights written")
    if asked.cross:
        _cross(gold, sessions, found, tells, project_of)
    kept = keep(sessions, gold.complete(), lambda project: LocalExtractor())
    print("shipped weights:", json.dumps(gold.table(kept), indent=1))
    if asked.kept:
        asked.kept.write_text("".join(json.dumps(k) + "\n" for k in kept), encoding="utf-8")
    for one in random.Random(asked.seed).sample(kept, min(asked.sample, len(kept))):
        print(f"- {one['kind']}, {one['importance']}: {one['summary']}")


def _cross(gold: Gold, sessions: Sessions, found: list[Weights], tells: np.ndarray, project_of: np.ndarray) -> None:
    without = {}
    for project in sorted(set(project_of)):
        rest = [i for i, p in enumerate(project_of) if p != project]
        without[project] = LocalExtractor(fit([found[i] for i in rest], tells[rest]))
    kept = keep(sessions, gold.complete(), without.__getitem__)
    print("each project with weights fitted on the others:", json.dumps(gold.table(kept), indent=1))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("match", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"no matcher at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
