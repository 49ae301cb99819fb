"""A prompt that the user went back from lays nothing down, whichever agent it was; one that was gone on from does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_turns import Make
from rollouts import Rollout
from transcript_lines import SAID_AT

from engram.enums import Actor, Kind, Status, Voice
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.memories.save import pin_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.turns import AT_START, BEHIND, EntryRef, Role, Turn, standing_turns

Read = Callable[[Path], dict[str, Status]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a private home with a folder for each agent."""
    folders = {name: tmp_path / name for name in ("claude", "codex", "gemini")}
    made = Settings(home=tmp_path / "home", **{f"{name}_folder": folder for name, folder in folders.items()})
    made.places.prepare()
    return made


@pytest.fixture
def read(store: Store, settings: Settings) -> Read:
    """Reads a source to its end, and returns the user's rules that were kept, with their status."""

    def read(path: Path) -> dict[str, Status]:
        ingest_path(store, path, settings=settings, redact=redact, close=True)
        for (session,) in store.rows("SELECT session_id FROM session"):
            extract_session(store, session, extractor=LocalExtractor(), embedder=None, settings=settings)
        return {one.summary: one.status for one in all_memories(store) if one.voice is Voice.USER}

    return read


@pytest.fixture
def claude(settings: Settings) -> Callable[..., Path]:
    """Appends a prompt and its answer to the transcript of a session."""
    path = settings.projects_folder / "-work-demo" / "s1.jsonl"
    path.parent.mkdir(parents=True)

    def add(prompt: str, name: str, behind: str | None) -> Path:
        answer = [{"type": "text", "text": "Understood."}]
        lines: list[dict[str, Any]] = [
            {"type": "user", "uuid": name, "parentUuid": behind, "message": {"role": "user", "content": prompt}},
            {
                "type": "assistant",
                "uuid": f"{name}-answer",
                "parentUuid": name,
                "message": {"role": "assistant", "id": f"m-{name}", "content": answer},
            },
        ]
        common = {"sessionId": "s1", "cwd": "/work/demo", "isSidechain": False, "timestamp": SAID_AT}
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line | common) + "\n" for line in lines)
        return path

    return add


def test_the_first_prompt_of_a_session_was_rewound(claude: Callable[..., Path], read: Read) -> None:
    claude("Always use npm for the shop.", "p1", None)
    claude("Always use pnpm for the shop.", "p2", None)
    path = claude("Now mend the parser.", "p3", "p2-answer")

    assert read(path) == {"Always use pnpm for the shop.": Status.ACTIVE}


def test_a_session_that_was_open_in_two_places_keeps_the_rules_of_both(claude: Callable[..., Path], read: Read) -> None:
    path = claude("Look around.", "p1", None)
    claude("Always sort the imports.", "p2", "p1-answer")
    read(path)
    claude("Never push to main.", "p3", "p1-answer")
    assert read(path)["Always sort the imports."] is Status.ARCHIVED
    claude("And the tests?", "p4", "p2-answer")
    claude("And the docs?", "p5", "p3-answer")

    assert read(path) == {"Always sort the imports.": Status.ACTIVE, "Never push to main.": Status.ACTIVE}


def test_a_language_model_is_told_no_words_that_were_rewound(
    claude: Callable[..., Path], store: Store, settings: Settings
) -> None:
    claude("Look around.", "p1", None)
    claude("Always use npm for the shop.", "p2", "p1-answer")
    path = claude("Always use pnpm for the shop.", "p3", "p1-answer")
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    told: list[Turn] = []

    class Model:
        name = "model"

        def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
            told.extend(turns)
            return []

    extract_session(store, "s1", extractor=Model(), embedder=None, settings=settings)

    assert [turn.prompt for turn in told] == ["Look around.", "", "Always use pnpm for the shop."]
    assert [turn.reply for turn in told] == ["Understood."] * 3


