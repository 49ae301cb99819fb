"""A briefing tells what a language model wrote in its own words: what the user backed, the rest if room is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recollecting import Scene

from bench.storing import write_turn
from engram.enums import Actor, Kind, Scope, Status, Voice
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, find_memory, new_memory_id
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.models.sessions.stored_turns import load_turn
from engram.recollection.session_briefing import build_briefing
from engram.transcripts.turns import Opening, Role, TextBlock, Turn

DECISION = "A page of the catalogue has 24 items everywhere, since six rows of four fill the grid of the new design."
REPLY = "From now on a page of the catalogue has 24 items: six rows of four fill the grid."
UNCONFIRMED = "From the assistant, not confirmed:"


def cite(memory: Scene, *said: tuple[Role, str], summary: str = DECISION, **fields: Any) -> Memory:
    """Keep a provisional decision that rests on the texts of a turn."""
    blocks = [
        TextBlock(f"00000000-0000-4000-8000-{number:012}", role, text, offset=number * 9, length=9)
        for number, (role, text) in enumerate(said, 1)
    ]
    with memory.store.transaction() as tx:
        session = ensure_session(
            tx, "s9", agent="claude-code", project_id=memory.project.id, is_global=False, cwd="/dev/lab/proj", at_ms=1
        )
        transcript = ensure_transcript(tx, Path("/x/s9.jsonl"), session.id)
        write_turn(tx, Turn("k", "s9", Opening.PROMPT, said=tuple(blocks), started_at_ms=5), session, transcript)
    turn = load_turn(memory.store, "k")
    assert turn is not None
    made = Memory(
        new_memory_id(),
        fields.pop("kind", Kind.DECISION),
        summary,
        summary,
        **{
            "voice": Voice.ASSISTANT,
            "status": Status.PROVISIONAL,
            "confidence": 0.7,
            "extractor": "openai-m",
            "project_id": memory.project.id,
            "session_id": "s9",
        }
        | fields,
    )
    with memory.store.transaction() as tx:
        return add_memory(tx, made, [Evidence(block.uuid, "s9", turn.id) for block in blocks], actor=Actor.MODEL)


def section_of(memory: Scene, kept: Memory) -> str:
    """Return the heading under which the briefing tells a memory; "" if it does not."""
    heading = ""
    for line in build_briefing(memory.store, memory.settings, project_id=memory.project.id).splitlines():
        if line.startswith(f"- [{kept.episode_id}]"):
            return heading
        heading = heading if line.startswith("- ") else line
    return ""


@pytest.mark.parametrize(
    "typed",
    [
        "24 then, the designers want six rows. So no longer 50 a page: 24 everywhere.",
        "yes",
        "Ok, do it",
    ],
)
@pytest.mark.parametrize("kind", [Kind.DECISION, Kind.DEAD_END])
def test_what_the_user_typed_a_statement_about_or_agreed_to_is_told(memory: Scene, typed: str, kind: Kind) -> None:
    made = cite(memory, (Role.USER, typed), (Role.ASSISTANT, REPLY), kind=kind)

    assert section_of(memory, made) == ("Dead ends:" if kind is Kind.DEAD_END else "Decisions in force:")


def test_an_answer_in_a_dialog_backs_a_decision(memory: Scene) -> None:
    made = cite(memory, (Role.CHOSEN, "24"), (Role.ASSISTANT, REPLY))

    assert section_of(memory, made) == "Decisions in force:"


@pytest.mark.parametrize(
    "said",
    [
        ((Role.ASSISTANT, REPLY),),
        ((Role.USER, "How many items should a page of the catalogue have?"), (Role.ASSISTANT, REPLY)),
        ((Role.USER, "the template I'll change myself"), (Role.ASSISTANT, REPLY)),
    ],
)
def test_what_the_user_did_not_back_is_distinguished(memory: Scene, said: tuple[tuple[Role, str], ...]) -> None:
    made = cite(memory, *said)

    assert section_of(memory, made) == UNCONFIRMED


@pytest.mark.parametrize(
    "pasted",
    [
        "What is this about?\n\n> A page of the catalogue must have 24 items everywhere, six rows of four.",
        "```\nA page of the catalogue has 24 items everywhere\n```",
    ],
)
def test_what_was_pasted_backs_nothing_and_is_not_told(memory: Scene, pasted: str) -> None:
    made = cite(memory, (Role.USER, pasted), (Role.ASSISTANT, REPLY))

    assert section_of(memory, made) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"suspect": "an order in relayed text"},
        {"scope": Scope.GLOBAL},
        {"is_lowered": True},
        {"confidence": 0.3},
        {"extractor": "local-1"},
        {"superseded_by": "ep_000000000000"},
    ],
)
@pytest.mark.parametrize("typed", ["yes", "hm, I'll ask them before we do anything"])
def test_suspect_global_and_doubtful_ones_stay_out(memory: Scene, fields: dict[str, Any], typed: str) -> None:
    made = cite(memory, (Role.USER, typed), (Role.ASSISTANT, REPLY), **fields)

    assert section_of(memory, made) == ""


def test_telling_it_changes_neither_voice_nor_status_nor_scope(memory: Scene) -> None:
    made = cite(memory, (Role.USER, "yes"), (Role.ASSISTANT, REPLY))

    assert section_of(memory, made)
    row = find_memory(memory.store, made.episode_id)
    assert row is not None
    assert (row.voice, row.status, row.scope) == (Voice.ASSISTANT, Status.PROVISIONAL, Scope.PROJECT)


def test_what_is_not_confirmed_takes_no_room_from_the_rest(memory: Scene) -> None:
    for number in range(60):
        memory.keep(f"Station {number} of line {number * 7} is read by program {number * 13}, " + "word " * 30)
    before = build_briefing(memory.store, memory.settings, project_id=memory.project.id).splitlines()

    cite(memory, (Role.ASSISTANT, REPLY))

    after = build_briefing(memory.store, memory.settings, project_id=memory.project.id).splitlines()
    assert [line for line in before if line.startswith("- ")] == [
        line for line in after if line.startswith("- ") and DECISION not in line
    ]
