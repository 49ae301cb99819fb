"""A session is never reminded of what its own context still holds: its own words, or those that a fork repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recollecting import FACT, PROMPT, Scene

from engram.enums import Actor, Kind
from engram.ingest.read_sources import ingest_path
from engram.memories.save import save_memory
from engram.models.memories.memory_changes import add_evidence, add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import StoredTurn, turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from tests.transcript_lines import line

SECOND = 1000


def write(
    memory: Scene, session: str, texts: list[str], *, again: str = "", compacted_after: int | None = None
) -> None:
    """Write a transcript and read it; ``again`` repeats another session's entries first, as a fork does."""
    folder = Path(memory.settings.home).parent / "claude" / "projects" / "-dev-lab-proj"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    lines = (folder / f"{again}.jsonl").read_text().replace(again, session).splitlines(keepends=True) if again else []
    for number, text in enumerate(texts):
        at = f"2026-01-01T00:{len(lines):02}:00.000Z"
        role = "user" if number % 2 == 0 else "assistant"
        lines.append(
            line(role, text, session=session, entry=f"{session[:4]}{number:032}"[:36], cwd="/dev/lab/proj", at=at)
        )
        if compacted_after == number:
            lines.append(
                '{"type":"system","subtype":"compact_boundary","uuid":"boundary","content":"Conversation compacted",'
                f'"timestamp":"{at}"}}\n'
            )
    path.write_text("".join(lines))
    settings = Settings(home=memory.settings.home, claude_folder=folder.parent.parent, embedding_model="hashed")
    ingest_path(memory.store, path, settings=settings, redact=redact, close=True)


def turns(memory: Scene, session: str) -> list[StoredTurn]:
    """The stored turns of a session."""
    row = find_session(memory.store, session)
    assert row is not None
    return turns_of_session(memory.store, row.id)


def keep_of(memory: Scene, session: str, number: int = 0, summary: str = FACT) -> Any:
    """A memory that rests on a turn of a session, said when the turn began."""
    turn = turns(memory, session)[number]
    assert turn.turn.started_at_ms is not None
    entry = turn.turn.entries[0].uuid
    with memory.store.transaction() as tx:
        made = Memory(
            new_memory_id(),
            Kind.DECISION,
            summary,
            summary,
            session_id=session,
            project_id=memory.project.id,
            quality=0.75,
            extractor="openai-m",
            created_at_ms=turn.turn.started_at_ms,
            entities=("watcher.py",),
        )
        return add_memory(tx, made, [Evidence(entry, session, turn.id)], actor=Actor.MODEL)


TALK = ["How does the watcher lock?", FACT, "And how is it tested, by which file?", "By tests of the lock alone."]


class TestTheSessionItself:
    def test_its_own_memory_comes_by_no_channel_and_to_another_session_it_does(self, memory: Scene) -> None:
        write(memory, "s1", TALK)
        kept = keep_of(memory, "s1")

        memory.service.recollect("s1")
        memory.service.refresh("s1")
        memory.service.about_tool("s1", files=("/dev/lab/proj/watcher.py",))
        assert memory.waiting() == ""
        assert memory.start() == ""
        assert memory.ask(prompt_id="p1") == ""
        assert memory.ask(FACT, prompt_id="p2") == ""
        memory.service.about_tool("s1", files=("/dev/lab/proj/watcher.py",))
        assert memory.waiting() == ""

        assert kept.episode_id in memory.ask(session="s2")
        assert kept.episode_id in memory.start(session="s3")

    def test_a_memory_of_others_that_it_has_just_confirmed_is_none_of_theirs_to_it(self, memory: Scene) -> None:
        write(memory, "s1", TALK)
        turn = turns(memory, "s1")[0]
        kept = memory.keep()
        with memory.store.transaction() as tx:
            add_evidence(
                tx, kept, [Evidence(turn.turn.entries[0].uuid, "s1", turn.id)], "said again", actor=Actor.MODEL
            )

        assert memory.ask(prompt_id="p1") == ""
        assert memory.ask(session="s2")

    def test_what_it_saved_before_its_transcript_was_read_does_not_come_back(self, memory: Scene) -> None:
        save_memory(
            memory.store, FACT, lambda text: text, project_id=memory.project.id, session_id="s1", actor=Actor.AGENT
        )
        assert find_session(memory.store, "s1") is None

        assert memory.ask() == ""
        assert memory.ask(session="s2")

    @pytest.mark.parametrize("told_by", ["the hook", "the transcript"])
    def test_what_was_said_before_a_compaction_may_come_and_what_was_said_after_may_not(
        self, memory: Scene, told_by: str
    ) -> None:
        write(memory, "s1", TALK, compacted_after=1 if told_by == "the transcript" else None)
        early = keep_of(memory, "s1", 0)
        late = keep_of(memory, "s1", 1, "How the watcher holds its flock and no PID file is tested by the lock alone")
        if told_by == "the hook":
            memory.clock.at_ms = early.created_at_ms + SECOND
            text = memory.start("compact") + memory.ask(prompt_id="p1")
        else:
            text = memory.ask(prompt_id="p1")
        memory.service.about_tool("s1", files=("/dev/lab/proj/watcher.py",))

        assert early.episode_id in text
        assert late.episode_id not in text + memory.waiting()
        assert late.episode_id in memory.ask(session="s2") + memory.start(session="s3")


