"""Commands that read: each prints for scripts what DESIGN-stable keys promise, and something for people."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from planting import plant

from engram.cli.results import PARTS_IN_WORDS
from engram.cli.up_commands import SAMPLES
from engram.cli.workspace import Workspace, call_of
from engram.log import LOG_KINDS, LogKind, append_warning
from engram.models.engine.meta import put_meta
from engram.models.engine.migrations import MADE_AT
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.sessions import reading_progress, sessions
from engram.models.shown import injections, usage
from engram.models.shown.injections import Injection
from engram.models.work import task_runs, work
from engram.paths import Home
from engram.search.passages.features import FEATURE_GROUPS
from engram.search.ranking import SCORERS
from engram.system.clock import DAY_MS, day_of
from engram.transcripts.agents import Unreadable

Run = Callable[..., Result]
RunJson = Callable[..., Any]
EVIDENCE_KEYS = {"session", "uuid", "path", "part", "position", "line"}


def entry_at(path: str, line: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8").splitlines()[line - 1])
    return found


def test_ingest_reads_every_sample_session_and_nothing_twice(run_json: RunJson) -> None:
    first = run_json("up", "--once", "--no-memories")
    second = run_json("up", "--once", "--no-memories")

    assert first["files"] == 5
    assert first["new_turns"] == first["turns"] == sum(project["turns"] for project in first["projects"].values())
    assert set(first["projects"]) == {"harbor", "lantern"}
    assert set(first["projects"]["harbor"]) >= {"sessions", "turns"}
    assert second["new_turns"] == 0
    assert second["turns"] == first["turns"]
    assert {"files", "turns", "new_turns", "episodes", "bad_lines", "projects"} <= set(second)


def test_ingest_takes_a_file_a_folder_of_files_and_a_configuration_folder(run_json: RunJson) -> None:
    folder = SAMPLES / "projects" / "-home-dev-harbor"
    one = sorted(folder.glob("*.jsonl"))[0]

    assert run_json("up", "--once", "--no-memories", str(one))["files"] == 1
    assert run_json("up", "--once", "--no-memories", str(folder))["files"] == 3
    assert run_json("up", "--once", "--no-memories", str(SAMPLES))["files"] == 5


def test_ingest_of_a_path_that_is_not_there_fails_in_one_line(run: Run, tmp_path: Path) -> None:
    result = run("up", "--once", "--no-memories", str(tmp_path / "nothing"), code=1)

    assert result.stderr.startswith("Error: ")
    assert "does not exist" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_up_once_reads_extracts_embeds_and_stops(run_json: RunJson) -> None:
    report = run_json("up", "--once")

    assert report["files"] == 5
    assert report["episodes"] >= 4
    assert report["embedded"] > report["turns"]
    assert report["missing_vectors"] == report["failed"] == 0


def test_up_once_again_adds_nothing(run_json: RunJson) -> None:
    first = run_json("up", "--once")
    second = run_json("up", "--once")

    assert (second["new_turns"], second["embedded"]) == (0, 0)
    assert second["episodes"] == first["episodes"]


def test_a_list_that_a_choice_left_empty_does_not_say_that_there_is_nothing_yet(filled: Store, run: Run) -> None:
    with filled.transaction() as tx:
        projects.ensure_project(tx, "/work/empty", "empty", "/work/empty")

    assert "No memories from 2020-01-01." in run("timeline", "2020-01-01").stdout
    assert "No memories of empty from 2020-01-01." in run("timeline", "2020-01-01", "--project", "empty").stdout
    assert "No sessions of empty have been read." in run("sessions", "--project", "empty").stdout


def test_an_empty_memory_says_what_fills_it(run: Run) -> None:
    assert "There are no memories yet" in run("timeline", "yesterday").stdout
    assert "No sessions have been read yet" in run("sessions").stdout


def test_texts_that_went_are_not_counted_as_prepared(filled: Store, run_json: RunJson, home: Home) -> None:
    for note in home.daily_notes.glob("*.md"):
        note.unlink()

    assert run_json("up", "--once")["embedded"] >= 0


def test_up_takes_the_sample_sessions_where_there_are_no_transcripts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "empty"))

    result = run("up", "--once", "--json", "--samples-in", str(tmp_path / "samples"))

    assert json.loads(result.stdout)["files"] == 5
    assert "sample sessions" in result.stderr
    assert f"--home {tmp_path / 'samples'} recall" in result.stderr
    assert (tmp_path / "samples" / "memory.db").exists()
    assert not (tmp_path / "home" / "memory.db").exists()


@pytest.mark.parametrize(
    ("started_as", "home", "call"),
    [
        ("/usr/bin/engram", "", "engram"),
        (".venv/bin/engram", "", ".venv/bin/engram"),
        (".venv/bin/engram", ".engram-sample", ".venv/bin/engram --home .engram-sample"),
        (".venv/bin/engram", "my memory", ".venv/bin/engram --home 'my memory'"),
        ("/opt/main.py", "/elsewhere/memory", "engram --home /elsewhere/memory"),
    ],
)
def test_what_is_proposed_next_can_be_typed_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started_as: str, home: str, call: str
) -> None:
    monkeypatch.setattr("sys.argv", [started_as])
    monkeypatch.setattr("shutil.which", lambda name: started_as if started_as.startswith("/") else None)
    monkeypatch.chdir(tmp_path)

    assert call_of(Workspace({"home": home} if home else {}), "recall") == call


def test_recall_finds_the_memory_with_evidence_that_stands_in_the_named_line(filled: Store, run_json: RunJson) -> None:
    answer = run_json("recall", "why does vat_cents use integer arithmetic")

    best = next(hit for hit in answer["hits"] if hit["id"].startswith("ep_"))
    assert {"id", "kind", "text", "score", "parts", "project", "created_at", "evidence"} <= set(best)
    assert "vat_cents" in best["text"]
    assert best["evidence"]
    assert all(set(place) == EVIDENCE_KEYS for place in best["evidence"])
    assert all(entry_at(place["path"], place["line"])["uuid"] == place["uuid"] for place in best["evidence"])
    assert answer["by"] == "model"


def test_recall_marks_what_no_longer_stands(filled: Store, run: Run, run_json: RunJson) -> None:
    hits = run_json("recall", "why does vat_cents use integer arithmetic")["hits"]
    best = next(hit["id"] for hit in hits if hit["id"].startswith("ep_"))
    assert "   ! " not in run("recall", "why does vat_cents use integer arithmetic").stdout

    plant(
        filled,
        "UPDATE episode SET status = 'superseded', superseded_by = 'ep_0123456789ab' WHERE episode_id = ?",
        (best,),
    )
    assert "! replaced by ep_0123456789ab\n" in run("recall", "why does vat_cents use integer arithmetic", "-v").stdout

    plant(
        filled,
        "UPDATE episode SET status = 'active', superseded_by = '', stale_reason = 'vat.py is gone', is_lowered = 1 "
        "WHERE episode_id = ?",
        (best,),
    )
    shown = run("recall", "why does vat_cents use integer arithmetic", "-v").stdout
    assert "! may no longer hold: vat.py is gone, judged wrong\n" in shown


def test_recall_of_a_project_shows_no_other_project(filled: Store, run_json: RunJson) -> None:
    answer = run_json("recall", "tests", "--project", "lantern", "--limit", "20")

    assert {hit["project"] for hit in answer["hits"] if hit["kind"] != "note"} == {"lantern"}


def test_recall_without_a_model_says_that_it_searched_by_text_alone(
    filled: Store, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "nobody/no-such-model")

    answer = run_json("recall", "pnpm")

    assert answer["by"] == "text"
    assert "text search only" in answer["note"]
    assert "pnpm" in answer["hits"][0]["text"]


def test_recall_explains_every_score_to_a_person(filled: Store, run: Run) -> None:
    shown = run("recall", "pnpm", "--explain").stdout
    assert "its words +0." in shown
    assert "its words" not in run("recall", "pnpm", "-v").stdout
    assert ".jsonl:" in shown
    assert {*SCORERS, *FEATURE_GROUPS.values(), "turn", "source", "branch"} == set(PARTS_IN_WORDS)


def test_an_unknown_project_is_named_with_those_that_are_known(filled: Store, run: Run) -> None:
    result = run("recall", "tests", "--project", "castle", code=1)

    assert "harbor, lantern" in result.stderr


def test_recall_and_search_call_the_text_of_a_hit_and_everything_else_that_both_have_alike(
    filled: Store, run_json: RunJson
) -> None:
    memory, passage = run_json("recall", "pnpm")["hits"][0], run_json("search", "pnpm")["hits"][0]

    only_of_memories = {
        *("content", "scope", "pinned", "lowered", "superseded_by", "stale", "unmerged_branch", "told_by"),
        "suspect",
        *("stands_in", "contradicted_by", "quote"),
    }
    assert set(memory) - set(passage) == only_of_memories
    assert set(passage) - set(memory) == set()
    assert "pnpm" in memory["text"]
    assert "pnpm" in passage["text"]


def test_what_nothing_answers_is_said_first_where_no_passage_was_found_either(filled: Store, run: Run) -> None:
    run("save", "The mast is cedar.")
    run("up", "--once", "--no-memories")

    shown = run("recall", "xqzvbw", code=1).stdout

    assert "cedar" not in shown or shown.startswith("Nothing here answers that; closest:")


def test_an_answer_without_hits_says_where_and_what_is_not_read_yet(filled: Store, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "claude" / "projects" / "-new"
    folder.mkdir(parents=True)

    def ask(*more: str) -> str:
        command = ("--claude-folder", str(tmp_path / "claude"), "recall", "xqzvbw", *more)
        return " ".join(run(*command, code=1).stdout.split())

    assert ask() == "Nothing found. Try other words; `engram sessions` lists what was read."
    assert ask("--project", "harbor") == "Nothing found in harbor; without --project, everything is searched."
    (folder / "11111111-0000-4000-8000-000000000001.jsonl").write_text("{}\n")
    assert ask() == "Nothing found. 1 transcript is not read yet."


def test_an_answer_without_hits_names_the_time_that_was_asked_for(filled: Store, run: Run) -> None:
    now_ms = filled.now_ms()
    yesterday, earlier = day_of(now_ms - DAY_MS), day_of(now_ms - 13 * DAY_MS)

    def ask(question: str) -> str:
        return " ".join(run("recall", question, code=1).stdout.split())

    assert ask("what did we do yesterday").startswith(f"Nothing found from {yesterday}. Try other words")
    assert ask("what did we do 11 days ago").startswith(f"Nothing found from {earlier} to ")
    assert ask("xqzvbw").startswith("Nothing found. ")


def test_an_answer_from_other_projects_alone_says_so_in_a_known_project(
    filled: Store, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boats").mkdir()
    monkeypatch.chdir(tmp_path / "boats")
    saved = json.loads(run("save", "Integer arithmetic is for masts.", "--json").stdout)

    assert "other projects" not in run("recall", "integer arithmetic").stdout
    run("forget", saved["id"], "--yes")
    assert run("recall", "integer arithmetic").stdout.startswith("From other projects, not from boats:\n")
    assert "other projects" not in run("recall", "integer arithmetic", "--project", "harbor").stdout
    assert "other projects" not in run("recall", "vitest or jest").stdout  # a preference in all projects
    monkeypatch.chdir(tmp_path)
    assert "other projects" not in run("recall", "integer arithmetic").stdout


def test_an_answer_shows_the_sentences_that_answer_without_a_limit_too(filled: Store, run_json: RunJson) -> None:
    question = "why is the VAT too low"

    assert run_json("recall", question)["hits"][0] == run_json("recall", question, "--limit", "5")["hits"][0]


@pytest.mark.parametrize("question", ["cedar masts", '"mast is cedar"'])
def test_a_search_that_finds_nothing_says_that_a_memory_does(filled: Store, run: Run, question: str) -> None:
    run("save", "The mast is cedar.", "--project", "harbor")
    hint = f"A memory contains these words: engram recall {shlex.quote(question)}"

    assert hint in run("search", question, code=1).output
    assert hint not in run("search", question, "--project", "lantern", code=1).output
    assert "A memory" not in run("search", "integer arithmetic").output


def test_a_quotation_mark_that_is_not_closed_is_mentioned(filled: Store, run: Run) -> None:
    assert "a quotation mark is not closed" in run("search", '"integer arithmetic').stderr
    assert "a quotation mark" not in run("search", '"integer arithmetic"').stderr


def test_a_question_about_a_day_that_no_calendar_has_is_told_so(filled: Store, run: Run) -> None:
    assert "there is no day 2026-02-30; write one" in run("recall", "How is VAT rounded since 2026-02-30?").stderr
    assert "there is no day" not in run("recall", "How is VAT rounded since 2026-02-28?").stderr


@pytest.mark.parametrize("command", ["recall", "search"])
def test_a_question_without_an_answer_ends_with_1_as_it_does_with_every_command_that_asks(
    run: Run, run_json: Callable[..., Any], command: str
) -> None:
    assert run(command, "xqzvbw", code=1).stdout.startswith("Nothing found. ")
    assert run_json(command, "xqzvbw", code=1)["hits"] == []


def test_a_fix_is_found_by_the_line_of_the_error_that_its_memory_quotes(filled: Store, run: Run) -> None:
    for error in ("E       assert 237 == 238", "assert 237 == 238", "x.py:3\nE   assert 237 == 238\n"):
        assert "vat_cents" in run("fix", error, "--all").stdout

    assert run("fix", "E       assert 239 == 241", "--all", code=1)


def test_blame_finds_the_project_of_a_folder_that_is_gone(filled: Store, run: Run) -> None:
    assert "VAT is a cent too low" in run("blame", "/home/dev/harbor/harbor/vat.py").stdout


def test_blame_finds_the_project_of_a_folder_without_a_repository(run: Run, folder: Path) -> None:
    run("save", "We row on Tuesdays.")
    (folder / "oars").mkdir()

    for name in ("oars/left.py", "gone/left.py"):
        assert run("blame", name, code=1).stdout == f"Nothing is known about {name} in boats.\n"


def test_what_was_judged_wrong_or_replaced_and_taken_back_is_not_counted(filled: Store, run_json: RunJson) -> None:
    first, second = (memory["id"] for memory in run_json("timeline")["episodes"][:2])
    run_json("feedback", first, "wrong")
    run_json("feedback", first, "--off")
    run_json("feedback", first, "wrong")
    run_json("correct", second, "It is otherwise.", "--why", "measured")

    counts = usage.counts_since(filled, 0)

    assert (counts.wrong, counts.replaced) == (1, 1)
    status = run_json("status")
    assert (status["superseded"], status["archived"]) == (1, 0)


def test_search_prints_turns_word_for_word(filled: Store, run_json: RunJson) -> None:
    hits = run_json("search", "INSERT OR IGNORE", "--limit", "3")["hits"]

    assert len(hits) <= 3
    assert "INSERT OR IGNORE" in hits[0]["text"]
    assert (
        entry_at(hits[0]["evidence"][0]["path"], hits[0]["evidence"][0]["line"])["uuid"]
        == hits[0]["evidence"][0]["uuid"]
    )


def test_an_empty_question_is_refused(run: Run) -> None:
    assert "no words" in run("recall", "  ", code=2).stderr


def test_expand_shows_why_and_counts_as_a_use(filled: Store, run: Run, run_json: RunJson) -> None:
    (memory, *_) = memory_records.all_memories(filled)

    facts = run_json("expand", memory.episode_id)
    shown = run("expand", memory.episode_id, "--why").stdout

    assert facts["id"] == memory.episode_id
    assert facts["evidence"][0]["uuid"]
    assert facts["history"][0]["action"] == "extract"
    assert facts["evidence"][0]["uuid"] in shown
    again = memory_records.find_memory(filled, memory.episode_id)
    assert again is not None
    assert again.access_count == 2


def test_expand_of_an_unknown_id_says_where_ids_come_from(run: Run) -> None:
    assert "recall and timeline print the ids" in run("expand", "ep_000000000000", code=1).stderr


def test_timeline_is_newest_first_and_shows_a_day_or_what_is_up_to_a_memory(filled: Store, run_json: RunJson) -> None:
    every = run_json("timeline", "--limit", "100")["episodes"]
    day = every[-1]["created_at"][:10]
    early = run_json("timeline", day)["episodes"]

    assert [row["created_at"] for row in every] == sorted((row["created_at"] for row in every), reverse=True)
    assert early
    assert all(row["created_at"].startswith(day) for row in early)
    assert len(early) < len(every)
    assert len(run_json("timeline", every[3]["id"], "--limit", "100")["episodes"]) == len(every) - 3


def test_timeline_refuses_what_is_neither_id_nor_time(run: Run) -> None:
    assert "neither" in run("timeline", "someday", code=1).stderr


def test_status_has_the_keys_that_scripts_rely_on(filled: Store, run: Run, run_json: RunJson) -> None:
    status = run_json("status")

    assert {"alive", "pid", "rss_mb"} <= set(status["worker"])
    assert {"alive", "pid", "rss_mb"} <= set(status["watcher"])
    assert status["worker"]["alive"] is False
    assert status["turns"] == usage.count_totals(filled).turns
    assert status["stages"]["ingest"]["done"] == 5
    assert set(status["stages"]["extract"]) == {"seen", "done", "lag_seconds", "last_success", "last_error"}
    assert status["unread"] == {"files": 0, "bytes": 0}
    assert "not running" in run("status").stdout


def test_status_shows_a_stage_only_where_it_failed_unless_it_is_asked_for_all(filled: Store, run: Run) -> None:
    quiet, every = run("status").stdout, run("status", "-v").stdout
    task_runs.note_failure(filled, "extract", "no answer")
    failed = run("status").stdout

    assert "last success" not in quiet
    assert {"making", "reading"} <= {line.split()[0] for line in every.splitlines() if line}
    assert [line.split()[0] for line in failed.splitlines()[-2:]] == ["stage", "making"]
    assert failed.endswith("no answer\n")


def test_status_tells_how_far_reading_is_behind(
    run_json: RunJson, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    claude = tmp_path / "old-claude"
    shutil.copytree(SAMPLES, claude)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude))
    with open_store(home.memory_db) as store, store.transaction() as tx:
        put_meta(tx, MADE_AT, str(store.now_ms() - 3_600_000))
        for path in claude.rglob("*.jsonl"):
            os.utime(path, (store.now_ms() / 1000 - 7200,) * 2)

    status = run_json("status")

    assert status["unread"]["files"] == 5
    assert status["stages"]["ingest"]["lag_seconds"] > 3000
    assert status["stages"]["ingest"]["seen"] == 5


def test_a_worker_that_holds_its_lock_is_alive(home: Home, run_json: RunJson) -> None:
    from engram.system.process_lock import ProcessLock

    home.prepare()
    lock = ProcessLock(home.worker_lock)

    status = run_json("status")["worker"]

    lock.release()
    assert status["alive"] is True
    assert status["pid"] > 0
    assert status["rss_mb"] > 1


def test_sessions_lists_all_and_tells_everything_of_one(filled: Store, run: Run, run_json: RunJson) -> None:
    every = run_json("sessions")["sessions"]
    chosen = next(row for row in every if row["id"].startswith("5d4da058"))
    bite = memory_records.memories_of_session(filled, chosen["id"])[0]
    with filled.transaction() as tx:
        injections.add_injections(tx, [Injection(chosen["id"], "p", "prompt", bite.episode_id, 0.7, 31, "shown")])

    facts = run_json("sessions", "5d4da058")
    shown = run("sessions", "5d4da058").stdout

    assert len(every) == 5
    assert facts["files"][0]["offset"] == facts["files"][0]["size"] > 0
    assert len(facts["turn_list"]) == facts["turns"] == 2
    assert facts["episode_list"][0]["id"].startswith("ep_")
    assert facts["injections"][0]["tokens"] == facts["tokens"] == 31
    assert bite.episode_id in shown


def test_a_session_is_shown_with_what_resumes_it_and_what_it_holds(filled: Store, run: Run, run_json: RunJson) -> None:
    session = next(row for row in sessions.list_sessions(filled) if row.session_id.startswith("5d4da058"))
    told = run_json("sessions", "5d4d")

    facts = dict(re.findall(r"^(\w[\w ]*?)  +(.*)$", run("sessions", "5d4d").stdout, re.M))

    assert told["resume"] == f"claude --resume {session.session_id}"
    assert facts["resume"] == f"mkdir -p /home/dev/harbor && cd /home/dev/harbor && {told['resume']}"
    assert (facts["prompts"], facts["memories"]) == ("2", str(len(told["episode_list"])))
    assert told["episode_list"][0]["id"] in facts
    last = "SELECT MAX(id) FROM turn WHERE session_ref = ?"
    plant(filled, f"UPDATE turn SET opening = 'continuation' WHERE id = ({last})", (session.id,))
    shown = run("sessions", "5d4d").stdout
    assert "prompts     1\n" in shown
    assert len(re.findall(r"^2026-\d\d-\d\d \d\d:\d\d  \w", shown, re.M)) == 1
    run("forget", told["episode_list"][0]["id"], "--yes")
    assert "No memory was made from it." in run("sessions", "5d4d").stdout


def test_a_session_is_shown_without_the_offsets_that_only_a_program_needs(filled: Store, run: Run) -> None:
    session = next(row for row in sessions.list_sessions(filled) if row.session_id.startswith("5d4da058"))

    whole = run("sessions", "5d4da058").stdout
    plant(filled, "UPDATE transcript SET size = bytes_read * 2 WHERE session_ref = ?", (session.id,))
    plant(filled, "UPDATE turn SET extracted_revision = revision - 1 WHERE session_ref = ?", (session.id,))
    half = run("sessions", "5d4da058").stdout

    assert not any(word in whole for word in ("bytes", "offset", "Z  ", "waiting"))
    assert re.search(r"^ +all +\d+  /.*jsonl$", whole, re.M)
    assert re.search(r"^50 % +\d+  /", half, re.M)
    assert "Memories from 2 turns will be made later." in half
    assert "Memories of" not in whole


def test_sessions_tells_what_a_model_wrote_of_one(filled: Store, run: Run, run_json: RunJson) -> None:
    row = next(session for session in sessions.list_sessions(filled) if session.session_id.startswith("5d4da058"))
    with filled.transaction() as tx:
        sessions.set_rolling_summary(tx, row.id, "The importer was slow.\nNow it is not.")

    assert run_json("sessions", "5d4da058")["summary"] == "The importer was slow.\nNow it is not."
    assert "The importer was slow. Now it is not." in run("sessions", "5d4da058").stdout


def test_sessions_of_a_project_only(filled: Store, run_json: RunJson) -> None:
    assert {session["project"] for session in run_json("sessions", "--project", "harbor")["sessions"]} == {"harbor"}


def test_an_unknown_session_fails_in_one_line(run: Run) -> None:
    assert "engram sessions" in run("sessions", "nope", code=1).stderr


def test_config_names_the_source_of_every_setting(
    run: Run, run_json: RunJson, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    home.config_file.write_text("bites = 2\nrecall_limit = 9\n")
    monkeypatch.setenv("ENGRAM_RECALL_LIMIT", "8")

    found = run_json("--set", "stale_seconds=7", "config")["settings"]

    assert found["bites"] == {"value": 2, "source": "config.toml"}
    assert found["recall_limit"] == {"value": 8, "source": "environment"}
    assert found["stale_seconds"] == {"value": 7, "source": "flag"}
    assert found["sweep_seconds"] == {"value": 60, "source": "default"}
    assert run("config", "recall-limit").stdout == "8\n"


def test_an_unknown_setting_fails_in_one_line(run: Run) -> None:
    assert "no such setting" in run("--set", "colour=red", "config", code=1).stderr
    assert "no setting" in run("config", "colour", code=1).stderr


def test_a_setting_that_cannot_be_used_fails_in_one_line_with_its_value(run: Run) -> None:
    assert "'many'" in run("--set", "bites=many", "status", code=1).stderr


def test_tasks_shows_due_failed_and_given_up_work(run: Run, run_json: RunJson, filled: Store) -> None:
    with filled.transaction() as tx:
        for key in ("broken", "shaky", "later"):
            work.make_due(tx, "extract", key, filled.now_ms() + (10**9 if key == "later" else 0))
    for key, most in (("broken", 1), ("shaky", 0)):
        task = work.find_work(filled, "extract", key)
        assert task is not None
        work.fail(filled, task, "no answer", max_attempts=most)

    task = {tuple(task["args"]): task for task in run_json("tasks", "list")["tasks"] if task["state"] != "queued"}

    assert set(task[("broken",)]) >= {"id", "name", "args", "state", "attempts", "error"}
    assert task[("broken",)]["state"] == "dead"
    assert task[("shaky",)]["state"] == "failed"
    assert task[("later",)]["state"] == "scheduled"
    assert [task["args"] for task in run_json("tasks", "dead")["tasks"]] == [["broken"]]
    shown = run_json("tasks", "show", task[("shaky",)]["id"])
    assert [task["error"] for task in shown["tasks"]] == ["no answer"]
    assert (shown["runs"], shown["failure"]) == ([], None)
    assert "no answer" in run("tasks").stdout


def test_tasks_shows_what_the_queue_holds(run_json: RunJson, home: Home) -> None:
    from engram.tasks.queue import huey
    from engram.tasks.session_tasks import flush

    home.prepare()
    huey.bind(home)
    flush("11111111-1111-1111-1111-111111111111")
    huey.storage.close()

    (queued,) = run_json("tasks", "list")["tasks"]

    assert queued["name"] == "flush"
    assert queued["args"] == ["11111111-1111-1111-1111-111111111111"]
    assert queued["state"] == "queued"


def test_logs_are_merged_in_the_order_of_time(run: Run, run_json: RunJson, home: Home) -> None:
    home.prepare()
    (home.logs / "worker.log").write_text("2026-11-05 09:00:02,000 INFO 1 a second\n  traceback\n")
    (home.logs / "watcher.log").write_text(
        "2026-11-05 09:00:01,000 WARNING 1 a first\n2026-11-05 09:00:03,000 INFO 1 a \x1b[31mthird\n"
    )

    record = run_json("logs")["records"]

    assert [one["process"] for one in record] == ["watcher", "worker", "watcher"]
    assert record[1]["text"].endswith("traceback")
    assert [record["process"] for record in run_json("logs", "--errors")["records"]] == ["watcher"]
    assert "\x1b" not in run("logs").stdout


@pytest.mark.parametrize("kind", LOG_KINDS)
def test_every_process_that_keeps_a_log_has_it_shown(run_json: RunJson, home: Home, kind: LogKind) -> None:
    append_warning(home.prepare().logs, kind, "came to a halt")

    for shown in (run_json("logs"), run_json("logs", kind)):
        assert [record["process"] for record in shown["records"]] == [kind]


def test_cost_is_nothing_without_a_language_model(run: Run, run_json: RunJson) -> None:
    said = run("cost", "--since", "7d").stdout

    assert run_json("cost")["dollars"] == 0
    assert said.startswith("Nothing was spent in the last 7 days.\nRules on this machine write the memories")
    chosen = run("--set", "extractor=claude", "--set", "claude_command=no-such-claude", "cost").stdout
    assert "most $1.00 in 24 hours" in chosen
    assert "nothing is spent now: extractor = claude, but 'no-such-claude' can't be found" in " ".join(chosen.split())
    assert "No memories are made" in run("--set", "extractor=off", "cost").stdout


def test_cost_adds_up_what_was_spent(run: Run, run_json: RunJson, filled: Store) -> None:
    def spend(hours_ago: int, task: str) -> None:
        plant(
            filled,
            "INSERT INTO spend (at_ms, task, model, project_id, state, input_tokens, output_tokens, dollars) "
            "VALUES (?, ?, 'small', 1, 'spent', 12000, 100, 0.25)",
            (filled.now_ms() - hours_ago * 3_600_000, task),
        )

    spend(1, "extract")
    spend(30, "reconcile")

    cost = run_json("cost")
    said = run("--set", "extractor=claude", "cost").stdout

    assert (cost["dollars"], cost["day_dollars"]) == (0.5, 0.25)
    assert cost["rows"][0]["calls"] == 1
    assert "small" in said
    assert "12,000" in said
    assert "$0.5000 at list price in the last 30 days, $0.2500 of it in the last 24 hours." in said
    assert "reconcile: comparing two that may contradict" in said
    assert "With a subscription nothing is billed" in " ".join(said.split())
    used = run_json("report")
    assert (used["model_calls"], used["dollars"]) == (2, 0.5)
    assert "spent on the model $0.5000 in 2 calls" in " ".join(run("report").stdout.split())
    # What was spent in a day is no part of what was spent in two hours.
    spend(10, "extract")
    assert "$0.2500 at list price in the last 2 h, $0.5000 in the last 24 hours." in run("cost", "--since", "2h").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    assert "_ENGRAM_COMPLETE" in run("completion", shell).stdout


def test_a_file_that_cannot_be_read_is_counted_in_status_without_unreadable_lines(run: Run, filled: Store) -> None:
    assert "unreadable" not in run("status").stdout
    with filled.transaction() as tx:
        tx.run("UPDATE transcript SET last_error = 'permission denied' WHERE id = (SELECT min(id) FROM transcript)")

    assert re.search(r"unreadable +0 lines, 1 file\n", run("status").stdout)


def test_unreadable_lines_are_counted_in_status(run_json: RunJson, filled: Store) -> None:
    transcript_id = int(filled.value("SELECT min(id) FROM transcript"))
    with filled.transaction() as tx:
        reading_progress.add_unreadable(tx, transcript_id, 0, [Unreadable(10, 5, "not JSON")])

    assert run_json("status")["bad_lines"] == 1
    assert reading_progress.read_faults(filled)[0].reason == "not JSON"


@pytest.mark.parametrize(
    ("silent_seconds", "state"), [(1, "active"), (3_600, "idle"), (8 * 86_400, "over")], ids=["active", "idle", "over"]
)
def test_a_session_is_active_then_idle_then_over(
    filled: Store, run: Run, run_json: RunJson, silent_seconds: int, state: str
) -> None:
    (session_id, *_) = [session["id"] for session in run_json("sessions")["sessions"]]
    with filled.transaction() as tx:
        last_at_ms = filled.now_ms() - 1_000 * silent_seconds
        tx.run("UPDATE session SET last_at_ms = ? WHERE session_id = ?", (last_at_ms, session_id))

    assert run_json("sessions", session_id)["state"] == state
    assert state in run("sessions", session_id).stdout


@pytest.mark.parametrize("command", ["recall", "search"])
def test_an_answer_says_that_texts_still_wait_for_the_search_by_meaning(
    filled: Store, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert "not prepared" not in run(command, "VAT").stderr
    with contextlib.closing(sqlite3.connect(filled.path)) as database, database:
        database.execute("DELETE FROM vector")
    monkeypatch.setattr("engram.cli.recall_commands.MIN_WAITING_TEXTS", 10)

    told = run(command, "VAT").stderr

    assert "texts are not prepared for the search by meaning yet" in told
