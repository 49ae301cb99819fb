"""P8, P10: a planted secret is found in no byte of the memory folder; what was forgotten is in none afterwards."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from transcript_lines import say

from engram.cli.main import engram
from engram.cli.workspace import Workspace
from engram.consolidation.consolidation_run import consolidate
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.errors import ExtractionError
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import Budget
from engram.forgetting.forget import forget_memory
from engram.forgetting.forget_plan import preview_forget
from engram.ingest.read_sources import ingest_path
from engram.log import start_logging
from engram.memories.save import edit_memory, save_memory
from engram.models.engine.database import free_name
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.rescue.backup import make_backup
from engram.notes.daily_log import log_session, save_note
from engram.notes.note_index import index_notes
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.tasks.session_tasks import flush
from engram_mcp.access import Access
from engram_mcp.catalog import answer

SESSION = "11111111-2222-3333-4444-555555555555"
#: Secrets of several kinds; each is looked for as it is.
SECRETS = {
    "aws": "AKIAQ3EGXYZ7LMNOPQRS",
    "github": "ghp_9fJkL2mNpQrStUvWxYz0123456789AbCdEfG"[:40],
    "openai": "sk-proj-Zt4Qm8Xv2Lp9Rk6Wn1Bs5Yd3Hf7Jc0Ga",
    "password": "korrektes-Pferd-88!batterie",
    "env": "Vq7tXw2ZpLr9Kd4M",
}


@pytest.fixture(params=["cysqlite", "sqlite3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        embedding_model="hashed",
        sqlite_driver=request.param,
        extract_first_messages=1,
        log_level="debug",
    )
    made.places.prepare()
    start_logging(made.places.logs, "worker", "debug", redact)
    yield made
    for handler in list(logging.getLogger().handlers):
        if getattr(handler, "baseFilename", "").startswith(str(made.home)):
            logging.getLogger().removeHandler(handler)
            handler.close()
    huey.storage.close()


@pytest.fixture
def transcript(settings: Settings) -> Path:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return path


def found_in(folder: Path, words: list[str]) -> list[str]:
    """Where one of the words stands, in any case, in the bytes of any file, of its name too."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [
        f"{path.relative_to(folder)}: {word}"
        for path in files
        for word in words
        if word.lower().encode() in path.read_bytes().lower() or word in path.name
    ]


class FakeModel:
    """Carries the requests to a language model: keeps their bytes and gives no usable answer."""

    def __init__(self) -> None:
        self.sent = b""
        self.transport = httpx2.MockTransport(self._answer)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent += request.read()
        return httpx2.Response(400, json={"error": {"message": "no"}})


def test_what_was_stored_before_a_rule_existed_is_shown_by_no_hook_and_no_tool(
    settings: Settings, store: Store, transcript: Path
) -> None:
    say(transcript, "user", "Always deploy the harbour with SECRETMARK from the vault please.")
    say(transcript, "assistant", "Decision: the harbour is deployed with SECRETMARK from now on.")
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    kept = save_memory(
        store,
        "The harbour is deployed with SECRETMARK always.",
        redact,
        scope="global",
        is_pinned=True,
        actor=Actor.AGENT,
    )
    secret = SECRETS["github"]
    with store.transaction() as tx:
        tx.run("UPDATE said SET text = replace(text, 'SECRETMARK', ?)", (secret,))
        tx.run("UPDATE episode SET summary = replace(summary, 'SECRETMARK', ?), content = ?", (secret, f"use {secret}"))
        tx.run("UPDATE session SET branch = ?, rolling_summary = ?", (secret, f"we use {secret}"))
        tx.run("UPDATE project SET name = ?", (f"demo {secret}",))
    (settings.places.notes / "MEMORY.md").write_text(f"# Mine\n\nthe harbour needs {secret}\n")
    log_session(store, settings.places, SESSION)
    index_notes(store, settings, redact)

    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    service = RecollectionService(store, searcher, settings, embedder=HashedEmbedder())
    payload = {"session_id": "22222222-2222-3333-4444-555555555555", "cwd": "/work/demo"}
    prompt = {"prompt": "How do we deploy the harbour, from which vault, and with what?", "prompt_id": "p1"}
    hooked = [service.answer_hook(payload | {"hook_event_name": "SessionStart", "source": "startup"})]
    hooked.append(service.answer_hook(payload | prompt | {"hook_event_name": "UserPromptSubmit"}))
    access = Access(settings, "/work/demo")
    calls = [
        ("memory_recall", {"query": "deploy the harbour"}),
        ("memory_search", {"query": "deploy harbour vault"}),
        ("memory_expand", {"id": kept.episode_id}),
        ("memory_timeline", {}),
        ("memory_context", {}),
        ("memory_status", {}),
        ("memory_get", {"source": "MEMORY.md"}),
    ]

    answers = [answer(lambda: access, *call)[0] for call in calls]
    assert all(b"harbour" in told for told in hooked)
    assert sum("harbour" in answer for answer in answers) >= 5
    assert [answer for answer in [*map(str, hooked), *answers] if secret[8:] in answer] == []
    assert secret[8:] not in "".join(path.read_text() for path in settings.places.daily_notes.iterdir())