class TestForks:
    def test_a_fork_is_not_reminded_of_what_it_repeats(self, memory: Scene) -> None:
        write(memory, "aaaa-parent", TALK)
        before = keep_of(memory, "aaaa-parent")
        write(memory, "bbbb-fork", ["Something else now, please: the colours.", "Blue."], again="aaaa-parent")

        assert memory.ask(session="bbbb-fork") == ""
        memory.service.about_tool("bbbb-fork", files=("/dev/lab/proj/watcher.py",))
        assert memory.waiting("bbbb-fork") == ""
        assert before.episode_id in memory.ask(session="cccc-other")

    def test_what_the_parent_said_after_the_fork_is_news_to_it(self, memory: Scene) -> None:
        write(memory, "aaaa-parent", TALK[:2])
        write(memory, "bbbb-fork", ["Something else now, please: the colours.", "Blue."], again="aaaa-parent")
        write(memory, "aaaa-parent", TALK)
        after = keep_of(memory, "aaaa-parent", 1)

        assert after.episode_id in memory.ask(session="bbbb-fork")

    def test_where_the_fork_was_read_first_its_parent_is_not_reminded_of_their_common_words(
        self, memory: Scene
    ) -> None:
        write(memory, "aaaa-parent", TALK)
        parent = Path(memory.settings.home).parent / "claude" / "projects" / "-dev-lab-proj" / "aaaa-parent.jsonl"
        lines = parent.read_text().replace("aaaa-parent", "bbbb-fork")
        with memory.store.transaction() as tx:
            for table in ("entry", "said", "passage", "turn", "transcript", "session"):
                tx.run(f"DELETE FROM {table}")
        parent.with_name("bbbb-fork.jsonl").write_text(lines)
        settings = Settings(home=memory.settings.home, claude_folder=parent.parents[2], embedding_model="hashed")
        for name in ("bbbb-fork", "aaaa-parent"):
            ingest_path(memory.store, parent.with_name(f"{name}.jsonl"), settings=settings, redact=redact, close=True)
        keep_of(memory, "bbbb-fork")

        assert memory.ask(session="aaaa-parent") == ""
        assert memory.ask(session="cccc-other")

    def test_what_the_parent_was_shown_is_not_shown_to_the_fork_again(self, memory: Scene) -> None:
        kept = memory.keep()
        write(memory, "aaaa-parent", TALK[2:])
        memory.clock.at_ms = turns(memory, "aaaa-parent")[0].turn.started_at_ms or 0
        assert kept.episode_id in memory.ask(session="aaaa-parent")
        write(memory, "bbbb-fork", ["Something else now, please: the colours.", "Blue."], again="aaaa-parent")

        assert memory.ask(session="bbbb-fork", prompt_id="p1") == ""

    def test_a_fork_whose_transcript_was_not_read_yet_is_reminded_of_nothing(self, memory: Scene) -> None:
        write(memory, "aaaa-parent", TALK)
        keep_of(memory, "aaaa-parent")
        other = memory.keep("flock is let go by the kernel: hold it for the life of a watcher process, no PID file")
        assert memory.start("fork", session="bbbb-fork") == ""
        assert memory.ask(PROMPT, session="bbbb-fork") == ""

        write(memory, "bbbb-fork", ["Something else now, please: the colours.", "Blue."], again="aaaa-parent")

        text = memory.ask(PROMPT, session="bbbb-fork")
        assert other.episode_id in text
        assert FACT not in text
