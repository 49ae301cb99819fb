"""Every text is redacted before it is stored; values of environment files are known from then on."""

from __future__ import annotations

import pytest
from growing_transcript import Ingest, MakeTranscript, Transcript, Turns

from engram.ingest.redact_turns import MAX_KNOWN_VALUES, Cleaner
from engram.models.engine.transaction import Store
from engram.redaction import redact
from engram.transcripts.claude_code.calls import finish_action, start_action
from engram.transcripts.turns import (
    MAX_COMMAND_CHARS,
    MAX_ERROR_CHARS,
    MAX_TODO_CHARS,
    Opening,
    Role,
    TextBlock,
    Turn,
    TurnUpdate,
)

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
VALUE = "zV9kQ2mX7pL4wR8tY3nB"


def dump(store: Store) -> str:
    named = store.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%fts%'")
    tables = [name for (name,) in named]
    return "\n".join(str(row) for table in tables for row in store.rows(f"SELECT * FROM {table}"))


def test_no_secret_reaches_the_database_from_any_field(transcript: Transcript, ingest: Ingest, store: Store) -> None:
    refused = (
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
        f"use the token {TOKEN}"
    )
    transcript.user(f"deploy with token {TOKEN}")
    transcript.says(f"Using {TOKEN}.")
    transcript.calls(
        "Bash", f"Exit code 1\nerror: bad token {TOKEN}", is_error=True, command=f"curl -H 'Bearer {TOKEN}'"
    )
    transcript.calls("Read", "x", file_path=f"/p/{TOKEN}.txt")
    transcript.calls("Edit", refused, is_error=True, file_path="/p/a")
    transcript.calls("Bash", f"[main 1a2b3c4] add {TOKEN}", command="git commit -m x")
    transcript.queue("enqueue", f"also {TOKEN}")

    ingest(transcript)

    assert TOKEN not in dump(store)
    assert "[secret:" in dump(store)
    assert store.find_damage() == ""


def test_private_text_is_dropped(transcript: Transcript, ingest: Ingest, turns: Turns, store: Store) -> None:
    transcript.user("build it <private>for the merger with Initech</private> today")

    ingest(transcript)

    assert "Initech" not in dump(store)
    assert turns()[0].turn.prompt.split() == ["build", "it", "today"]


def test_a_value_seen_in_an_environment_file_is_masked_wherever_it_stands_later(
    transcript: Transcript, ingest: Ingest, store: Store
) -> None:
    transcript.user("why does it fail?")
    transcript.calls("Read", f"     1→DB_PASSWORD={VALUE}\n".replace("     1→", ""), file_path="/p/.env")
    ingest(transcript)
    transcript.says(f"The value {VALUE} is wrong.")
    ingest(transcript)

    assert VALUE not in dump(store)


def test_a_value_of_another_session_is_not_compared(
    make_transcript: MakeTranscript, ingest: Ingest, store: Store
) -> None:
    one, two = make_transcript("s1"), make_transcript("s2")
    one.user("go")
    one.calls("Bash", "TEAM_SECRET=plainwordvalue", command="cat .env")
    two.user("plainwordvalue is what I wrote")

    ingest(one)
    ingest(two)

    assert store.value("SELECT count(DISTINCT session_ref) FROM known_value") == 1
    assert "plainwordvalue is what I wrote" in dump(store)


def test_texts_of_one_turn_are_redacted_as_if_each_were_alone() -> None:
    texts = ["a word <private> never closed", "deploy to staging", f"with {TOKEN}", "its end </private> alone"]
    said = tuple(TextBlock(uuid=f"u{n}", role=Role.USER, text=text) for n, text in enumerate(texts))
    turn = Turn(key="t", session_id="s", opening=Opening.PROMPT, said=said)

    clean = Cleaner(redact, b"salt").clean(TurnUpdate(turn, 0))

    assert [block.text for block in clean.said] == [redact(text) for text in texts]
    assert clean.said[1] is said[1]


def test_a_value_that_a_turn_shows_last_is_masked_in_all_its_texts() -> None:
    texts = ["plainwordvalue is what I wrote", "TEAM_SECRET=plainwordvalue"]
    said = tuple(TextBlock(uuid=f"u{n}", role=Role.USER, text=text) for n, text in enumerate(texts))
    turn = Turn(key="t", session_id="s", opening=Opening.PROMPT, said=said)
    cleaner = Cleaner(redact, b"salt-salt")

    clean = cleaner.clean(TurnUpdate(turn, 0))

    assert len(cleaner.new_known) == 1
    assert not any("plainwordvalue" in block.text for block in clean.said)


def test_what_is_known_is_bounded_and_hashed() -> None:
    cleaner = Cleaner(lambda text, known: text, b"salt-salt")

    cleaner.note_environment("\n".join(f"API_KEY_{n}=zV9kQ2mX7pL4wR8tY3n{n:04}" for n in range(MAX_KNOWN_VALUES + 50)))

    assert len(cleaner.new_known) == MAX_KNOWN_VALUES
    assert not any(b"zV9kQ2mX" in one for one in cleaner.new_known)


@pytest.mark.parametrize("limit", [MAX_COMMAND_CHARS, MAX_ERROR_CHARS])
@pytest.mark.parametrize("inside", [4, 12, 20, 39])
def test_a_secret_at_the_cut_of_a_command_or_an_error_leaves_no_half(limit: int, inside: int) -> None:
    token = "ghp_x7Kq2mZr9TbV4nWc8YhJ3sLd6PfGa1Qe5Uo0"
    before = "deploy " + "x " * ((limit - inside - 7) // 2)
    action = start_action({"id": "t1", "name": "Bash", "input": {"command": before + token}}, "u1")
    assert action is not None
    result = {"tool_use_id": "t1", "is_error": True, "content": f"{before}{token}"}
    finished = finish_action(action, result, "u2")
    turn = Turn(key="t", session_id="s", opening=Opening.PROMPT, actions=(finished,))

    (clean,) = Cleaner(redact, b"salt").clean(TurnUpdate(turn, 0)).actions

    assert len(clean.command) <= MAX_COMMAND_CHARS
    assert 0 < len(clean.error_line) <= MAX_ERROR_CHARS
    assert "ghp_" not in clean.command + clean.error_line


@pytest.mark.parametrize("inside", [4, 12, 39])
def test_a_secret_in_a_todo_list_leaves_no_half(inside: int) -> None:
    token = "ghp_x7Kq2mZr9TbV4nWc8YhJ3sLd6PfGa1Qe5Uo0"
    text = "deploy " + "x " * ((MAX_TODO_CHARS - inside - 7) // 2) + token
    action = start_action(
        {"id": "t1", "name": "TodoWrite", "input": {"todos": [{"content": text, "status": "pending"}]}}, "u1"
    )
    assert action is not None
    turn = Turn(key="t", session_id="s", opening=Opening.PROMPT, actions=(action,))

    (clean,) = Cleaner(redact, b"salt").clean(TurnUpdate(turn, 0)).actions

    assert 0 < len(clean.todos[0].text) <= MAX_TODO_CHARS
    assert "ghp_" not in clean.todos[0].text
