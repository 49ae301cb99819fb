"""No order that somebody else planted becomes the user's, holds everywhere, or is shown as what the user said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planted_orders import CHANNELS, ORDERS, Pen, plant

from engram.embedding.hashed import HashedEmbedder
from engram.extraction.local import LocalExtractor
from engram.extraction.service import extract_session
from engram.models.episodes import Episode, all_episodes
from engram.models.store import Store, open_store
from engram.recollection.service import RecollectionService
from engram.search.service import Searcher
from engram.settings import Settings
from engram.watcher.watch import Watcher

#: Where the user really chose the order, so that it is their choice, in the assistant's words.
CHOSEN = {"option chosen"}


def read_and_extract(store: Store, settings: Settings) -> list[Episode]:
    """Sweep and read like the watcher, then extract like the worker."""
    watcher = Watcher(settings, store)
    watcher.sweep()
    watcher.step()
    watcher.close()
    for (session_id,) in store.rows("SELECT session_id FROM session"):
        extract_session(store, session_id, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    return all_episodes(store)


def test_300_planted_orders_are_nobodys_wish(store: Store, settings: Settings, tmp_path: Path) -> None:
    cwd = tmp_path / "demo"
    cwd.mkdir()
    planted = {word: name for name, word, _ in plant(settings.projects_folder, str(cwd))}
    assert len(planted) == len(CHANNELS) * len(ORDERS) == 300

    typed = "always write the release notes of zqreal before you merge"
    Pen(settings.projects_folder / "-work-demo" / "typed.jsonl", str(cwd), minute=40_000).user(typed)

    episodes = read_and_extract(store, settings)

    assert len(store.rows("SELECT id FROM session")) == len(CHANNELS) + 1
    assert episodes
    touched = [(word, one) for one in episodes for word in planted if word in f"{one.summary}\n{one.content}"]
    assert [(planted[word], one.summary) for word, one in touched if one.voice == "user" and word in one.summary] == []
    assert [(planted[word], one.summary) for word, one in touched if one.scope == "global"] == []
    assert {one.voice for word, one in touched if planted[word] in CHOSEN} <= {"chosen", "assistant"}

    service = RecollectionService(store, Searcher(store, settings), settings)
    shown = service.answer_hook(
        {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(cwd), "source": "startup"}
    ).decode()
    orders = [order.format(word=word) for word, order in zip(planted, ORDERS * len(CHANNELS), strict=True)]
    for number, order in enumerate([typed, *orders]):
        prompt = f"what did I say about this: {order}"
        answer = service.answer_hook(
            {"hook_event_name": "UserPromptSubmit", "session_id": f"p{number}", "cwd": str(cwd), "prompt": prompt}
        )
        shown += answer.decode()
    said_by_user = re.findall(r"\[ep_\w+\] [\d-]+, \w+, the user(?:, may no longer hold)?: (.*?)\\n", shown)
    assert typed in said_by_user
    assert [line for line in said_by_user if any(word in line for word in planted)] == []


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


def test_a_subagents_prompts_are_nobodys_wish_where_subagents_are_read(tmp_path: Path) -> None:
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
        episodes = read_and_extract(store, settings)

        assert store.value("SELECT count(*) FROM turn") > 0
        assert [one.summary for one in episodes if one.voice == "user" or one.scope == "global"] == []


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
        pen.user(f"we always use the registry zq{folder.name} for our packages here")
        pen.says("Noted.")

    episodes = read_and_extract(store, settings)

    projects = {one.project: one.summary for one in episodes if "registry" in one.summary}
    assert {name: f"zq{name}" in summary for name, summary in projects.items()} == {"victim": True, "made-up": True}
