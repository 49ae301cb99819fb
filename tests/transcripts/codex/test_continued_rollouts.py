"""Since 0.153, Codex begins a new file for a session in which the user went back; a fork repeats no history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.sessions.reading_progress import places_of_session
from engram.models.sessions.sessions import list_sessions
from engram.settings import Settings
from engram.transcripts import registry
from engram.transcripts.codex import agent
from engram.transcripts.growing_file import Chunk, Position, read_chunk
from engram.transcripts.turns import Role, Turn, standing_turns
from tests.rollouts import SESSION, Rollout
from tests.transcripts.codex.test_compressed import compress

Read = Callable[..., list[Turn]]
SECOND, THIRD = (f"019f03f{number}-321f-7eb2-83cc-b54ecd71be23" for number in (1, 2))
FORK = "019f03f9-321f-7eb2-83cc-b54ecd71be23"


def said(rollout: Rollout, *prompts: str) -> None:
    """Prompts with their answers; each is a turn of Codex."""
    for prompt in prompts:
        rollout.begin()
        rollout.message("user", prompt)
        rollout.item("UserMessage", content=[{"type": "text", "text": prompt, "text_elements": []}])
        rollout.item("AgentMessage", content=[{"type": "Text", "text": f"Done: {prompt}"}])
        rollout.message("assistant", f"Done: {prompt}")
        rollout.end()


def continued(rollout: Rollout, end_bytes: int, name: str, session: str = SESSION) -> Rollout:
    """A file that continues the first bytes of another one."""
    made = Rollout(rollout.folder, session, at=rollout.at, turn=rollout.turn, rollout=name)
    base = {"thread_id": rollout.rollout or rollout.session, "end_ordinal_exclusive": 9, "end_byte_offset": end_bytes}
    made.write("session_meta", {"id": session, "cwd": "/work/harbour", "source": "vscode", "history_base": base})
    return made


def size(rollout: Rollout) -> int:
    return rollout.path.stat().st_size


def standing(turns: list[Turn]) -> list[str]:
    return [turn.prompt for turn in standing_turns(turns)]


@pytest.fixture
def first(rollout: Rollout) -> Rollout:
    """The first file of a session, with two prompts."""
    rollout.head()
    said(rollout, "Weigh the seal.", "Weigh the walrus.")
    return rollout


@pytest.mark.parametrize("is_read_before", [True, False])
@pytest.mark.parametrize("becomes", ["plain", "archived", "compressed", "gone"])
def test_the_session_goes_on_in_a_new_file(
    first: Rollout, codex_folder: Path, read: Read, store: Store, is_read_before: bool, becomes: str
) -> None:
    end = size(first)
    said(first, "Always weigh it twice.")
    if is_read_before:
        read()
    second = continued(first, end, SECOND)
    said(second, "Weigh the crate.")
    if becomes == "archived":
        (codex_folder / "archived_sessions").mkdir()
        first.path.rename(codex_folder / "archived_sessions" / first.path.name)
    elif becomes == "compressed":
        compress(first.path)
    elif becomes == "gone":
        read()
        first.path.unlink()
        said(second, "Weigh the ship.")

    turns = read(SESSION)

    assert [turn.prompt for turn in turns][:4] == [
        "Weigh the seal.",
        "Weigh the walrus.",
        "Always weigh it twice.",
        "Weigh the crate.",
    ]
    assert standing(turns)[:3] == ["Weigh the seal.", "Weigh the walrus.", "Weigh the crate."]
    assert "Always weigh it twice." not in standing(turns)
    assert [session.session_id for session in list_sessions(store)] == [SESSION]
    assert len(places_of_session(store, SESSION)) == 2


def test_the_user_goes_back_again_and_again(first: Rollout, read: Read) -> None:
    second = continued(first, size(first), SECOND)
    end = size(second)
    said(second, "Weigh the crate.", "Weigh the ship.")
    third = continued(second, end, THIRD)
    said(third, "Weigh the sea.")

    turns = read(SESSION)

    assert len(turns) == 5
    assert standing(turns) == ["Weigh the seal.", "Weigh the walrus.", "Weigh the sea."]


def test_the_only_prompt_is_replaced(rollout: Rollout, read: Read) -> None:
    rollout.head()
    end = size(rollout)
    said(rollout, "Always weigh it twice.")
    said(continued(rollout, end, SECOND), "Weigh the crate.")

    assert standing(read(SESSION)) == ["Weigh the crate."]


def test_each_file_is_examined_once_for_all_that_continue_it(
    first: Rollout, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout, examined = first, []
    for number in range(1, 6):
        rollout = continued(rollout, size(rollout), f"019f03f{number}-321f-7eb2-83cc-b54ecd71be23")
        said(rollout, f"Weigh crate {number}.")

    def noting(path: Path, position: Position) -> Chunk:
        if not position.offset:
            examined.append(path)
        return read_chunk(path, position)

    monkeypatch.setattr(agent, "read_chunk", noting)

    assert len(standing(read(SESSION))) == 7
    assert len(examined) == len(set(examined)) == 5


def test_files_that_name_each_other_end(first: Rollout, read: Read) -> None:
    second = continued(first, 10**9, SECOND)
    third = Rollout(first.folder, rollout=THIRD)
    continued(third, 10**9, SECOND).path.replace(second.path)
    continued(second, 10**9, THIRD)
    said(third, "Weigh the crate.")

    assert [turn.prompt for turn in read(SESSION)][-1] == "Weigh the crate."


def test_a_fork_follows_nothing_of_the_session_that_it_was_made_from(first: Rollout, read: Read, store: Store) -> None:
    fork = continued(first, size(first), "", FORK)
    said(fork, "Weigh the crate.")

    turns = read(SESSION) + read(FORK)

    assert [(turn.session_id, turn.prompt) for turn in turns] == [
        (SESSION, "Weigh the seal."),
        (SESSION, "Weigh the walrus."),
        (FORK, "Weigh the crate."),
    ]
    assert standing(turns[2:]) == ["Weigh the crate."]


def test_no_file_of_a_session_is_left_out(first: Rollout, settings: Settings) -> None:
    said(continued(first, size(first), SECOND), "Weigh the crate.")

    assert {source.session_id for source in registry.discover(settings)} == {SESSION}
    assert len(list(registry.discover(settings))) == 2
    assert not registry.skipped(settings)


@pytest.mark.parametrize(
    ("trigger", "role"),
    [("user", Role.USER), (None, Role.USER), ("exec", Role.PROGRAM), ("automation", Role.PROGRAM)],
)
@pytest.mark.parametrize("max_bytes", [1, 1_000_000])
def test_who_began_a_turn_is_told_by_its_beginning(
    first: Rollout, read: Read, trigger: str | None, role: Role, max_bytes: int
) -> None:
    first.begin(turn_attribution={"turn_trigger": trigger})
    first.user("Never weigh the sea.")
    first.end()
    said(first, "And now?")

    turns = read(max_bytes=max_bytes)

    assert [turn.said[0].role for turn in turns] == [Role.USER, Role.USER, role, Role.USER]


@pytest.mark.parametrize("max_bytes", [1, 600, 1_000_000])
def test_a_summary_of_a_compaction_is_nobodys_reply(first: Rollout, read: Read, max_bytes: int) -> None:
    summary = "The seal weighs 40 kg, and the walrus is next."
    first.begin()
    first.message("assistant", summary)
    first.write("compacted", {"message": f"Another model wrote this summary:\n{summary}", "replacement_history": []})
    first.end()
    said(first, "Go on.")

    turns = read(max_bytes=max_bytes)

    assert [turn.reply for turn in turns] == ["Done: Weigh the seal.", "Done: Weigh the walrus.", "Done: Go on."]


def test_replies_after_a_summary_that_was_already_stored_are_kept(first: Rollout, read: Read) -> None:
    summary = "The seal weighs 40 kg, and the walrus is next."
    first.begin()
    first.user("Weigh the ship.")
    first.message("assistant", summary)
    read()
    first.write("compacted", {"message": f"Another model wrote this summary:\n{summary}", "replacement_history": []})
    first.says("The ship weighs 4 t.")
    first.end()

    turns = read()

    assert turns[-1].reply == "The ship weighs 4 t."


def test_a_reply_with_which_a_summary_happens_to_end_is_kept(first: Rollout, read: Read) -> None:
    first.begin()
    first.user("Weigh the ship.")
    first.says("Done.")
    first.write("compacted", {"message": "Another model wrote this summary:\nThe ship is heavy. Done."})
    first.end()

    turns = read()

    assert turns[-1].reply == "Done."
