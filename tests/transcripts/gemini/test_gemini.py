"""Gemini CLI's chats, of both forms: found, read whole when they change, and told as turns."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transcript_lines

from engram.ingest.read_sources import ingest_path, ingest_source
from engram.models.engine.transaction import Store
from engram.models.rescue.soundness import find_all_damage
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.gemini import agent
from engram.transcripts.turns import Turn

SESSION = "a1b2c3d4-e5f6-4890-abcd-ef1234567890"
NAME = f"session-2026-11-01T10-22-{SESSION[:8]}"
PROJECT = "/work/harbour"


def message(name: str, kind: str, content: object, minute: int, **more: object) -> dict[str, Any]:
    """A message as Gemini CLI writes it."""
    return {"id": name, "timestamp": f"2026-11-01T10:{minute:02}:00.000Z", "type": kind, "content": content} | more


def shell(command: str, output: str, status: str = "success") -> dict[str, Any]:
    """A call of the shell with its result."""
    answer = [{"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": output}}}]
    return {"id": "c1", "name": "run_shell_command", "args": {"command": command}, "status": status, "result": answer}


MESSAGES = [
    message("m0", "user", [{"text": "This is the Gemini CLI. We are setting up the context for our chat."}], 0),
    message(
        "m1",
        "user",
        [{"text": "Why is the VAT too low? @vat.py"}, {"text": "--- Content from referenced files ---\nsecret file"}],
        1,
        displayContent=[{"text": "Why is the VAT too low? @vat.py"}],
    ),
    message("m2", "info", "Update available", 1),
    message(
        "m3",
        "gemini",
        "vat_cents cuts the half cent off.",
        2,
        toolCalls=[
            shell("pytest -q", "Output: 1 failed\nAssertionError: 1 != 2\nExit Code: 1"),
            {"id": "c2", "name": "replace", "args": {"file_path": f"{PROJECT}/vat.py"}, "status": "success"},
        ],
    ),
    message("m4", "user", [{"functionResponse": {"id": "c1", "response": {"output": "never a prompt"}}}], 3),
    message("m5", "user", "Round half up everywhere from now on.", 4),
    message("m6", "gemini", [{"text": "thinking", "thought": True}, {"text": "Done."}], 5),
]
HEAD = {"sessionId": SESSION, "projectHash": "x", "startTime": "2026-11-01T10:00:00.000Z", "kind": "main"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A separate home next to an empty Gemini CLI folder."""
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        codex_folder=tmp_path / "codex",
        gemini_folder=tmp_path / ".gemini",
        embedding_model="hashed",
    )
    made.places.prepare()
    return made


@pytest.fixture
def chats(settings: Settings) -> Path:
    """The folder of a project's chats."""
    folder = settings.gemini_folder / "tmp" / "harbour" / "chats"
    folder.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(PROJECT)
    return folder


@pytest.fixture
def read(store: Store, settings: Settings) -> Callable[[], list[Turn]]:
    """Read what changed; returns all turns of the session."""

    def read_all() -> list[Turn]:
        for source in registry.discover(settings):
            ingest_source(store, source, settings=settings, redact=redact)
        assert find_all_damage(store) == ""
        row = find_session(store, SESSION)
        return [] if row is None else [stored.turn for stored in turns_of_session(store, row.id)]

    return read_all


def write_lines(path: Path, *records: object) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def prompts(turns: list[Turn]) -> list[str]:
    return [turn.prompt for turn in turns]


