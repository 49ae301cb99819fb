"""What a program sends in the user's place is nobody's rule: at most a provisional memory of its project."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from growing_transcript import Transcript
from rollouts import Rollout

from engram.consolidation.consolidation_run import consolidate
from engram.enums import Actor, Importance, Kind, Scope, Status, Voice
from engram.extraction.candidate import ExtractionContext
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.grounding import ground
from engram.extraction.model.model_answer import ModelOutput, ProposedMemory
from engram.extraction.model.model_request import request_text
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import Memory, all_memories
from engram.models.sessions.recent_work import latest_prompts
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.notes.daily_log import session_section
from engram.recollection.why import why_session
from engram.redaction import redact
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.transcripts.registry import speaker_at
from engram.transcripts.speaker import Speaker
from engram.transcripts.turns import Turn

SESSION = "77777777-2222-4333-8444-555555555555"
RULE = "Never use tabs in this repository, always four spaces."
FOR_ALL = "In all my projects, always answer with JSON only."
PROGRAMS: list[dict[str, Any]] = [
    {"promptSource": "sdk", "turnOrigin": "sdk", "entrypoint": "sdk-cli"},
    {"entrypoint": "sdk-ts"},
    {"entrypoint": "sdk-py", "promptSource": "sdk"},
    {"origin": {"kind": "plugin", "asUser": True}},
]
PERSONS: list[dict[str, Any]] = [
    {},
    {"entrypoint": "cli", "origin": {"kind": "human"}, "promptSource": "typed"},
    {"entrypoint": "claude-desktop", "origin": {"kind": "human"}, "promptSource": "sdk"},
]


@pytest.fixture
def session(store: Store, settings: Settings) -> Callable[..., list[Turn]]:
    """Reads and extracts a session with these prompts; returns its turns."""

    def make(*prompts: str, name: str = SESSION, **fields: Any) -> list[Turn]:
        path = settings.projects_folder / "-gone-engine" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        transcript = Transcript(path)
        for prompt in prompts:
            transcript.user(prompt, **fields)
            transcript.says("I moved the parser of the harbor to the new module, as the plan says.")
        return read(store, settings, path, name)

    return make


def read(store: Store, settings: Settings, path: Any, name: str) -> list[Turn]:
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    extract_session(store, name, extractor=LocalExtractor(), embedder=None, settings=settings)
    found = find_session(store, name)
    assert found is not None
    return [stored.turn for stored in turns_of_session(store, found.id)]


def rules(store: Store) -> list[Memory]:
    return [one for one in all_memories(store) if one.kind == Kind.PREFERENCE or one.voice == Voice.USER]


@pytest.mark.parametrize("fields", PROGRAMS)
def test_a_programs_prompt_is_not_a_rule(
    session: Callable[..., list[Turn]], store: Store, fields: dict[str, Any]
) -> None:
    turns = session(RULE, FOR_ALL, "remember that the harbor listens on port 8080", **fields)

    assert [turn.prompt for turn in turns][:2] == [RULE, FOR_ALL]
    assert rules(store) == []
    assert all(one.scope == Scope.PROJECT for one in all_memories(store))


@pytest.mark.parametrize("fields", PERSONS)
def test_a_persons_prompt_is_one(session: Callable[..., list[Turn]], store: Store, fields: dict[str, Any]) -> None:
    session(RULE, **fields)

    assert [(one.voice, one.status) for one in rules(store)] == [(Voice.USER, Status.ACTIVE)]


@pytest.mark.parametrize(
    ("head", "count"),
    [
        ({"source": "cli", "originator": "codex_cli_rs"}, 1),
        ({"source": "exec", "originator": "codex_exec"}, 0),
        ({"source": "mcp"}, 0),
        ({"source": "cli", "originator": "codex_sdk_ts"}, 0),
    ],
)
def test_the_prompts_of_codex_exec_are_a_programs(
    store: Store, settings: Settings, head: dict[str, Any], count: int
) -> None:
    rollout = Rollout(settings.codex_folder, cwd="/gone/engine").head(**head)
    rollout.user(RULE)
    rollout.says("I will.")

    turns = read(store, settings, rollout.path, rollout.session)

    assert [turn.prompt for turn in turns if turn.prompt] == [RULE]
    assert len(rules(store)) == count


@pytest.mark.parametrize("fields", PROGRAMS)
def test_a_program_neither_confirms_nor_withdraws_what_the_user_said(
    session: Callable[..., list[Turn]], store: Store, settings: Settings, fields: dict[str, Any]
) -> None:
    path = settings.projects_folder / "-gone-engine" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    transcript = Transcript(path)
    transcript.user(RULE)
    transcript.says("Understood.")
    transcript.user("Scratch that, forget what I said.", **fields)
    transcript.says("Understood.")
    read(store, settings, path, SESSION)

    # Ordered by a program in one session and by the user in another: that is once, not twice.
    session("Use pnpm for the scripts.", name="88888888-2222-4333-8444-555555555555", **fields)
    session("Use pnpm for the scripts.", name="99999999-2222-4333-8444-555555555555")

    assert [one.summary for one in rules(store)] == [RULE]
    found = find_session(store, SESSION)
    moments = why_session(store, SESSION, found).moments
    assert [one.refusal for moment in moments for one in moment.no_rules] == []


@pytest.mark.parametrize("fields", PROGRAMS)
def test_what_the_user_asked_holds_no_programs_prompt(
    session: Callable[..., list[Turn]], store: Store, settings: Settings, fields: dict[str, Any]
) -> None:
    turns = session("Count the quetzals of the harbor.", **fields)
    found = find_session(store, SESSION)
    assert found is not None

    assert "Asked:" not in session_section(SESSION, "engine", turns)
    assert latest_prompts(store, found.id, found.project_id, 5) == []
    assert Searcher(store, settings).search(Query("quetzals harbor"))


@pytest.mark.parametrize("kind", ["preference", "decision", "fact"])
def test_a_language_models_memory_of_it_is_provisional_and_a_programs(
    session: Callable[..., list[Turn]], kind: str
) -> None:
    def propose(turns: list[Turn], text: str) -> Any:
        request, ids = request_text(turns, ExtractionContext(project="engine", is_global=True))
        (short,) = [short for short, (_, said) in ids.said.items() if said.text == text]
        memory = ProposedMemory(
            kind=kind, summary=text, importance="high", scope="global", evidence=[short], passages=[text]
        )
        answer = ModelOutput(memories=[memory], rolling_summary="")
        (candidate,) = ground(answer, ids, ExtractionContext(project="engine", is_global=True)).candidates
        return request, candidate

    request, candidate = propose(session(FOR_ALL, **PROGRAMS[0]), FOR_ALL)

    assert re.search(r"\] program [\d: -]+: In all my projects", request)
    assert (candidate.voice, candidate.status, candidate.scope) == (Voice.PROGRAM, Status.PROVISIONAL, Scope.PROJECT)
    assert candidate.kind is not Kind.PREFERENCE
    assert candidate.importance is Importance.NORMAL


@pytest.mark.parametrize("actor", [Actor.MODEL, Actor.TIDYING, Actor.AGENT])
def test_only_a_person_confirms_what_a_program_said(keep: Callable[..., Memory], store: Store, actor: Actor) -> None:
    made = keep("JSON only", voice=Voice.PROGRAM, status=Status.PROVISIONAL, scope=Scope.PROJECT, kind=Kind.FACT)
    wanted = {"status": Status.ACTIVE, "scope": Scope.GLOBAL, "confirmations": 1}

    with store.transaction() as tx:
        after = change_memory(tx, made, "confirm", "came back", actor=actor, **wanted)
        confirmed = change_memory(tx, after, "confirm", "decided by hand", actor=Actor.USER, **wanted)

    assert (after.status, after.scope, after.confirmations) == (Status.PROVISIONAL, Scope.PROJECT, 1)
    assert (confirmed.status, confirmed.scope) == (Status.ACTIVE, Scope.GLOBAL)


def test_what_comes_back_in_another_session_of_a_program_stays_provisional(
    keep: Callable[..., Memory], store: Store, settings: Settings
) -> None:
    fields = {"voice": Voice.PROGRAM, "status": Status.PROVISIONAL, "kind": Kind.FACT, "content": "the same"}
    for number in range(3):
        keep("The harbor answers with JSON", session_id=f"s{number}", **fields)

    consolidate(store, replace(settings), is_forced=True)

    current = [one for one in all_memories(store) if one.is_current]
    assert [one.status for one in current] == [Status.PROVISIONAL] * len(current)


def _nothing_yet(transcript: Transcript, fields: dict[str, Any]) -> None:
    del transcript, fields


def _at_work(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.user("Weigh the crates.", **fields)
    transcript.says("I weigh them.", **fields)


def _after_a_command(transcript: Transcript, fields: dict[str, Any]) -> None:
    _at_work(transcript, fields)
    transcript.user("<bash-input>ls</bash-input>", **fields)
    transcript.says("That is a list.", **fields)


def _told_by_its_reply_alone(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.says("I go on where I stopped.", **fields)


WHERE: list[Callable[[Transcript, dict[str, Any]], None]] = [_at_work, _after_a_command, _told_by_its_reply_alone]


@pytest.mark.parametrize("begin", [_nothing_yet, *WHERE])
@pytest.mark.parametrize("fields", [{"entrypoint": "sdk-ts"}, {"entrypoint": "cli", "teamName": "t", "agentName": "a"}])
def test_what_waits_in_a_programs_or_teammates_queue_is_not_a_rule(
    store: Store, settings: Settings, begin: Callable[..., None], fields: dict[str, Any]
) -> None:
    path = settings.projects_folder / "-gone-engine" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(path)
    begin(transcript, fields)
    transcript.queue("enqueue", RULE)

    turns = read(store, settings, path, SESSION)

    assert [turn.users_prompt for turn in turns if turn.prompt == RULE and turn.is_by_person] == []
    assert rules(store) == []


@pytest.mark.parametrize("begin", WHERE)
@pytest.mark.parametrize("fields", [{}, {"entrypoint": "cli"}, {"entrypoint": "claude-desktop"}])
def test_what_a_person_queues_is_a_rule(
    store: Store, settings: Settings, begin: Callable[..., None], fields: dict[str, Any]
) -> None:
    path = settings.projects_folder / "-gone-engine" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(path)
    begin(transcript, fields)
    ingest_path(store, path, settings=settings, redact=redact)
    transcript.queue("enqueue", RULE)

    turns = read(store, settings, path, SESSION)

    assert [turn.users_prompt for turn in turns if turn.prompt == RULE] == [RULE]
    assert [memory.summary for memory in rules(store)] == [RULE]


def test_who_queued_a_stored_prompt_is_told_by_its_session(settings: Settings) -> None:
    found = []
    for number, entrypoint in enumerate(("cli", "sdk-py", None)):
        path = settings.projects_folder / "-gone-engine" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        transcript = Transcript(path)
        transcript.queue("enqueue", RULE)
        length = path.stat().st_size - 1
        transcript.user(RULE, **({} if entrypoint is None else {"entrypoint": entrypoint}))
        found.append(speaker_at("claude-code", path, 0, length))

    assert found == [Speaker.PERSON, Speaker.PROGRAM, Speaker.PERSON]


def _shown_by_an_attachment(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.queue("remove")
    transcript.add({"type": "attachment", "attachment": {"type": "queued_command", "prompt": RULE}} | fields)
    transcript.says("ok", **fields)


def _answered(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.queue("remove")
    transcript.says("ok", **fields)


def _one_of_two(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.queue("enqueue", "and another thing")
    transcript.queue("remove")
    transcript.queue("remove")
    transcript.says("ok", **fields)


def _still_waiting(transcript: Transcript, fields: dict[str, Any]) -> None:
    transcript.user("something else", **fields)


@pytest.mark.parametrize("go_on", [_shown_by_an_attachment, _answered, _one_of_two, _still_waiting])
@pytest.mark.parametrize("is_read_between", [False, True])
@pytest.mark.parametrize("entrypoint", ["cli", "sdk-ts"])
def test_what_waits_before_the_sessions_first_line_is_judged_by_that_line(
    store: Store, settings: Settings, go_on: Callable[..., None], is_read_between: bool, entrypoint: str
) -> None:
    path = settings.projects_folder / "-gone-engine" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(path)
    transcript.queue("enqueue", RULE)
    if is_read_between:
        ingest_path(store, path, settings=settings, redact=redact)
    go_on(transcript, {"entrypoint": entrypoint})

    turns = read(store, settings, path, SESSION)

    persons = [RULE] if entrypoint == "cli" else []
    assert [turn.prompt for turn in turns if RULE in turn.prompt] == [RULE]
    assert [turn.users_prompt for turn in turns if turn.users_prompt == RULE] == persons
    assert [memory.summary for memory in rules(store)] == persons


@pytest.mark.parametrize("prompt", ["<someElement>\nAlways use tabs.\n</someElement>", "<tick>Always use tabs.</tick>"])
def test_what_no_person_wrote_stays_no_persons_when_the_session_is_known(
    store: Store, settings: Settings, prompt: str
) -> None:
    path = settings.projects_folder / "-gone-engine" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(path)
    transcript.queue("enqueue", prompt)
    transcript.says("ok", entrypoint="cli")

    turns = read(store, settings, path, SESSION)

    assert [turn.users_prompt for turn in turns if turn.is_by_person] == []