def test_a_planted_secret_is_found_nowhere(
    settings: Settings, store: Store, transcript: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (
        f"We always deploy with AWS_ACCESS_KEY_ID={SECRETS['aws']} and the token {SECRETS['github']}, "
        f"and OPENAI_API_KEY={SECRETS['openai']}; the database password is {SECRETS['password']}"
    )
    say(transcript, "user", told)
    say(transcript, "assistant", f"Decision: we deploy with {SECRETS['github']} from now on.")
    read = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat .env"}}
    say(transcript, "assistant", [read])
    say(transcript, "user", [{"type": "tool_result", "tool_use_id": "t1", "content": f"LICENCE={SECRETS['env']}\n"}])
    say(transcript, "assistant", f"The licence {SECRETS['env']} is read from the file, so always keep it there.")
    model = FakeModel()

    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    asking = OpenAIExtractor(
        settings, Budget(store, settings), LocalExtractor(), api_key="x", transport=model.transport
    )
    for extractor in (asking, LocalExtractor()):
        with contextlib.suppress(ExtractionError):
            extract_session(store, SESSION, extractor=extractor, embedder=HashedEmbedder(), settings=settings)
    save_memory(store, told, redact, scope="global", actor=Actor.AGENT)
    huey.bind(settings.places, settings.sqlite_driver)
    flush(SESSION)
    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    service = RecollectionService(store, searcher, settings, embedder=HashedEmbedder())
    payload = {"session_id": "22222222-2222-3333-4444-555555555555", "cwd": "/work/demo", "prompt": told}
    for event in ("SessionStart", "UserPromptSubmit"):
        service.answer_hook(payload | {"hook_event_name": event})
    log_session(store, settings.places, SESSION)
    save_note(settings.places, told, redact, store.now_ms())
    index_notes(store, settings, redact)
    consolidate(store, settings, is_forced=True)
    logging.getLogger("engram.test").error("failed: %s", told)
    make_backup(store, settings.places.backups)
    engram.main(
        ["export", "--output", str(settings.home / "export.jsonl")],
        standalone_mode=False,
        obj=Workspace({"home": str(settings.home), "claude_folder": str(settings.claude_folder)}),
    )

    assert int(store.value("SELECT count(*) FROM turn")) == 1
    assert model.sent
    assert [name for name, secret in SECRETS.items() if secret.encode() in model.sent] == []
    assert found_in(settings.home, list(SECRETS.values())) == []
    assert not any(secret in capsys.readouterr().out for secret in SECRETS.values())
    assert (settings.home / "export.jsonl").stat().st_size > 0
    assert (settings.places.logs / "worker.log").stat().st_size > 0


def test_what_was_forgotten_is_in_no_byte_afterwards_however_much_is_around_it(
    settings: Settings, store: Store, transcript: Path
) -> None:
    canaries = [f"kanarie{name}vogel" for name in ("alpha", "bravo", "charlie", "delta")]
    for number in range(120):
        say(transcript, "user", f"Please explain importer {number} and why its retry budget is {number * 7}.")
        say(transcript, "assistant", f"Importer {number} reads lines and keeps a cursor. " * 5)
        if number == 60:
            say(transcript, "user", f"From now on always use {canaries[0]} for the {canaries[1]} build.")
            say(transcript, "assistant", f"Done, the build uses {canaries[0]}; {canaries[2]} is gone from setup.py.")
    places = settings.places
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    target = next(one for one in memory_records.all_memories(store) if canaries[0] in one.summary)
    saved = save_memory(
        store,
        f"The mast of {canaries[3]} is made of cedar; the one of {canaries[0]} was made of oak.",
        redact,
        scope="global",
        actor=Actor.AGENT,
    )
    edit_memory(
        store, target.episode_id, redact, summary=f"Always use {canaries[0]}, said {canaries[2]}", actor=Actor.USER
    )
    edit_memory(store, target.episode_id, redact, summary="Always use another one", actor=Actor.USER)
    make_backup(store, places.backups)
    store.checkpoint("TRUNCATE")
    for name in ("memory.broken.db", "memory.replaced.db"):
        (settings.home / name).write_bytes(places.memory_db.read_bytes())
    with (settings.home / "memory.broken.db").open("r+b") as file:
        file.seek(9 * 4096)
        file.write(b"\xff" * 4096)
    (settings.home / ".export.jsonl.1.tmp").write_text(canaries[0])
    (places.recollections / ".x.pending.1.tmp").write_text(canaries[1])
    log_session(store, places, SESSION)
    index_notes(store, settings, redact)
    assert {line.split(": ")[1] for line in found_in(settings.home, canaries)} == set(canaries)

    forget_memory(store, places, target.episode_id, also_source=True, actor=Actor.USER)
    forget_memory(store, places, saved.episode_id, also_source=True, actor=Actor.USER)
    index_notes(store, settings, redact)
    store.checkpoint("TRUNCATE")

    assert found_in(settings.home, canaries) == []
    assert int(store.value("SELECT count(*) FROM turn")) == 120
    assert store.find_damage() == ""
    transcript.rename(transcript.with_name("22222222-2222-3333-4444-555555555555.jsonl"))
    ingest_path(
        store,
        transcript.with_name("22222222-2222-3333-4444-555555555555.jsonl"),
        settings=settings,
        redact=redact,
        close=True,
    )
    store.checkpoint("TRUNCATE")
    assert found_in(settings.home, canaries) == []


def test_one_forgotten_memory_takes_the_words_that_it_alone_rested_on(
    settings: Settings, store: Store, transcript: Path
) -> None:
    canaries = ["kanariealphavogel", "kanariebravovogel"]
    say(transcript, "user", f"From now on always use {canaries[0]} for the release build.")
    say(transcript, "assistant", f"Decision: {canaries[1]} builds the release from now on.")
    say(transcript, "user", "Why did the importer fail yesterday?")
    say(transcript, "assistant", "The root cause was a stale lock; I fixed it in `importer.py` by taking it anew.")
    places = settings.places
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    save_memory(store, "The mast is brown.", redact, scope="global", actor=Actor.AGENT)
    log_session(store, places, SESSION)
    index_notes(store, settings, redact)
    make_backup(store, places.backups)
    going = [one for one in memory_records.all_memories(store) if "kanarie" in f"{one.summary} {one.content}"]
    staying = [one for one in memory_records.all_memories(store) if one not in going]
    assert going
    assert staying
    assert {line.split(": ")[1] for line in found_in(settings.home, canaries)} == set(canaries)

    for one in going:
        if memory_records.find_memory(store, one.episode_id) is not None:
            forget_memory(store, places, one.episode_id, actor=Actor.USER)
    index_notes(store, settings, redact)
    store.checkpoint("TRUNCATE")

    assert found_in(settings.home, canaries[:1]) == []
    assert {line.split(": ")[1] for line in found_in(settings.home, canaries)} == {
        canaries[1]
    }  # no memory rested on it
    assert int(store.value("SELECT count(*) FROM turn")) == 2
    assert memory_records.all_memories(store) == staying


def test_another_programs_database_that_was_set_aside_is_never_touched(settings: Settings, store: Store) -> None:
    foreign = settings.home / "memory.v2.db"
    theirs = sqlite3.connect(foreign)
    theirs.execute("CREATE TABLE episodes (summary TEXT)")
    theirs.execute("INSERT INTO episodes VALUES ('The barge Wilhelmina is moored at pier 3.')")
    theirs.commit()
    theirs.close()
    before = foreign.read_bytes()
    saved = save_memory(store, "The crane on pier 5 is blue.", redact, scope="global", actor=Actor.AGENT)
    told = save_memory(store, "The barge Wilhelmina is moored at pier 3.", redact, scope="global", actor=Actor.AGENT)
    assert preview_forget(store, settings.places, told.episode_id).foreign == ("memory.v2.db",)

    report = forget_memory(store, settings.places, saved.episode_id, also_source=True, actor=Actor.USER)
    assert report.foreign == ()
    report = forget_memory(store, settings.places, told.episode_id, also_source=True, actor=Actor.USER)
    assert "Its words are still in memory.v2.db, another program's database" in report.describe()

    assert foreign.read_bytes() == before
    assert free_name(foreign, "memory.v2.db").name != "memory.v2.db"