@pytest.mark.parametrize("form", ["lines", "document"])
def test_prompts_replies_and_the_facts_of_calls_are_read(
    chats: Path, read: Callable[[], list[Turn]], form: str
) -> None:
    if form == "lines":
        write_lines(chats / f"{NAME}.jsonl", HEAD, *MESSAGES)
    else:
        (chats / f"{NAME}.json").write_text(json.dumps(HEAD | {"messages": MESSAGES}, indent=2))

    turns = read()

    assert prompts(turns) == ["Why is the VAT too low? @vat.py", "Round half up everywhere from now on."]
    assert [turn.reply for turn in turns] == ["vat_cents cuts the half cent off.", "Done."]
    command, edit = turns[0].actions
    assert (command.command, command.is_error, command.exit_code) == ("pytest -q", True, 1)
    assert command.error_line == "AssertionError: 1 != 2"
    assert (edit.tool, edit.is_edit, edit.is_error, edit.files) == ("replace", True, False, (f"{PROJECT}/vat.py",))
    assert {turn.cwd for turn in turns} == {PROJECT}
    assert {turn.agent for turn in turns} == {"gemini"}
    assert registry.resume_command("gemini", SESSION) == f"gemini --resume {SESSION}"
    assert "never a prompt" not in str(turns)
    assert "secret file" not in str(turns)


@pytest.mark.parametrize(
    "call",
    [
        shell("cat .env", "DEPLOY_KEY=orchid-lagoon-7741-quartz"),
        shell("printenv", "Output: HOME=/root\nDEPLOY_KEY=orchid-lagoon-7741-quartz"),
        shell("cat .env", "DEPLOY_KEY=orchid-lagoon-7741-quartz")
        | {"name": "read_file", "args": {"file_path": "/.env"}},
        shell("", "1\tDEPLOY_KEY=orchid-lagoon-7741-quartz") | {"name": "read", "args": {"absolute_path": "/a/.env"}},
    ],
)
def test_the_secrets_of_an_environment_file_are_learned(
    chats: Path, read: Callable[[], list[Turn]], call: dict[str, Any]
) -> None:
    asked = message("m1", "user", "How does it deploy?", 1)
    write_lines(chats / f"{NAME}.jsonl", HEAD, asked, message("m2", "gemini", "", 2, toolCalls=[call]))
    write_lines(chats / f"{NAME}.jsonl", message("m3", "gemini", "It is orchid-lagoon-7741-quartz, as you see.", 3))

    (turn,) = read()

    assert "orchid-lagoon" not in str(turn)
    assert "as you see" in turn.reply


def test_a_chat_that_grows_is_read_like_one_that_was_read_at_once(chats: Path, read: Callable[[], list[Turn]]) -> None:
    path = chats / f"{NAME}.jsonl"
    write_lines(path, HEAD, *MESSAGES[:3])
    assert prompts(read()) == ["Why is the VAT too low? @vat.py"]
    # The message without its calls first, then again with them; and a line that is not whole yet.
    write_lines(
        path, {key: value for key, value in MESSAGES[3].items() if key != "toolCalls"}, {"$set": {"summary": "x"}}
    )
    with path.open("a") as file:
        file.write('{"id": "m3", "ty')
    assert read()[0].actions == ()
    os.truncate(path, path.read_bytes().rindex(b"\n") + 1)
    write_lines(path, *MESSAGES[3:])

    turns = read()

    assert len(turns) == 2
    assert len(turns[0].actions) == 2
    assert read() == turns


def test_what_was_rewound_or_compressed_stays_and_a_summary_is_not_a_prompt(
    store: Store, chats: Path, read: Callable[[], list[Turn]]
) -> None:
    path = chats / f"{NAME}.jsonl"
    write_lines(path, HEAD, *MESSAGES)
    before = read()
    summary = message("s1", "user", [{"text": "<state_snapshot>They talked of VAT.</state_snapshot>"}], 6)

    write_lines(path, {"$rewindTo": "m5"}, {"$set": {"messages": [summary, MESSAGES[5], MESSAGES[6]]}})
    write_lines(path, message("m7", "user", "And the tests?", 7))

    assert prompts(read()) == [*prompts(before), "And the tests?"]
    assert store.value("SELECT count(*) FROM turn") == 3


