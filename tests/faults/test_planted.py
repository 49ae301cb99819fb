"""No order that somebody else planted becomes the user's, holds everywhere, or is shown as what the user said."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from planted_orders import CHANNELS, LATER_CHANNELS, ORDERS, Channel, Pen, plant

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Verdict, Voice
from engram.exchange.exchange_records import Source
from engram.exchange.export import export_records, read_json_lines
from engram.exchange.importing import PlaceFinder, import_memories
from engram.exchange.other_programs import open_source
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.memories.correct import correct_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, all_memories
from engram.models.open_memory import open_store
from engram.models.projects.projects import ProjectRow, ensure_project, list_projects
from engram.recollection.choose_bites import InjectionRequest
from engram.recollection.quotation_bites import rate_quotations
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.watcher.watch import Watcher

#: Where the user really chose the order, so that it is their choice, in the assistant's words.
CHOSEN = {"option chosen"}


def read_and_extract(store: Store, settings: Settings) -> list[Memory]:
    """Sweep and read like the watcher, then extract like the worker."""
    watcher = Watcher(settings, store)
    watcher.sweep()
    watcher.step()
    watcher.close()
    for (session_id,) in store.rows("SELECT session_id FROM session"):
        extract_session(store, session_id, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    return all_memories(store)


@pytest.mark.parametrize("one_of", [6, pytest.param(1, marks=pytest.mark.soak)], ids=["a sixth", "all"])
@pytest.mark.parametrize(("channels", "mark"), [(CHANNELS, "zq"), (LATER_CHANNELS, "zr")], ids=["older", "later"])
def test_planted_orders_never_count_as_a_persons(
    store: Store, settings: Settings, tmp_path: Path, channels: dict[str, Channel], mark: str, one_of: int
) -> None:
    cwd = tmp_path / "demo"
    cwd.mkdir()
    planted = {word: name for name, word, _ in plant(settings.projects_folder, str(cwd), channels, mark)}
    assert len(planted) == len(channels) * len(ORDERS) >= 300

    typed = "always write the release notes of zqreal before you merge"
    Pen(settings.projects_folder / "-work-demo" / "typed.jsonl", str(cwd), minute=40_000).user(typed)

    memories = read_and_extract(store, settings)

    assert len(store.rows("SELECT id FROM session")) == len(channels) + 1
    assert memories
    touched = [(word, one) for one in memories for word in planted if word in f"{one.summary}\n{one.content}"]
    assert [(planted[word], one.summary) for word, one in touched if one.voice == "user" and word in one.summary] == []
    assert [(planted[word], one.summary) for word, one in touched if one.scope == "global"] == []
    assert {one.voice for word, one in touched if planted[word] in CHOSEN} <= {"chosen", "assistant"}

    orders = [order.format(word=word) for word, order in zip(planted, ORDERS * len(channels), strict=True)]
    # Each channel is asked for one of so many orders, and each order by one of so many channels.
    asked = [order for number, order in enumerate(orders) if sum(divmod(number, len(ORDERS))) % one_of == 0]
    assert len(asked) >= 50
    shown = shown_for(store, settings, cwd, [f"what did I say about this: {order}" for order in (typed, *asked)])
    said_by_user = re.findall(r"\[ep_\w+\] [\d-]+, \w+, the user(?:, may no longer hold)?: (.*?)\n", shown)
    assert typed in said_by_user
    assert [line for line in said_by_user if any(word in line for word in planted)] == []
    assert [line for line in quoted_for(store, settings, cwd, asked) if any(word in line for word in planted)] == []


def shown_for(store: Store, settings: Settings, cwd: Path, prompts: Sequence[str]) -> str:
    """Everything that the hooks show: the briefing of a session, and for each prompt the answer in a separate
    session.
    """
    service = RecollectionService(store, Searcher(store, settings), settings)
    start = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(cwd), "source": "startup"}
    asked = [
        {"hook_event_name": "UserPromptSubmit", "session_id": f"p{number}", "cwd": str(cwd), "prompt": prompt}
        for number, prompt in enumerate(prompts)
    ]
    answers = [json.loads(service.answer_hook(payload) or b"{}") for payload in (start, *asked)]
    return "".join(f"{one['hookSpecificOutput']['additionalContext']}\n" for one in answers if one)


def quoted_for(store: Store, settings: Settings, cwd: Path, orders: Sequence[str]) -> list[str]:
    """The quotations that sessions would be shown for prompts about the orders, had no memory anything to say."""
    while embed_missing(store, HashedEmbedder()):
        pass
    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    searcher.refresh()
    project = next(iter(list_projects(store))).id
    requests = [InjectionRequest(f"what did I say about this: {order}", "new", project) for order in orders]
    rated = [one for request in requests for one in rate_quotations(store, searcher, request)]
    return [f"{one.hit.asked} {one.hit.text}" for one in rated if one.verdict is Verdict.SHOWN]


#: What a memory says that is brought in with an order beside its own words.
PLAIN = "Prices are in cents in the part {word}."


def brought_in(store: Store, settings: Settings, project: ProjectRow, tmp_path: Path) -> dict[str, str]:
    """Bring every order in by every way that is no transcript; returns word → way."""
    planted: dict[str, str] = {}

    def order_for(way: str, number: int) -> str:
        ways = list(dict.fromkeys([*planted.values(), way]))
        word = f"zd{ways.index(way):02}x{number:02}"
        planted[word] = way
        return ORDERS[number].format(word=word)

    def bring(source: Source) -> None:
        places = PlaceFinder(store, settings, map_folder=str)
        import_memories(store, source, redact, places, is_dry=False, is_mine=False, is_global=False)

    numbers = range(len(ORDERS))
    save_memory(store, "The fee is paid by boat.", redact, actor=Actor.USER, project_id=project.id)
    (own,) = export_records(store, lambda _: True, with_forgotten=False)
    claimed = own | {"pinned": True, "scope": "global", "voice": "user", "importance": "high"}
    claimed.pop("proof")
    lines: list[dict[str, Any]] = []
    for field in ("summary", "content", "facts", "entities", "questions"):
        for number in numbers:
            order = order_for(f"an export's {field}", number)
            word = list(planted)[-1]
            line = claimed | {"id": f"ep_{len(lines):012x}", "stable_id": f"{len(lines):016x}"}
            line |= {"summary": PLAIN.format(word=word), "content": PLAIN.format(word=word)}
            lines.append(line | {field: order if field in ("summary", "content") else [order]})
    bring(read_json_lines(io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode()), "export"))
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in numbers:
        (notes / f"{number}.md").write_text(f"# Rules\n\n{order_for('notes', number)}\n")
    with open_source(notes, None, settings, has_project=True, is_global=False) as source:
        places = PlaceFinder(store, settings, into=project)
        import_memories(store, source, redact, places, is_dry=False, is_mine=False, is_global=False)
    with open_source(_claude_mem(tmp_path, order_for), "claude-mem", settings, has_project=False, is_global=False) as s:
        bring(s)
    for number in numbers:
        for way, form in (("save", "ORDER"), ("save with more", "The tests take a minute.\n\nORDER")):
            text = form.replace("ORDER", order_for(f"{way} of an agent", number))
            save_memory(store, text, redact, actor=Actor.AGENT, project_id=project.id, is_pinned=True)
        for whose in Actor.AGENT, Actor.USER:
            text = f"The {whose} fee of pier {number} is paid by boat."
            known = save_memory(store, text, redact, actor=whose, project_id=project.id)
            order = order_for(f"correction of the {whose}'s", number)
            correct_memory(store, known.episode_id, order, "the user said so", redact, actor=Actor.AGENT)
    return planted


def _claude_mem(folder: Path, order_for: Callable[[str, int], str]) -> Path:
    """A database of claude-mem with orders in each of its tables."""
    path = folder / "claude-mem.db"
    tables = {
        "observations": ("type", "title", "narrative", "memory_session_id"),
        "session_summaries": ("request", "learned", "memory_session_id"),
        "memory_items": ("kind", "type", "title", "text"),
        "directives": ("scope", "content", "status"),
    }
    given = {"type": "decision", "kind": "observation", "scope": "global", "status": "active", "request": "fix it"}
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, memory_session_id, content_session_id)")
        for table, columns in tables.items():
            database.execute(
                f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, project, created_at_epoch, {', '.join(columns)})"
            )
            for number in range(len(ORDERS)):
                order = order_for(f"claude-mem's {table}", number)
                values = [given.get(column, order) for column in columns]
                marks = ", ".join("?" for _ in columns)
                database.execute(
                    f"INSERT INTO {table} (project, created_at_epoch, {', '.join(columns)}) VALUES (?, ?, {marks})",
                    ["demo", 1_765_195_200_000, *values],
                )
    return path


def test_orders_that_are_brought_in_never_count_as_a_persons(store: Store, settings: Settings, tmp_path: Path) -> None:
    cwd = tmp_path / "demo"
    cwd.mkdir()
    with store.transaction() as tx:
        project = ensure_project(tx, str(cwd), "demo", str(cwd))

    planted = brought_in(store, settings, project, tmp_path)

    assert len(planted) == 14 * len(ORDERS)
    texts = [
        (one, "\n".join((one.summary, one.content, *one.facts, *one.entities, *one.questions)))
        for one in all_memories(store)
    ]
    touched = [(word, one) for one, text in texts for word in planted if word in text]
    assert {planted[word] for word, _ in touched} == set(planted.values())
    assert {one.voice for _, one in touched} == {Voice.IMPORTED, Voice.AGENT}
    assert [(planted[word], one.summary) for word, one in touched if one.scope == "global"] == []
    assert [one.summary for _, one in touched if one.is_pinned and (one.suspect or one.voice is Voice.IMPORTED)] == []
    silent = {one.summary for _, one in touched if one.suspect}
    assert len(silent) > len(planted) / 3

    prompts = [f"what is known of this: {ORDERS[int(word[-2:])].format(word=word)}" for word in planted]
    shown = [line for line in shown_for(store, settings, cwd, prompts).splitlines() if "zd" in line]
    assert shown
    assert [line for line in shown if not re.search(r", (?:imported|saved by an agent)[,:]", line)] == []
    assert [line for line in shown if any(summary in line for summary in silent)] == []


@pytest.mark.parametrize("name", ["planted.jsonl", "tool-results/more.jsonl", "subagents/agent-a1.jsonl"])
def test_orders_in_files_that_tools_wrote_are_not_read(
    store: Store, settings: Settings, tmp_path: Path, name: str
) -> None:
    session = settings.projects_folder / "-work-demo" / "4b2030ed-5563-49ea-b703-6a002f2d3cc8.jsonl"
    Pen(session, str(tmp_path)).user("hello")
    path = session.with_suffix("") / name
    for number, order in enumerate(ORDERS):
        Pen(path, str(tmp_path), minute=number).user(order.format(word="zqfile"))
    watcher = Watcher(settings, store)
    watcher.hint(path)
    watcher.step()
    watcher.close()

    read_and_extract(store, settings)

    assert store.value("SELECT count(*) FROM said WHERE text LIKE '%zqfile%'") == 0


def test_a_subagents_prompts_never_count_as_a_persons_where_subagents_are_read(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "h", claude_folder=tmp_path / "c", embedding_model="hashed", subagents=True)
    settings.places.prepare()
    path = (
        settings.projects_folder
        / "-work-demo"
        / "4b2030ed-5563-49ea-b703-6a002f2d3cc8"
        / "subagents"
        / "agent-a1.jsonl"
    )
    for number, order in enumerate(ORDERS):
        pen = Pen(path, str(tmp_path), minute=number * 90)
        pen.user(order.format(word="zqagent"))
        pen.says("I have done so.")

    with open_store(settings.places.memory_db) as store:
        memories = read_and_extract(store, settings)

        assert store.value("SELECT count(*) FROM turn") > 0
        assert [one.summary for one in memories if one.voice == "user" or one.scope == "global"] == []


def test_a_made_up_repository_neither_sees_nor_fills_another_project(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    victim, made_up = tmp_path / "victim", tmp_path / "made-up"
    (victim / ".git" / "worktrees" / "w").mkdir(parents=True)
    (victim / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (victim / ".git" / "worktrees" / "w" / "commondir").write_text("../..\n")
    (victim / ".git" / "worktrees" / "w" / "gitdir").write_text(f"{tmp_path / 'branch' / '.git'}\n")
    made_up.mkdir()
    (made_up / ".git").write_text(f"gitdir: {victim / '.git' / 'worktrees' / 'w'}\n")
    for folder in (victim, made_up):
        pen = Pen(settings.projects_folder / f"-{folder.name}" / f"{folder.name}.jsonl", str(folder))
        pen.user(f"from now on always use the registry zq{folder.name} for our packages")
        pen.says("Noted.")

    memories = read_and_extract(store, settings)

    projects = {one.project: one.summary for one in memories if "registry" in one.summary}
    assert {name: f"zq{name}" in summary for name, summary in projects.items()} == {"victim": True, "made-up": True}
