"""A decision made in a dialog is found word for word, and is a memory that says who decided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Scope, Voice
from engram.extraction.candidate import ExtractionContext
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.grounding import ground
from engram.extraction.model.model_answer import ModelOutput, ProposedMemory
from engram.extraction.model.model_request import request_text
from engram.ingest.read_sources import ingest_all, ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, all_memories, evidence_of
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.search.searcher import Query, Searcher
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, Clock
from engram.transcripts.turns import Role

SESSION = "11111111-2222-3333-4444-555555555555"
PLAN = "# Move the ledger\nTwo writers share the ledger, which locks it.\n1. Copy the rows\n2. Switch over"
QUESTIONS = [
    {
        "question": "Where shall the ledger live?",
        "header": "Ledger",
        "options": [{"label": "SQLite file", "description": "small"}, {"label": "Postgres", "description": "shared"}],
    },
    {"question": "Who may write to it?", "header": "Writers", "options": [{"label": "Everybody", "description": ""}]},
]


@pytest.fixture
def clock() -> Clock:
    """The clock of the machine."""
    return SYSTEM_CLOCK


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", project_roots=(str(tmp_path / "all"),))


def write(settings: Settings, *, cwd: str = "/work/demo") -> Path:
    """A session with an answered dialog, a plan that is rejected with words, and one that is approved."""
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    lines: list[dict[str, Any]] = []

    def add(type_: str, content: Any, **fields: Any) -> None:
        number = len(lines)
        message = {"role": type_, "content": content} | ({"id": f"m{number}"} if type_ == "assistant" else {})
        time = f"2026-05-01T10:00:{number:02}.000Z"
        line = {"type": type_, "uuid": f"{number:08}-0000-0000-0000-000000000000", "timestamp": time, "cwd": cwd}
        lines.append(line | {"version": "2.1.330", "message": message} | fields)

    def call(tool: str, given: dict[str, Any], result: str, *, is_error: bool = False, **fields: Any) -> None:
        add("assistant", [{"type": "tool_use", "id": f"t{len(lines)}", "name": tool, "input": given}])
        block = {"type": "tool_result", "tool_use_id": f"t{len(lines) - 1}", "content": result, "is_error": is_error}
        add("user", [block], **fields)

    add("user", "please plan the ledger")
    answers = {QUESTIONS[0]["question"]: "SQLite file", QUESTIONS[1]["question"]: "only the nightly importer"}
    report = {"questions": QUESTIONS, "answers": answers}
    call("AskUserQuestion", {"questions": QUESTIONS}, "The user answered: …", toolUseResult=report)
    refused = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
    call(
        "ExitPlanMode",
        {"plan": PLAN},
        f"{refused}never commit the rows to git",
        is_error=True,
        toolDenialKind="user-rejected",
        toolUseResult="User rejected tool use",
    )
    report = {"plan": PLAN, "isAgent": False}
    call("ExitPlanMode", {"plan": PLAN}, "User has approved your plan.", toolUseResult=report)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def extract(store: Store, settings: Settings, path: Path) -> list[Memory]:
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    return all_memories(store)


def test_a_decision_in_a_dialog_is_a_memory_that_says_who_decided(store: Store, settings: Settings) -> None:
    memories = extract(store, settings, write(settings))

    decided = {memory.summary: memory for memory in memories if memory.voice == "chosen"}
    assert list(decided) == [
        "Asked “Where shall the ledger live?” the user chose: SQLite file (small).",
        "Asked “Who may write to it?” the user answered: only the nightly importer.",
        "The user rejected the plan “Move the ledger” and said: “never commit the rows to git”.",
        "The user approved the plan “Move the ledger”: Two writers share the ledger, which locks it.",
    ]
    assert {(e.kind, e.scope, e.status, e.suspect) for e in decided.values()} == {("decision", "project", "active", "")}
    answered = next(iter(decided.values()))
    assert [evidence.uuid[:8] for evidence in evidence_of(store, answered.id)] == ["00000002", "00000001"]


def test_what_was_typed_in_a_dialog_is_the_users_and_may_be_a_rule(store: Store, settings: Settings) -> None:
    memories = extract(store, settings, write(settings))

    rules = [e for e in memories if e.voice == "user" and e.summary == "never commit the rows to git"]
    assert [evidence.uuid[:8] for rule in rules for evidence in evidence_of(store, rule.id)][:1] == ["00000004"]


def test_a_choice_is_never_global_by_itself(store: Store, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    memories = extract(store, settings, write(settings, cwd=str(tmp_path / "all")))

    assert {e.scope for e in memories if e.voice == "chosen"} == {"project"}


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("SQLite file", "00000002"),
        ("only the nightly importer", "00000002"),
        ("never commit the rows to git", "00000004"),
        ("Switch over", "00000003"),
    ],
)
def test_words_of_a_dialog_are_found_with_their_entry(store: Store, settings: Settings, words: str, entry: str) -> None:
    ingest_path(store, write(settings), settings=settings, redact=redact, close=True)

    hits = Searcher(store, settings).search(Query(words, limit=5))

    assert any(words in hit.text and hit.evidence[0].uuid.startswith(entry) for hit in hits)


def test_a_language_model_is_told_who_spoke_and_its_choices_stay_in_the_project(
    store: Store, settings: Settings
) -> None:
    ingest_path(store, write(settings), settings=settings, redact=redact, close=True)
    session = find_session(store, SESSION)
    assert session is not None
    turns = [turn.turn for turn in turns_of_session(store, session.id)]
    text, ids = request_text(turns, ExtractionContext(project="demo"))
    by_role = {role: [one for one, (_, said) in ids.said.items() if said.role is role] for role in Role}

    said_at = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    chosen_line = rf"\[{by_role[Role.CHOSEN][0]}\] chosen {said_at}: Where shall the ledger live\? → SQLite file"
    assert re.search(chosen_line, text)
    assert re.search(rf"\[{by_role[Role.PROPOSED][0]}\] assistant {said_at}: Where shall the ledger live\?", text)

    def propose(*evidence: str) -> tuple[Voice, Scope]:
        memory = ProposedMemory(
            kind="decision",
            summary="The ledger shall live in a SQLite file",
            entities=[],
            importance="high",
            scope="global",
            evidence=list(evidence),
        )
        answer = ModelOutput(memories=[memory], rolling_summary="")
        (candidate,) = ground(answer, ids, ExtractionContext(project="demo")).candidates
        return candidate.voice, candidate.scope

    chosen, proposed = by_role[Role.CHOSEN][0], by_role[Role.PROPOSED][0]
    assert propose(chosen) == propose(proposed, chosen) == (Voice.CHOSEN, Scope.PROJECT)
    assert propose(proposed)[0] is Voice.ASSISTANT


@pytest.mark.corpus
def test_every_dialog_of_real_transcripts_is_found_by_search_with_its_entry(
    store: Store, settings: Settings, corpus: Path
) -> None:
    names = (b'"name":"AskUserQuestion"', b'"name":"ExitPlanMode"')
    paths = [
        path for path in sorted(corpus.glob("*/projects/*/*.jsonl")) if any(name in path.read_bytes() for name in names)
    ]
    ingest_all(store, settings=settings, redact=redact, sources=paths)
    searcher = Searcher(store, settings)
    session_ids = [str(value) for (value,) in store.rows("SELECT session_id FROM session")]
    sessions = [session for one in session_ids if (session := find_session(store, one)) is not None]
    turns = [turn.turn for session in sessions for turn in turns_of_session(store, session.id)]
    told = [said for turn in turns for said in turn.said if said.role in (Role.PROPOSED, Role.CHOSEN)]
    assert len([said for said in told if said.role is Role.PROPOSED]) >= 20

    missed = []
    for said in told:
        line = next(line for line in said.text.splitlines() if line.strip(" #"))
        hits = searcher.search(Query(line, limit=10))
        if said.uuid not in {evidence.uuid for hit in hits for evidence in hit.evidence}:
            missed.append(line)
    assert missed == []