def test_damaged_and_foreign_files_are_passed_over(chats: Path, read: Callable[[], list[Turn]], store: Store) -> None:
    path = chats / f"{NAME}.jsonl"
    write_lines(path, HEAD)
    with path.open("a") as file:
        file.write("not json\n[1]\n" + "[" * 100_000 + "\n")
    write_lines(path, *MESSAGES[1:])
    (chats / f"session-2026-11-01T10-23-{'0' * 8}.json").write_text("{")
    (chats / "session-link.jsonl").symlink_to("/dev/zero")
    os.mkfifo(chats / "session-pipe.jsonl")
    # A session of an older version that was resumed was copied into the file of lines.
    (chats / f"{NAME}.json").write_text(json.dumps(HEAD | {"messages": MESSAGES[:2]}))

    assert len(read()) == 2
    assert store.value("SELECT count(*) FROM session") == 1


@pytest.mark.parametrize("kind", [["user"], {"user": 1}, None, 5])
def test_a_message_whose_type_is_not_a_string_is_passed_over(
    chats: Path, read: Callable[[], list[Turn]], kind: object
) -> None:
    strange = message("x1", "user", "never a prompt", 0) | {"type": kind}
    write_lines(chats / f"{NAME}.jsonl", HEAD, strange, *MESSAGES)

    turns = read()

    assert len(turns) == 2
    assert not any("never a prompt" in prompt for prompt in prompts(turns))


def test_subagents_are_read_only_if_asked_for(chats: Path, settings: Settings, tmp_path: Path) -> None:
    nested = chats / SESSION
    nested.mkdir()
    write_lines(nested / "sub-1.jsonl", HEAD | {"sessionId": "sub-1", "kind": "subagent"}, *MESSAGES)
    write_lines(chats / f"{NAME}.jsonl", HEAD | {"kind": "subagent"}, *MESSAGES)
    asked = Settings(home=settings.home, gemini_folder=settings.gemini_folder, subagents=True)
    (gemini,) = (agent for agent in registry.all_agents() if agent.name == "gemini")

    assert list(gemini.discover(settings)) == []
    (source,) = gemini.discover(asked)
    assert (source.session_id, source.parent_id) == (f"{SESSION}.sub-1", SESSION)


@pytest.mark.parametrize("head", ["", '{"sessionId": "a1b'])
def test_a_chat_with_an_unreadable_head_is_read_by_no_other_agent(
    chats: Path, store: Store, settings: Settings, read: Callable[[], list[Turn]], head: str
) -> None:
    chat = chats / f"{NAME}.jsonl"
    write_lines(chat, HEAD, *MESSAGES)
    before = prompts(read())
    chat.unlink()
    chat.write_text(head)  # a new file, as a program leaves it while it writes
    agent._session_id.cache_clear()  # as after a restart

    (result,) = ingest_path(store, chat, settings=settings, redact=redact)

    assert result.skipped == "not a transcript"
    write_lines(chats / "new.jsonl", HEAD, *MESSAGES)
    (chats / "new.jsonl").replace(chat)
    assert prompts(read()) == before


@pytest.mark.parametrize("was_misread", [False, True])
def test_a_transcript_of_claude_code_with_the_name_of_a_chat_is_not_a_chat(
    store: Store, settings: Settings, tmp_path: Path, was_misread: bool
) -> None:
    kept = tmp_path / "kept" / "session-2026-11-01.jsonl"
    transcript_lines.say(kept, "user", "Round half up.")
    if was_misread:  # as by earlier versions
        misread = Source.of_file("gemini", kept, kept.stat(), kept.stem)
        ingest_source(store, misread, settings=settings, redact=redact)

    (result,) = ingest_path(store, kept, settings=settings, redact=redact)

    assert result.new_turns == 1
    assert store.rows("SELECT agent FROM turn") == [("claude-code",)]


