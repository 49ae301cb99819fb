"""The same transcripts give the same memories, in whatever order and slices they are read and extracted."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from memories_fingerprint import MemoriesFingerprint, memories_fingerprint
from transcript_lines import line

from engram.embedding.hashed import HashedEmbedder
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import list_sessions
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.tasks.runtime import Runtime
from engram.tasks.session_tasks import extract_now, read_and_make_due

#: Sessions of the corpus that one run reads, and how large one may be, in bytes.
CORPUS_SESSIONS = 5
MAX_SESSION_BYTES = 400_000
#: When the made-up sessions are read: a few minutes after their last line, 2026-05-01T10:15Z.
NOW_MS = 1_777_630_500_000
#: A session is extracted after a read with this chance.
EXTRACT_CHANCE = 0.5


class Run:
    """One life of a memory: transcripts grow by random slices and are extracted in between."""

    def __init__(
        self, folder: Path, sessions: dict[str, bytes], seed: int, *, slices: int, extract_between: bool
    ) -> None:
        self.settings = Settings(home=folder / "home", claude_folder=folder / "claude", exclude=())
        self.settings.home.mkdir(parents=True)
        self.folder = self.settings.projects_folder / "-work-demo"
        self.folder.mkdir(parents=True)
        self.chance = random.Random(seed)
        self.sessions = sessions
        self.slices = slices
        self.clock = FixedClock(NOW_MS)
        self.extract_between = extract_between

    def memories(self) -> MemoriesFingerprint:
        """Live it; then what is remembered."""
        rest = {session: self._cut(data) for session, data in self.sessions.items()}
        with open_store(self.settings.places.memory_db, clock=self.clock) as store:
            embedder = HashedEmbedder()
            searcher = Searcher(store, self.settings, embedder=embedder)
            recollection = RecollectionService(store, searcher, self.settings, embedder=embedder)
            runtime = Runtime(self.settings, store, searcher, recollection, embedder, LocalExtractor())
            while any(rest.values()):
                session = self.chance.choice([session for session, slices in rest.items() if slices])
                with self._path(session).open("ab") as file:
                    file.write(rest[session].pop(0))
                ingest_path(store, self._path(session), settings=self.settings, redact=redact)
                if self.extract_between and self.chance.random() < EXTRACT_CHANCE:
                    extract_now(runtime, session)
            order = [row.session_id for row in list_sessions(store)]
            self.chance.shuffle(order)
            for session in order:
                read_and_make_due(runtime, session)
                extract_now(runtime, session)
            return memories_fingerprint(store)

    def _cut(self, data: bytes) -> list[bytes]:
        """Slices that end anywhere, in the middle of a line too."""
        places = sorted(self.chance.randrange(len(data)) for _ in range(self.slices))
        return [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]

    def _path(self, session: str) -> Path:
        return self.folder / f"{session}.jsonl"


def made_up_sessions() -> dict[str, bytes]:
    """Three short sessions that say much the same."""
    sessions = {}
    for number in range(3):
        session = f"00000000-0000-4000-8000-{number:012d}"
        said = [
            ("user", "Why does the importer drop the last row of every CSV file?"),
            ("commit", "fix: read the last row\n\nThe importer drops it because read_rows stops at the newline."),
            ("user", "Good. From now on always write files with a final newline in this project."),
            (
                "commit",
                f"We keep format {number + 7} for the journal\n\nThe journal keeps format {number + 7}, because "
                "journal_writer.rs must not reorder the crc32c column.",
            ),
            ("user", "And the exporter? It writes the header twice under gzip."),
            (
                "commit",
                "fix: write the header once\n\nThe exporter calls write_header in exporter.py twice, so readers "
                f"find {number + 3} rows too many.",
            ),
            ("user", "No, that is wrong, the exporter must open the stream at once."),
            ("commit", "feat: open the stream in __init__\n\nCallers close ExportStream themselves, so it must open."),
        ]
        lines = [
            line(
                "user" if role == "user" else "assistant",
                text if role == "user" else committing(text, f"toolu_{number}_{place}"),
                session=session,
                entry=f"{number:08d}-0000-4000-8000-{place:012d}",
                at=f"2026-05-01T10:{place:02d}:{number:02d}.000Z",
            )
            + (committed(session, number, place) if role == "commit" else "")
            for place, (role, text) in enumerate(said)
        ]
        sessions[session] = "".join(lines).encode()
    return sessions


def committing(message: str, name: str) -> list[dict[str, object]]:
    """The call that commits with a message."""
    return [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": f"git commit -m '{message}'"}}]


def committed(session: str, number: int, place: int) -> str:
    """The line with the result of a commit."""
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}_{place}", "content": "ok", "is_error": False}
    entry = f"{number:08d}-0000-4000-9000-{place:012d}"
    return line("user", [result], session=session, entry=entry, at=f"2026-05-01T10:{place:02d}:{number + 30:02d}.000Z")


def corpus_sessions(corpus: Path, seed: int) -> dict[str, bytes]:
    """Real sessions that share no line with another one."""
    with (corpus / "manifest.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    groups = [row["group"] for row in rows]
    alone = [
        row
        for row in rows
        if row["kind"] == "session"
        and groups.count(row["group"]) == 1
        and 5_000 < int(row["bytes"]) < MAX_SESSION_BYTES
    ]
    chosen = random.Random(seed).sample(alone, CORPUS_SESSIONS)
    return {
        row["session id"] if "session id" in row else row["session_id"]: (corpus / row["file"]).read_bytes()
        for row in chosen
    }


#: How many orders and slicings are tried.
TRIES = [pytest.param(3, id="fast"), pytest.param(30, id="full", marks=pytest.mark.soak)]
#: What a sample of real sessions is drawn with.
SEEDS = [0, pytest.param(1, marks=pytest.mark.soak), pytest.param(2, marks=pytest.mark.soak)]


@pytest.mark.parametrize("tries", TRIES)
def test_made_up_sessions_give_the_same_memories_in_every_order_and_slicing(tmp_path: Path, tries: int) -> None:
    sessions = made_up_sessions()
    whole = Run(tmp_path / "whole", sessions, 0, slices=0, extract_between=False).memories()

    assert len(whole.kept) >= 9
    for seed in range(1, tries + 1):
        sliced = Run(tmp_path / str(seed), sessions, seed, slices=seed, extract_between=True).memories()
        assert sliced.kept == whole.kept, f"seed {seed}"


@pytest.mark.parametrize("tries", TRIES)
def test_what_was_read_is_joined_alike_in_whatever_order_sessions_are_extracted(tmp_path: Path, tries: int) -> None:
    sessions = made_up_sessions()
    whole = Run(tmp_path / "whole", sessions, 0, slices=0, extract_between=False).memories()

    assert {"superseded", "archived"} < {memory.status for memory in whole.joined}
    for seed in range(1, tries + 1):
        sliced = Run(tmp_path / str(seed), sessions, seed, slices=seed, extract_between=False).memories()
        assert sliced == whole, f"seed {seed}"


@pytest.mark.corpus
@pytest.mark.parametrize("seed", SEEDS)
def test_real_sessions_give_the_same_memories_in_every_order(tmp_path: Path, corpus: Path, seed: int) -> None:
    sessions = corpus_sessions(corpus, seed)
    whole = Run(tmp_path / "whole", sessions, seed, slices=0, extract_between=False).memories()

    for number in (1, 2):
        run = Run(tmp_path / str(number), sessions, seed * 10 + number, slices=number * 3, extract_between=False)
        assert run.memories() == whole


@pytest.mark.corpus
@pytest.mark.parametrize("seed", SEEDS)
def test_a_real_session_gives_the_same_memories_in_every_slicing(tmp_path: Path, corpus: Path, seed: int) -> None:
    for session, data in corpus_sessions(corpus, seed + 10).items():
        whole = Run(tmp_path / f"{session}-whole", {session: data}, seed, slices=0, extract_between=False).memories()

        sliced = Run(tmp_path / f"{session}-sliced", {session: data}, seed, slices=8, extract_between=True).memories()

        assert sliced.kept == whole.kept
