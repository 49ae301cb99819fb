"""An edit changes what is shown: the summary that bites tell, and the content that the rest quotes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engram.enums import Actor, Importance, Judgement, Kind, Scope
from engram.errors import BadRequest
from engram.memories.correct import correct_memory, judge_memory, supersede_memory
from engram.memories.save import edit_memory, pin_memory, save_memory
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import move_memories
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import ensure_project
from engram.recollection.session_briefing import build_briefing
from engram.redaction import redact
from engram.search.answer import answer_question
from engram.search.hit_lines import answer_text
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import Settings

OLD = "Deploy with make deploy."


@pytest.mark.parametrize(
    ("content", "changes", "summary", "edited"),
    [
        (OLD, {"content": "Deploy with make ship. It asks first."}, "Deploy with make ship. It asks first.", None),
        (f"{OLD}\nIt takes long.", {"content": "Deploy with make ship.\nIt is quick."}, "Deploy with make ship.", None),
        (f"{OLD}\nIt takes long.", {"content": f"{OLD}\nIt is quick."}, OLD, None),
        (f"{OLD}\nIt takes long.", {"content": "It is quick.\n\ndeploy  with\nmake deploy!"}, OLD, None),
        (OLD, {"summary": "Deploy with make ship."}, "Deploy with make ship.", "Deploy with make ship."),
        (
            f"{OLD}\nIt takes long.",
            {"summary": "Deploy with make ship."},
            "Deploy with make ship.",
            "Deploy with make ship.\nIt takes long.",
        ),
        (OLD, {"summary": "Ship.", "content": "Deploy by hand."}, "Ship.", None),
        (
            "Use uv\nUse uvicorn for serving, use uv for packages. Use uv-tool, too.",
            {"summary": "Use pip"},
            "Use pip",
            "Use pip\nUse uvicorn for serving, use uv for packages. Use pip-tool, too.",
        ),
        ("使用 uv\n我们使用 uv管理依赖。", {"summary": "使用 pip"}, "使用 pip", "使用 pip\n我们使用 pip管理依赖。"),
    ],
)
def test_summary_and_content_stay_one_statement(
    store: Store, content: str, changes: dict[str, str], summary: str, edited: str | None
) -> None:
    memory = save_memory(store, content, redact, actor=Actor.USER, scope=Scope.GLOBAL)

    changed = edit_memory(store, memory.episode_id, redact, actor=Actor.USER, **changes)  # type: ignore[arg-type]

    assert (changed.summary, changed.content) == (summary, edited or changes["content"])


@pytest.mark.parametrize("name", ["summary", "content"])
@pytest.mark.parametrize("text", ["", "…", " - ?!\n_"])
def test_a_text_without_words_is_refused_wherever_it_is_stored(store: Store, name: str, text: str) -> None:
    memory = save_memory(store, OLD, redact, actor=Actor.USER, scope=Scope.GLOBAL)

    with pytest.raises(BadRequest, match="no words"):
        edit_memory(store, memory.episode_id, redact, actor=Actor.USER, **{name: text})  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="no words"):
        save_memory(store, text, redact, actor=Actor.USER, scope=Scope.GLOBAL)


def test_the_line_of_a_saved_memory_is_one_that_has_words(store: Store) -> None:
    assert save_memory(store, f"…\n{OLD}", redact, actor=Actor.USER, scope=Scope.GLOBAL).summary == OLD


def test_an_extracted_memory_whose_text_was_edited_is_told_as_edited(
    store: Store, settings: Settings, keep: Callable[..., Memory]
) -> None:
    memory = keep(
        "The walrus proxy drops long headers", content="so the walrus proxy just drops those, eight kB I think"
    )
    edit_memory(store, memory.episode_id, redact, actor=Actor.USER, content="The walrus proxy keeps headers of 16 kB.")

    told = answer_text(answer_question(store, Searcher(store, settings), Query("walrus proxy headers")).hits)
    briefing = build_briefing(store, settings, project_id=None)

    for text in (told, briefing):
        assert "The walrus proxy keeps headers of 16 kB." in text
        assert "drops" not in text


def _supersede(store: Store, episode_id: str) -> object:
    new = save_memory(store, "Deploy with make ship.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    return supersede_memory(store, episode_id, new.episode_id, actor=Actor.USER)


def _move(store: Store, episode_id: str) -> object:
    with store.transaction() as tx:
        there = ensure_project(tx, "/there", "there", "/there")
        move_memories(tx, tables.Memory.episode_id == episode_id, there.id, "moved", actor=Actor.USER)
    return there


def _judge(judgement: Judgement) -> Callable[[Store, str], object]:
    return lambda store, one: judge_memory(store, one, judgement, "so it is", redact, actor=Actor.USER)


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (lambda store, one: edit_memory(store, one, redact, summary="x y", actor=Actor.USER), False),
        (_judge(Judgement.WRONG), False),
        (_judge(Judgement.OUTDATED), False),
        (
            lambda store, one: correct_memory(store, one, "It runs make ship.", "no", redact, actor=Actor.AGENT),
            False,
        ),
        (_supersede, False),
        (_move, False),
        (_judge(Judgement.HELPFUL), True),
        (lambda store, one: pin_memory(store, one, actor=Actor.USER), True),
    ],
    ids=["edit", "wrong", "outdated", "correct", "supersede", "move", "helpful", "pin"],
)
def test_a_bite_that_waits_is_withdrawn_once_it_should_not_be_shown_so(
    store: Store,
    settings: Settings,
    keep: Callable[..., Memory],
    change: Callable[[Store, str], object],
    stays: bool,
) -> None:
    memory, other = keep(OLD), keep("The walrus proxy is slow.")
    folder = settings.places.prepare().recollections
    for name, shown in (("a.pending", memory), ("b.pending", other), ("a.failures", memory)):
        (folder / name).write_text(f'{{"additionalContext": "[{shown.episode_id}] {shown.summary}"}}')

    change(store, memory.episode_id)

    assert sorted(path.name for path in folder.iterdir()) == ["a.failures", *["a.pending"] * stays, "b.pending"]


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"session_id": "another"}, True),
        ({"is_pinned": True}, False),
        ({"importance": Importance.HIGH}, False),
        ({"actor": Actor.AGENT}, False),
        ({"kind": Kind.DECISION}, False),
        ({"questions": ["how long is the line?"]}, False),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_what_is_kept_already_is_not_stored_once_more(store: Store, changes: dict[str, Any], is_same: bool) -> None:
    def save(**more: Any) -> str:
        given = {"actor": Actor.USER, "scope": Scope.GLOBAL, "kind": Kind.FACT} | more
        return save_memory(store, "The line is long.\nIt has eighteen metres.", redact, **given).episode_id

    first = save()

    assert (save(**changes) == first) is is_same


def test_what_ended_or_is_told_in_other_words_is_stored_again(store: Store) -> None:
    def save(text: str, **more: Any) -> str:
        return save_memory(store, text, redact, actor=Actor.USER, scope=Scope.GLOBAL, **more).episode_id

    first = save("Ship on Mondays.")
    second = save("Ship on Tuesdays.", supersedes=first)

    assert save("Ship on Mondays.") not in (first, second)
    assert save("Ship on Tuesdays.\nNever later.") != second


def test_a_summary_that_is_too_long_is_refused_rather_than_cut(store: Store) -> None:
    memory = save_memory(store, OLD, redact, actor=Actor.USER, scope=Scope.GLOBAL)

    with pytest.raises(BadRequest, match="at most 500 characters, this one 505; put the rest in the content"):
        edit_memory(store, memory.episode_id, redact, actor=Actor.USER, summary="Deploy " * 72 + "x")