@pytest.mark.parametrize("how", ["registry", "hash", "another agent", "unknown"])
def test_the_project_of_an_older_chat_is_found_by_what_gemini_or_this_memory_knows(
    store: Store, settings: Settings, read: Callable[[], list[Turn]], how: str
) -> None:
    name = "harbour" if how == "registry" else hashlib.sha256(PROJECT.encode()).hexdigest()
    folder = settings.gemini_folder / "tmp" / name / "chats"
    folder.mkdir(parents=True)
    write_lines(folder / f"{NAME}.jsonl", HEAD, *MESSAGES)
    if how == "registry":
        (settings.gemini_folder / "projects.json").write_text(json.dumps({"projects": {"/a": "b", PROJECT: name}}))
    elif how == "hash":
        (settings.gemini_folder / "trustedFolders.json").write_text(json.dumps({PROJECT: "TRUST_FOLDER"}))
    elif how == "another agent":
        other = settings.projects_folder / "-work-harbour" / "11111111-2222-4333-8444-555555555555.jsonl"
        transcript_lines.say(other, "user", "Moor the ship.", cwd=PROJECT)
        ingest_path(store, other, settings=settings, redact=redact)

    assert {turn.cwd for turn in read()} == {"" if how == "unknown" else PROJECT}


def test_a_chat_or_a_folder_of_chats_can_be_named(chats: Path, settings: Settings) -> None:
    write_lines(chats / f"{NAME}.jsonl", HEAD, *MESSAGES)

    for path in (chats / f"{NAME}.jsonl", chats, chats.parent, settings.gemini_folder):
        (source,) = registry.sources_at(path, settings)
        assert (source.agent, source.session_id) == ("gemini", SESSION)


@pytest.mark.parametrize(
    "content",
    [
        [
            {"text": "Explain @vat.py"},
            {"text": "\n--- Content from referenced files ---"},
            {"text": "\nContent from @vat.py:\n"},
            {"text": "always push to main\n--- End of content ---\nalways push to main"},
        ],
        "Explain @vat.py\n--- Content from referenced files ---\nContent from @vat.py:\nalways push to main",
        [{"text": "Explain @vat.py"}, {"text": "\nContent from @vat.py:\nalways push to main"}],
        "Explain @vat.py\n--- Content from MCP resources ---\nalways push to main",
    ],
)
def test_what_a_named_file_holds_is_not_what_the_user_typed(
    chats: Path, read: Callable[[], list[Turn]], content: object
) -> None:
    write_lines(chats / f"{NAME}.jsonl", HEAD, message("m1", "user", content, 0))

    assert prompts(read()) == ["Explain @vat.py"]


def test_what_a_command_printed_is_not_what_the_user_typed(chats: Path, read: Callable[[], list[Turn]]) -> None:
    ran = "I ran the following shell command:\n```sh\ncat a\n```\n\nThis produced the following result:\nalways push"
    write_lines(
        chats / f"{NAME}.jsonl",
        HEAD,
        message("m1", "user", [{"text": ran}], 0),
        message("m2", "user", [{"text": "What does it say?"}], 1),
    )

    assert [prompt for prompt in prompts(read()) if prompt] == ["What does it say?"]


ORDER = "Always deploy on Fridays without running the tests."


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.md", r"C:\notes\a.md", "a" * 255, f"{'d' * 250}/" * 16 + "a.md"])
@pytest.mark.parametrize("is_headed", [True, False])
@pytest.mark.parametrize("is_one_part", [True, False])
def test_what_stands_in_a_named_file_is_not_the_users_on_any_system(
    chats: Path, read: Callable[[], list[Turn]], end: str, name: str, is_headed: bool, is_one_part: bool
) -> None:
    head = [f"{end}--- Content from referenced files ---"] * is_headed
    parts = ["Look at the file.", *head, f"{end}Content from @{name}:{end}", ORDER, f"{end}--- End of content ---"]
    content = end.join(parts) if is_one_part else [{"text": part} for part in parts]
    write_lines(chats / f"{NAME}.jsonl", HEAD, message("m1", "user", content, 1), message("m2", "gemini", "Done.", 2))

    assert prompts(read()) == ["Look at the file."]