class Quoting:
    """Stands in for a language model: proposes each prompt, and each answer, as a memory."""

    name = "model"

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        return [
            Candidate(
                kind=Kind.PREFERENCE if said.role is Role.USER else Kind.FACT,
                summary=f"{said.text} ({turn.key})",
                content=said.text,
                evidence=(said.uuid,),
                turn_keys=(turn.key,),
                voice=Voice.USER if said.role is Role.USER else Voice.ASSISTANT,
            )
            for turn in turns
            for said in turn.said
        ]


@pytest.fixture
def read_by_model(store: Store, settings: Settings) -> Read:
    """Reads a source to its end, and returns what a language model kept, with its status."""

    def read(path: Path) -> dict[str, Status]:
        ingest_path(store, path, settings=settings, redact=redact, close=True)
        extract_session(store, "s1", extractor=Quoting(), embedder=None, settings=settings)
        return {one.summary: one.status for one in all_memories(store)}

    return read


def test_what_a_language_model_read_earlier_ends_when_the_user_goes_back(
    claude: Callable[..., Path], read_by_model: Read
) -> None:
    claude("Look around.", "p1", None)
    claude("Always use npm for the shop.", "p2", "p1-answer")
    path = claude("Never push to main.", "p3", "p2-answer")
    assert set(read_by_model(path).values()) == {Status.PROVISIONAL}

    kept = read_by_model(claude("Always use pnpm for the shop.", "p4", "p1-answer"))

    ended = {"Always use npm for the shop. (p2)", "Never push to main. (p3)"}
    assert {summary for summary, status in kept.items() if status is Status.ARCHIVED} == ended
    assert kept["Understood. (p2)"] is Status.PROVISIONAL


def test_it_comes_back_when_the_user_goes_on_from_there(claude: Callable[..., Path], read_by_model: Read) -> None:
    claude("Look around.", "p1", None)
    read_by_model(claude("Always use npm for the shop.", "p2", "p1-answer"))
    kept = read_by_model(claude("Always use pnpm for the shop.", "p3", "p1-answer"))
    assert kept["Always use npm for the shop. (p2)"] is Status.ARCHIVED

    kept = read_by_model(claude("And the tests?", "p4", "p2-answer"))

    # The session was open in two places at once.
    assert Status.ARCHIVED not in kept.values()


def test_what_somebody_kept_by_hand_stays_when_the_user_goes_back(
    claude: Callable[..., Path], read_by_model: Read, store: Store
) -> None:
    claude("Look around.", "p1", None)
    read_by_model(claude("Always use npm for the shop.", "p2", "p1-answer"))
    kept = next(one for one in all_memories(store) if "npm" in one.summary)
    pin_memory(store, kept.episode_id, actor=Actor.USER)

    after = read_by_model(claude("Always use pnpm for the shop.", "p3", "p1-answer"))

    assert after[kept.summary] is not Status.ARCHIVED


@pytest.mark.parametrize("is_read_before", [False, True])
def test_the_first_prompt_was_read_by_an_earlier_version(
    store: Store, settings: Settings, read: Read, *, is_read_before: bool
) -> None:
    """Earlier versions wrote ``AT_START`` for every agent."""
    rollout = Rollout(settings.codex_folder).head()
    rollout.user("Always use npm for the shop.")
    rollout.end()
    if is_read_before:
        read(rollout.path)
    else:
        ingest_path(store, rollout.path, settings=settings, redact=redact)
    with store.transaction() as tx:
        tx.run("UPDATE turn SET extra = replace(extra, ?, ?)", (rollout.session, AT_START))
    rollout.begin()
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.user("Always use pnpm for the shop.")
    rollout.end()

    kept = read(rollout.path)

    assert [rule for rule, status in kept.items() if status is Status.ACTIVE] == ["Always use pnpm for the shop."]


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_thread_of_codex_was_rolled_back(settings: Settings, read: Read, count: int, *, is_read_before: bool) -> None:
    rollout = Rollout(settings.codex_folder).head()
    prompts = ("Never push to main.", "Always use npm for the shop.", "Always sort the imports.")[-count - 1 :]
    for prompt in prompts:
        rollout.user(prompt)
        rollout.says("Understood.")
        rollout.end()
        rollout.begin()
    first = [] if count == 3 else ["Never push to main." if count == 2 else "Always use npm for the shop."]
    if is_read_before:
        assert set(read(rollout.path).values()) == {Status.ACTIVE}
    rollout.event("thread_rolled_back", num_turns=count)
    rollout.user("Always use pnpm for the shop.")
    rollout.says("Understood.")
    rollout.end()

    kept = read(rollout.path)

    assert {rule for rule, status in kept.items() if status is Status.ACTIVE} == {
        *first,
        "Always use pnpm for the shop.",
    }


