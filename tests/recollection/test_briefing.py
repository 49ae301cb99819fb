"""The briefing: pinned first, the important and recent next, inside its budget, never broken by one huge entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recollecting import Scene

from bench.storing import write_turn
from engram.consolidation.graduation import add_lines
from engram.enums import Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_all, ingest_path
from engram.memories.save import save_memory
from engram.models.engine.meta import put_meta
from engram.models.engine.migrations import MADE_AT
from engram.models.memories.memory_records import Memory
from engram.models.projects import projects
from engram.models.sessions import sessions
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.work.task_runs import note_failure, note_success
from engram.models.work.work import make_due
from engram.recollection.briefing_lines import text_of
from engram.recollection.session_briefing import MAX_STARTS, WAKING_MS, build_briefing, dead_line
from engram.redaction import redact
from engram.system.process_lock import ProcessLock
from engram.transcripts.turns import Action, Opening, Turn
from engram.vaults import Vault, settings_of, write_vault

DAY_MS = 86_400_000


def brief(memory: Scene, **fields: Any) -> list[str]:
    text = build_briefing(memory.store, memory.settings, **({"project_id": memory.project.id} | fields))
    return text.splitlines()[1:-1]


def summaries(lines: list[str]) -> list[str]:
    return [line.partition(": ")[2] for line in lines if line.startswith("- [ep_")]


def test_an_empty_memory_says_nothing(memory: Scene) -> None:
    assert build_briefing(memory.store, memory.settings, project_id=memory.project.id) == ""


@pytest.mark.parametrize("scheduler", ["looks for work", "hangs", "fails"])
def test_work_is_late_only_if_the_machine_was_used_while_it_waited(memory: Scene, scheduler: str) -> None:
    with memory.store.transaction() as tx:
        put_meta(tx, MADE_AT, str(memory.clock.now_ms()))
        make_due(tx, "extract", "s-1", memory.clock.now_ms())
    note_success(memory.store, "scan")
    use(memory)
    lock = ProcessLock(memory.settings.places.watcher_lock)
    vault = Vault("acme", ("/src/acme",), memory.settings.home / "vaults" / "acme", is_sealed=True)
    write_vault(vault)
    try:
        # The machine slept all night: nothing could be done.
        memory.clock.advance(9 * 3600)
        assert brief(memory) == []
        # It has just woken, and the first scan has only begun the work.
        if scheduler == "looks for work":
            note_success(memory.store, "scan")
        elif scheduler == "fails":
            note_failure(memory.store, "scan", "disk I/O error")
        use(memory)
        assert brief(memory) == []

        # The worker has had its time.
        memory.clock.advance(WAKING_MS / 1000 + 1)
        assert brief(memory)[1:] == [
            "Some sessions have been waiting 9 h to become memories. "
            f"`engram --home {memory.settings.home} doctor` shows the user why."
        ]
        # It is told in a vault, too, whose memory this might be.
        assert len(dead_line(memory.store, settings_of(vault, memory.settings))) == 1
    finally:
        lock.release()


def use(memory: Scene) -> None:
    """Begin a turn in some session now."""
    now_ms = memory.clock.now_ms()
    with memory.store.transaction() as tx:
        session = sessions.ensure_session(
            tx, "used", agent="claude-code", project_id=None, is_global=False, cwd="/x", at_ms=now_ms
        )
        transcript = ensure_transcript(tx, Path("/x/used.jsonl"), session.id)
        write_turn(tx, Turn(f"k{now_ms}", "used", Opening.PROMPT, started_at_ms=now_ms), session, transcript)


def test_pinned_come_first_then_the_important_and_recent(memory: Scene) -> None:
    now = memory.clock.now_ms()
    memory.keep("an old one", created_at_ms=now - 60 * DAY_MS)
    memory.keep("a fresh one", created_at_ms=now)
    memory.keep("an important old one", created_at_ms=now - 60 * DAY_MS, importance=Importance.HIGH, confidence=0.95)
    memory.keep("a pinned old one", created_at_ms=now - 90 * DAY_MS, is_pinned=True)

    assert summaries(brief(memory)) == ["a pinned old one", "a fresh one", "an important old one", "an old one"]


@pytest.mark.parametrize("stored", ["not JSON", '{"a": 1}', "[1, null, {}]", "null", '"text"', "[" * 5000, ""])
@pytest.mark.parametrize("column", ["facts", "entities"])
def test_malformed_facts_of_one_memory_do_not_cost_the_briefing(memory: Scene, column: str, stored: str) -> None:
    memory.keep("the queue lives in SQLite", importance=Importance.HIGH)
    damaged = memory.keep("the parser is written by hand", importance=Importance.HIGH, facts=("changed: parser.py",))
    with memory.store.transaction() as tx:
        tx.run(f"UPDATE episode SET {column} = ? WHERE episode_id = ?", (stored, damaged.episode_id))

    assert sorted(summaries(brief(memory))) == ["the parser is written by hand", "the queue lives in SQLite"]


@pytest.mark.parametrize("stored", ["not JSON", '{"a": 1}', "[1, null]"])
def test_malformed_facts_of_one_turn_do_not_cost_the_briefing(memory: Scene, stored: str) -> None:
    memory.keep("of this file", entities=("src/store.py",))
    with memory.store.transaction() as tx:
        session = sessions.ensure_session(
            tx, "s9", agent="claude-code", project_id=memory.project.id, is_global=False, cwd="/x", at_ms=1
        )
        transcript = ensure_transcript(tx, Path("/x/s9.jsonl"), session.id)
        write_turn(tx, Turn("k", "s9", Opening.PROMPT, started_at_ms=5), session, transcript)
        tx.run("UPDATE turn SET actions = ?", (stored,))

    assert summaries(brief(memory)) == ["of this file"]


def test_a_memory_about_a_file_that_is_being_changed_goes_up(memory: Scene) -> None:
    memory.keep("of another file", importance=Importance.HIGH, entities=("docs/other.md",))
    memory.keep("of this file", entities=("src/store.py",))
    with memory.store.transaction() as tx:
        session = sessions.ensure_session(
            tx, "s9", agent="claude-code", project_id=memory.project.id, is_global=False, cwd="/x", at_ms=1
        )
        transcript = ensure_transcript(tx, Path("/x/s9.jsonl"), session.id)
        edit = Action("t", "Edit", files=("/dev/lab/proj/src/store.py",), is_edit=True)
        write_turn(tx, Turn("k", "s9", Opening.PROMPT, actions=(edit,), started_at_ms=5), session, transcript)

    assert summaries(brief(memory))[0] == "of this file"


def test_what_a_better_memory_has_said_is_not_said_again(memory: Scene) -> None:
    memory.keep("The watcher holds watcher.lock by flock, never by a PID file", importance=Importance.HIGH)
    memory.keep("The watcher holds its watcher.lock by flock and never by any PID file")

    assert len(summaries(brief(memory))) == 1


@pytest.mark.parametrize(
    ("kind", "is_told"),
    [
        (Kind.PREFERENCE, True),
        (Kind.DECISION, True),
        (Kind.DEAD_END, True),
        (Kind.FACT, False),
        (Kind.FIX, False),
        (Kind.STATE, False),
    ],
)
def test_only_what_changes_the_next_step_is_told(memory: Scene, kind: Kind, is_told: bool) -> None:
    memory.keep("The parser of the config is written by hand.", kind=kind)
    assert bool(brief(memory)) is is_told


def test_what_the_user_saved_is_told_and_a_rule_is_a_rule(memory: Scene) -> None:
    for text in ("The staging host is called walrus.", "From now on write commit messages in English."):
        save_memory(memory.store, text, redact, actor=Actor.USER, project_id=memory.project.id)
    save_memory(memory.store, "The agent saved this.", redact, actor=Actor.AGENT, project_id=memory.project.id)

    lines = brief(memory)

    assert lines[lines.index("Saved by the user:") + 1].endswith("The staging host is called walrus.")
    assert lines[lines.index("Rules and preferences:") + 1].endswith("From now on write commit messages in English.")
    assert "The agent saved this." not in "\n".join(lines)


def test_a_full_memory_fills_two_hundred_tokens_and_no_more(memory: Scene) -> None:
    parts = [
        f"{first}{last}" for first in ("hull", "mast", "sail", "keel", "deck") for last in ("ring", "bolt", "nail")
    ]
    for number, part in enumerate(parts):
        kind = (Kind.PREFERENCE, Kind.DECISION, Kind.DEAD_END)[number % 3]
        memory.keep(f"The {part} comes from {part}shop and costs {part}coins.", kind=kind)

    text = build_briefing(memory.store, memory.settings, project_id=memory.project.id)

    assert 400 < len(text) <= 800
    assert "memory_search" not in text


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(max_size=3000), st.integers(0, 20), st.booleans()), max_size=6))
def test_whatever_is_kept_the_budget_holds(memory: Scene, kept: list[tuple[str, int, bool]]) -> None:
    for text, facts, is_high in kept:
        memory.keep(text, content=text * 3, facts=(text,) * facts, importance=Importance.HIGH if is_high else "normal")

    text = build_briefing(memory.store, memory.settings, project_id=memory.project.id)

    assert len(text) <= 0.9 * 4 * memory.settings.briefing_tokens + 40
    assert text.count("engram-memories>") in (0, 2)


def test_pinned_memories_stay_inside_the_budget(memory: Scene) -> None:
    for number in range(150):
        memory.keep(f"pinned {number} " + "word " * 40, is_pinned=True)

    text = build_briefing(memory.store, memory.settings, project_id=memory.project.id)

    assert "pinned 149" in text
    assert len(text) <= 800


def test_the_users_own_lines_of_the_note_are_there_and_graduated_ones_not(memory: Scene) -> None:
    memory.keep()
    memory.settings.places.memory_note.write_text(
        "# Notes\n\n- Answer in short sentences\n- Set keep_alive in step_one\n- Graduated line (ep_0123456789ab)\n"
    )

    lines = brief(memory)

    assert "- Answer in short sentences" in lines
    assert "- Set keep_alive in step_one" in lines
    assert not any("Graduated" in line for line in lines)


def test_the_last_lines_of_a_long_note_are_told(memory: Scene) -> None:
    lines = "".join(f"- Line {number} about the harbour and its boats\n" for number in range(1_000))
    memory.settings.places.memory_note.write_text(f"# Notes\n\n{lines}- The newest line is mine\n")

    assert brief(memory)[-2:] == ["- Line 999 about the harbour and its boats", "- The newest line is mine"]


def test_what_engram_writes_at_the_top_of_the_note_is_nobodys_line(memory: Scene) -> None:
    memory.settings.places.memory_note.write_text(add_lines("", "2026-02, proj", ["- Graduated (ep_0123456789ab)"]))

    assert brief(memory) == []

    with memory.settings.places.memory_note.open("a") as file:
        file.write("- The parser is mine\n")
    assert [line for line in brief(memory) if line.startswith("- ")] == ["- The parser is mine"]


def test_a_line_of_the_note_that_stands_under_another_project_is_not_told(memory: Scene) -> None:
    memory.keep()
    with memory.store.transaction() as tx:
        projects.ensure_project(tx, "/dev/lab/other", "other", "/dev/lab/other")
    memory.settings.places.memory_note.write_text(
        "# Notes\n\n- Answer in short sentences\n\n## 2026-02, other\n- The boiler code is 1871\n"
        "\n## 2026-02, proj\n- The parser is mine\n"
    )

    lines = brief(memory)

    assert "- Answer in short sentences" in lines
    assert "- The parser is mine" in lines
    assert "boiler" not in "".join(lines)


def test_capture_that_has_failed_for_an_hour_is_one_line_even_with_an_empty_memory(memory: Scene) -> None:
    note_failure(memory.store, "ingest", "disk full")
    assert brief(memory) == []
    memory.clock.advance(2 * 3600)

    (line,) = brief(memory)[1:]

    assert "nothing new for 2 h" in line
    assert f"`engram --home {memory.settings.home} doctor`" in line
    note_success(memory.store, "ingest")
    assert brief(memory) == []


@pytest.mark.parametrize(
    "rule",
    [
        "Never commit secrets.",
        "Do not commit lock files, ever.",
        "Never merge unless all tests pass.",
        "Always make sure that the build is green before pushing.",
    ],
)
def test_a_rule_may_name_what_a_report_of_the_moment_names(rule: str) -> None:
    kept = Memory("ep_0123456789ab", Kind.PREFERENCE, rule, rule, extractor="local-9", voice=Voice.USER)

    assert text_of(kept) == rule


@pytest.mark.parametrize(
    "fields", [{"suspect": "relayed"}, {"status": Status.ARCHIVED}, {"superseded_by": "ep_1"}, {"is_lowered": True}]
)
def test_what_is_doubtful_or_over_is_left_out(memory: Scene, fields: dict[str, Any]) -> None:
    memory.keep("doubtful", **fields)

    assert "doubtful" not in " ".join(brief(memory))


def test_a_root_folder_sees_global_memories_alone(memory: Scene) -> None:
    memory.keep("of the project", is_pinned=True)
    memory.keep("of all", scope=Scope.GLOBAL)

    assert summaries(brief(memory, project_id=None)) == ["of all"]


@pytest.mark.corpus
def test_on_real_sessions_the_budget_holds_for_every_project(memory: Scene, corpus: Path) -> None:
    paths: list[Path] = []
    for repository in corpus.iterdir():
        found = sorted(repository.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
        paths += found[len(found) // 2 :][:4]
    for path in paths:
        ingest_path(memory.store, path, settings=memory.settings, redact=redact, close=True)
    for session in sessions.list_sessions(memory.store):
        extract_session(
            memory.store, session.session_id, extractor=LocalExtractor(), embedder=None, settings=memory.settings
        )

    known = projects.list_projects(memory.store)
    for project in known:
        for number in range(12):
            rule = f"Always name part {number} of {project.name} by what it does, never by who wrote it or when."
            save_memory(memory.store, rule, redact, actor=Actor.USER, project_id=project.id)

    texts = [build_briefing(memory.store, memory.settings, project_id=project.id) for project in known]

    assert all("Always name part" in text for text in texts)
    assert max(len(text) for text in texts) <= 0.9 * 4 * memory.settings.briefing_tokens + 40


class TestDecisionsOfTheLastSessions:
    """A decision is told at the next few starts of its project; then it waits for a prompt about it."""

    def begin(self, memory: Scene, number: int = MAX_STARTS) -> None:
        """Let sessions take place after what was kept."""
        for place in range(number):
            memory.clock.advance(60)
            memory.type_prompt("Mend the crane", session=f"early-{place}")

    @pytest.mark.parametrize("kind", [Kind.DECISION, Kind.DEAD_END])
    def test_a_decision_is_told_at_the_next_starts(self, memory: Scene, kind: Kind) -> None:
        memory.keep("The walrus proxy keeps headers of 16 kB.", kind=kind, status=Status.ACTIVE)

        self.begin(memory, MAX_STARTS - 1)
        assert "walrus" in memory.start(session="soon")
        self.begin(memory, MAX_STARTS)
        assert memory.start(session="late") == ""
        assert "walrus" in brief(memory)[-1], "whoever asks is told"

    def test_the_session_that_begins_and_those_of_subagents_do_not_count(self, memory: Scene) -> None:
        memory.keep("The walrus proxy keeps headers of 16 kB.", status=Status.ACTIVE)
        self.begin(memory, MAX_STARTS - 1)
        memory.type_prompt("Mend the crane", session="early-0.agent")
        memory.type_prompt("Mend the crane", session="begun")

        assert "walrus" in memory.start(session="begun")

    @pytest.mark.parametrize(
        "fields",
        [
            {"kind": Kind.PREFERENCE},
            {"is_pinned": True},
            {"source": Source.MANUAL, "voice": Voice.USER},
            {"source": Source.MANUAL, "voice": Voice.USER, "kind": Kind.FACT},
        ],
    )
    def test_rules_and_what_a_person_pinned_or_saved_are_told_at_each(
        self, memory: Scene, fields: dict[str, Any]
    ) -> None:
        memory.keep("Always name the walrus proxy by its port.", **{"status": Status.ACTIVE} | fields)
        self.begin(memory, MAX_STARTS + 2)

        assert "walrus" in memory.start(session="late")


class TestRecoveredPrompts:
    """What prompts were recovered from history.jsonl is told once for a project."""

    LINE = "Recovered from history.jsonl: 2 prompts of the user's in 1 earlier session, without answers."

    @pytest.fixture(autouse=True)
    def recovered(self, memory: Scene) -> None:
        history = memory.settings.claude_folder / "history.jsonl"
        history.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            {"display": said, "pastedContents": {}, "timestamp": 1_767_225_600_000 + number, "project": "/dev/lab/proj"}
            | {"sessionId": "94384aab-e85f-45e3-8f92-75b1405840d8"}
            for number, said in enumerate(("why does the crane stop at noon", "which rope holds the boom"))
        ]
        history.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        ingest_all(memory.store, settings=memory.settings, redact=redact)

    def test_the_first_briefing_of_the_project_tells_it_and_no_later_one(self, memory: Scene) -> None:
        first = memory.start(session="s1")
        memory.service.write_down()

        assert self.LINE in first
        assert "Recovered" not in memory.start(session="s2")
        assert "Recovered" not in memory.start("clear", session="s1")

    def test_another_project_is_not_told(self, memory: Scene) -> None:
        assert "Recovered" not in memory.start(session="s1", cwd="/dev/lab/elsewhere")
        assert self.LINE in memory.start(session="s2")

    def test_a_preview_counts_as_nothing(self, memory: Scene) -> None:
        assert any(self.LINE in line for line in brief(memory))
        assert self.LINE in memory.start()

    def test_a_briefing_that_came_too_late_is_told_again(self, memory: Scene) -> None:
        assert self.LINE in memory.start(session="s1")
        memory.service.came_too_late({"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"})

        assert self.LINE in memory.start(session="s2")


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, False),
        ({"summary": "The walrus proxy keeps headers of 16 kB."}, True),
        ({"is_pinned": True}, True),
        ({"extractor": "a-model"}, True),
        ({"facts": ("exit code 1",)}, True),
        ({"facts": ("ab12cd3 refactor: remove the round trip of the phase",)}, False),
        ({"facts": ("ab12cd3 fix(cli)!: remove the round trip of the phase",)}, False),
    ],
)
def test_the_reason_that_a_commit_gives_is_not_a_current_decision(changes: dict[str, Any], is_told: bool) -> None:
    text = "Remove the round trip of the phase, since nothing reads it."
    facts = ("ab12cd3 Remove the round trip of the phase",)
    values: dict[str, Any] = {"summary": text, "extractor": "local-9", "facts": facts} | changes

    told = text_of(Memory("ep_0123456789ab", Kind.DECISION, content=text, **values))

    assert bool(told) is is_told


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("I want to have the telemetry enabled by default", False),
        ("put the script next to the other one", False),
        ("Never edit the generated files by hand.", True),
    ],
)
def test_what_was_said_of_a_refused_call_is_told_if_it_is_a_rule(said: str, is_told: bool) -> None:
    text = f"When the user refused a change of config.go, they said: “{said}”"

    told = text_of(Memory("ep_0123456789ab", Kind.DECISION, text, text, extractor="local-9", voice=Voice.CHOSEN))

    assert bool(told) is is_told


def test_the_longest_sentence_that_a_language_model_may_write_is_told_whole() -> None:
    text = f"The user decided that the {'very ' * 55}old importer of the harbour keeps its own queue for the tides."
    told = text_of(Memory("ep_0123456789ab", Kind.DECISION, text, text, extractor="openai:gpt", voice=Voice.USER))

    assert 300 < len(text) <= MAX_CANDIDATE_SUMMARY_CHARACTERS
    assert told == text