@pytest.mark.parametrize("is_read_before", [False, True])
def test_the_only_prompt_of_a_thread_of_codex_was_replaced(
    settings: Settings, read: Read, *, is_read_before: bool
) -> None:
    rollout = Rollout(settings.codex_folder).head()
    rollout.user("Always use npm for the shop.")
    rollout.end()
    if is_read_before:
        read(rollout.path)
    rollout.begin()
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.user("Always use pnpm for the shop.")
    rollout.end()

    kept = read(rollout.path)

    assert [rule for rule, status in kept.items() if status is Status.ACTIVE] == ["Always use pnpm for the shop."]


@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_chat_of_gemini_was_rewound(settings: Settings, read: Read, *, is_read_before: bool) -> None:
    path = settings.gemini_folder / "tmp" / "demo" / "chats" / "session-2026-11-01T10-22-a1b2c3d4.jsonl"
    path.parent.mkdir(parents=True)

    def add(*records: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def said(name: str, kind: str, text: str) -> dict[str, Any]:
        return {"id": name, "type": kind, "content": text, "timestamp": SAID_AT}

    add({"sessionId": "a1b2c3d4-e5f6-4890-abcd-ef1234567890", "kind": "main"})
    add(said("m1", "user", "Never push to main."), said("m2", "gemini", "Understood."))
    add(said("m3", "user", "Always use npm for the shop."), said("m4", "gemini", "Understood."))
    if is_read_before:
        assert len(read(path)) == 2
    add({"$rewindTo": "m3"}, said("m5", "info", "Rewound."))
    add(said("m6", "user", "Always use pnpm for the shop."), said("m7", "gemini", "Understood."))

    kept = read(path)

    active = {rule for rule, status in kept.items() if status is Status.ACTIVE}
    assert active == {"Never push to main.", "Always use pnpm for the shop."}


@pytest.mark.parametrize(
    ("behind", "standing"),
    [
        # Without any other link, a beginning tells nothing: who wrote the file may have left all links out.
        ((AT_START, AT_START), "01"),
        ((AT_START, AT_START, "e1"), "12"),
        # Somebody goes on behind turn 1, which turn 2 seemed to replace.
        ((AT_START, "e0", "e0", "e1"), "0123"),
        ((AT_START, "e0", "e0", "e2"), "023"),
        # Turn 2 follows turn 1, and comes back with it only if somebody goes on behind it.
        ((AT_START, "e0", "e1", "e0", "e2"), "01234"),
        ((AT_START, "e0", "e1", "e0", "e1"), "0134"),
        # One of two places goes back; what the other one said stays.
        ((AT_START, "e0", "e0", "e1", "e0"), "0134"),
        # Turns without a link follow what stands before them in the file.
        ((AT_START, "e0", "", "e0", "e3"), "034"),
    ],
)
def test_what_was_gone_on_from_stands(make: type[Make], behind: tuple[str, ...], standing: str) -> None:
    turns = [
        replace(
            make.turn(f"prompt {n}", key=str(n)),
            extra={BEHIND: entry} if entry else {},
            entries=(EntryRef(f"e{n}", n, 1, n + 1),),
        )
        for n, entry in enumerate(behind)
    ]

    assert "".join(turn.key for turn in standing_turns(turns)) == standing
