"""What a person sees: tables, sentences, the live picture; the same facts as in JSON."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rollouts import SESSION, Rollout
from transcript_lines import SAID_AT

from engram.cli import up_commands
from engram.cli.main import engram
from engram.cli.output import one_line, safe, when
from engram.cli.up_commands import SAMPLES, draw, line
from engram.cli.up_once import find_own_question
from engram.cli.workspace import Workspace
from engram.errors import AlreadyRunning, EngramError
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory
from engram.models.sessions import reading_progress
from engram.models.shown import usage
from engram.models.shown.usage import LatestPrompt
from engram.models.work import task_runs, work
from engram.paths import Home, absolute_path
from engram.reports.health import home_bytes, take_health
from engram.search.hits import Hit, PublicHit
from engram.settings import Settings, load
from engram.setup.services.supervisor import Child, Supervisor
from engram.transcripts.agents import Unreadable
from engram.trust.display import span
from engram.worker.recall_client import AnsweredBy, RecallRequest, RecallResponse

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_once_tells_what_was_done(run: Run) -> None:
    shown = run("up", "--once").stdout

    assert "Read       5 files: 13 new turns; 5 sessions with 13 turns in all" in shown
    assert "memories" in shown
    assert "engram recall" in shown


def test_once_says_why_nothing_was_prepared(run: Run) -> None:
    shown = run("--set", "embedding_model=/no/such/model", "up", "--once").stdout

    assert "Problem    search by meaning: " in shown
    assert "/no/such/model" in shown


def test_ingest_tells_what_was_read_and_passed_over(run: Run, tmp_path: Path) -> None:
    assert "Read 5 files: 13 new turns, 13 in all." in run("up", "--once", "--no-memories").stdout
    run("pause")

    assert "5 files skipped: paused" in run("up", "--once", "--no-memories").stdout


def test_ingest_without_transcripts_says_where_it_looked(run: Run, tmp_path: Path) -> None:
    shown = run("--claude-folder", str(tmp_path / "none"), "up", "--once", "--no-memories").stdout

    assert str(tmp_path / "none" / "projects") in shown


def test_status_names_a_folder_that_is_not_there_beside_one_that_is(run: Run, filled: Store, tmp_path: Path) -> None:
    (tmp_path / "codex" / "sessions").mkdir(parents=True)
    flags = ("--claude-folder", str(tmp_path / "none"), "--set", f"codex_folder={tmp_path / 'codex'}")

    shown = " ".join(run(*flags, "status").stdout.split())

    assert f"{tmp_path / 'codex' / 'sessions'} (0 files); {tmp_path / 'none'}/projects does not exist" in shown


def test_lines_that_cannot_be_read_are_mentioned(run: Run, filled: Store) -> None:
    with filled.transaction() as tx:
        reading_progress.add_unreadable(
            tx, int(filled.value("SELECT min(id) FROM transcript")), 0, [Unreadable(1, 2, "x")]
        )

    assert "1 unreadable line. `engram doctor` lists them." in run("up", "--once", "--no-memories").stdout
    assert "1 unreadable line. Run `engram doctor`" in run("up", "--once").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("sessions",),
        ("config",),
        ("timeline",),
        ("tasks", "list", "--all"),
        ("tasks", "dead"),
        ("consolidate", "--list"),
        ("consolidate", "--dry-run"),
        ("pause", "--list"),
    ],
)
def test_a_person_is_shown_something(filled: Store, run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).stdout.strip()


def test_each_change_is_confirmed_in_a_sentence(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    made = run_json("save", "Ropes are made of hemp.")["id"]

    assert f"Changed {made}: Ropes are made of hemp." in run("edit", made, "--importance", "high").stdout
    assert f"Pinned {made}." in run("pin", made).stdout
    judged = run("feedback", made, "wrong").stdout
    assert (
        f"{made} is judged wrong. `engram feedback {made} --off` reverts this. It is no longer shown to Claude.\n"
        in judged
    )
    assert run("undo", made).stdout.startswith("Undid: “judged wrong”, 20")
    assert "judged wrong" in run("expand", made, "--why").stdout
    hasty = run_json("save", "Anchors are made of tin.")["id"]
    assert "It is now not shown to Claude: " in run("undo", hasty).stdout
    assert "It is now not shown to Claude" not in run("undo", hasty).stdout
    assert "Saved as ep_" in run("save", "Sails are made of linen.", "--project", "boats").stdout
    assert "Wrote" in run("export", "--output", str(folder / "all.jsonl")).stderr
    done = re.search(r"Done. To undo it, run: engram consolidate --undo (\d+)", run("consolidate").stdout)
    assert done
    assert "was undone" in run("consolidate", "--undo", done[1]).stdout
    assert "worker starts no new work" in run("tasks", "pause", "--for", "2h").stdout
    assert "Work continues" in run("tasks", "resume").stdout
    assert "was not paused" in run("tasks", "resume").stdout


def test_a_history_and_an_undo_are_told_in_words_however_many_steps_there_are(
    run: Run, run_json: RunJson, folder: Path
) -> None:
    first = run_json("save", "Ropes are made of hemp.")["id"]
    assert "saved · by user\n" in run("expand", first, "--why").stdout
    second = run_json("save", "Ropes are made of nylon.", "--supersedes", first)["id"]

    replaced = "replaced · by user · replaced by hand · changed: status, valid until, what replaced it\n"
    assert replaced in run("expand", first, "--why").stdout
    undone = run("undo", second).stdout.splitlines()
    assert f"  {first}: “replaced” undone" in undone
    assert f"  {second}: “saved” undone" in undone
    assert "undone · by user · “saved”, replaced by hand · changed: status\n" in run("expand", second, "--why").stdout
    assert f"  {first}: the undo was undone" in run("undo", second).stdout.splitlines()
    told = "the undo was undone · by user · “saved”, replaced by hand"
    assert told in run("expand", second, "--why").stdout


def test_a_step_of_a_history_says_things_once(run: Run, run_json: RunJson) -> None:
    made = run_json("save", "Ropes are made of hemp.")["id"]
    run("pin", made)
    run("feedback", made, "wrong")
    run("feedback", made, "--off")
    run("edit", made, "--summary", "Ropes are made of nylon.")

    told = run("expand", made, "--why").stdout
    lines = [line.partition("  ")[2] for line in told.splitlines() if " · by user" in line]
    assert lines == [
        "saved · by user",
        "pinned · by user",
        "judged wrong · by user",
        "judgement withdrawn · by user · judged wrong",
        "edited · by user · changed: what Claude is shown, full text",
    ]


def test_the_path_of_a_transcript_is_a_line_that_can_be_copied(
    filled: Store, run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = run_json("sessions")["sessions"][0]["id"]
    (file,) = run_json("sessions", session)["files"]
    monkeypatch.setattr("engram.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((60, 24)))

    lines = run("sessions", session).stdout.splitlines()

    assert lines[-2] == "read  lines  transcript"
    assert lines[-1].split() == ["all", str(file["lines"]), file["path"]]


def test_work_is_steered_in_sentences(filled: Store, run: Run) -> None:
    with filled.transaction() as tx:
        work.make_due(tx, "extract", "some-session", 0)
        work.make_due(tx, "extract", "other-session", 0)
    task, other = (work.find_work(filled, "extract", f"{which}-session") for which in ("some", "other"))
    assert task is not None
    assert other is not None

    assert "extract" in run("tasks", "show", str(task.id)).stdout
    assert "1 piece of work: due now." in run("tasks", "retry", str(task.id), str(task.id)).stdout
    assert "No work was given up." in run("tasks", "retry", "--dead").stdout
    assert "finished" not in run("tasks", "retry", str(task.id)).stdout
    assert "1 piece of work: cancelled." in run("tasks", "cancel", str(task.id)).stdout
    finished = run("tasks", "retry", str(task.id)).stdout
    assert "due now. It was already finished, and will be done again." in finished
    assert "1 piece of work: cancelled." in run("tasks", "cancel", str(task.id)).stdout
    assert "1 of them was already finished" in run("tasks", "retry", str(task.id), str(other.id)).stdout


def test_a_report_without_sessions_looks_further_back_only_if_there_are_any(
    filled: Store, run: Run, tmp_path: Path
) -> None:
    assert "engram report --days 365" in run("report", "--days", "1").stdout
    assert "For earlier ones" not in run("report", "--days", "3650").stdout
    run("--home", str(tmp_path / "new"), "save", "--global", "The mast is cedar.")
    assert "For earlier ones" not in run("--home", str(tmp_path / "new"), "report").stdout


def test_a_turn_names_its_speaker_once_until_another_speaks(filled: Store, run: Run, run_json: RunJson) -> None:
    (quoted,) = {hit["id"] for hit in run_json("search", '"goes to the even neighbour, so exact"')["hits"]}

    speakers = [line for line in run("expand", quoted).stdout.splitlines() if line in ("you:", "Claude:")]

    assert speakers == ["you:", "Claude:"]


@pytest.mark.parametrize(("agent", "named"), [("codex", "Codex"), ("gemini", "Gemini CLI")])
def test_an_answer_is_told_as_that_of_the_assistant_who_gave_it(
    agent: str, named: str, run: Run, run_json: RunJson
) -> None:
    settings = load().settings
    if agent == "codex":
        rollout = Rollout(settings.codex_folder).head()
        rollout.user("Why does the winch jam?")
        rollout.says("The drum is frozen.")
    else:
        chats = settings.gemini_folder / "tmp" / "harbour" / "chats"
        chats.mkdir(parents=True)
        said = [("user", "Why does the winch jam?"), ("gemini", "The drum is frozen.")]
        lines: list[dict[str, Any]] = [{"sessionId": SESSION, "startTime": SAID_AT}]
        lines += [{"id": kind, "type": kind, "timestamp": SAID_AT, "content": text} for kind, text in said]
        (chats / "session-1.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    run("up", "--once")

    (answer,) = [hit for hit in run_json("search", "frozen drum")["hits"] if hit["role"] == "assistant"]
    shown = run("search", "frozen drum").stdout + run("search", "winch frozen drum").stdout

    assert answer["assistant"] == named
    assert f" · {named} [q_" in shown or f"\n   {named}: The drum is frozen." in shown
    assert f"\n{named}:\n" in run("expand", answer["id"]).stdout
    assert "Claude: The drum" not in shown
    session = run("sessions", answer["evidence"][0]["session"]).stdout
    assert f"{named} was shown nothing in it." in session


def test_a_folder_is_the_same_however_it_is_typed(
    filled: Store, run_json: RunJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    monkeypatch.chdir(tmp_path / "deep")

    stage = run_json("--claude-folder", f"{SAMPLES}/projects/..", "status")["stages"]["ingest"]

    assert (stage["seen"], stage["done"], stage["lag_seconds"]) == (5, 5, 0.0)
    assert absolute_path("../x") == absolute_path("er/../../x") == tmp_path / "x"
    assert absolute_path(tmp_path / "link" / ".." / "x") == tmp_path / "link" / ".." / "x"


def test_every_figure_of_what_was_kept_is_the_same(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    run("save", "The mast is cedar.")
    old = run_json("save", "--global", "Ropes are made of hemp.")["id"]
    run("undo", run_json("correct", old, "Ropes are made of nylon.", "--why", "newer")["id"])

    status, report, listed = run_json("status"), run_json("report", "--days", "3650"), run_json("projects")

    kept, projects = status["episodes"], listed["projects"]
    assert report["memories"] == kept == 7
    assert sum(project["memories"] for project in projects) + listed["memories_without_project"] == kept
    assert "5 sessions in 2 projects" in run("status").stdout
    assert sum(project["sessions"] > 0 for project in projects) == 2 == len(projects) - 1
    assert "1 more memory belongs to no project." in run("projects").stdout


@pytest.mark.parametrize(
    ("summary", "content", "left"),
    [
        (
            "The mast is cedar.",
            "The mast\nis cedar. Pine warps in\nthe sun, so it was\nleft out.",
            ["Pine warps in the sun, so it was left out."],
        ),
        ("Pine warps in the sun.", "The mast is cedar. Pine warps\nin the sun.", ["The mast is cedar."]),
        ("The keel is oak.", "The mast\nis cedar.\n- one\n- two", ["The mast", "is cedar.", "- one", "- two"]),
        ("Oak.", "```\nmast = 1\nkeel = 2\n```\nOak.", ["    mast = 1", "    keel = 2"]),
    ],
    ids=["wrapped", "at its end", "not said", "code"],
)
def test_expand_repeats_no_sentence_of_the_summary_and_cuts_none(
    run: Run, run_json: RunJson, summary: str, content: str, left: list[str]
) -> None:
    made = run_json("save", "--global", content, "--summary", summary)["id"]

    told = run("expand", made).stdout.partition(f"  {summary}\n\n")[2].partition(f"\n\n  {made}")[0]

    assert told.splitlines() == [f"  {line}" for line in left]


def test_expand_shows_related_memories_and_marks(filled: Store, run: Run, run_json: RunJson) -> None:
    memory = memory_records.all_memories(filled)[0]
    run("pin", memory.episode_id)

    assert "· pinned" in run("expand", memory.episode_id).stdout


def test_a_memory_saved_in_a_root_folder_needs_a_project(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_PROJECT_ROOTS", str(folder))

    assert "--global" in run("save", "Anything.", code=1).stderr


def test_a_project_may_be_named_by_a_folder_in_it(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    run("save", "Ropes are made of hemp.")
    (folder / "deep").mkdir()

    shown = run_json("timeline", "--project", ".")["episodes"]
    assert [hit["summary"] for hit in shown if hit["scope"] == "project"] == ["Ropes are made of hemp."]
    assert "Known projects" in run("timeline", "--project", str(folder.parent), code=1).stderr


def picture(health: Any, children: list[Child]) -> str:
    screen = Console(file=io.StringIO(), width=120)
    screen.print(draw(health, children, "/home/dev/.claude-memory"))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_picture_shows_sessions_turns_memories_queue_and_lag(filled: Store, run: Run) -> None:
    task_runs.note_failure(filled, "extract", "no answer from \x1b[2Jthe model")
    health = take_health(filled, load().settings)

    shown = picture(health, [Child("work", [], ended="another one runs")])

    assert "5 in 2 projects" in shown
    assert "13" in shown
    assert f"{usage.count_totals(filled).memories}, shown to Claude 0 times" in shown
    assert "worker: another one runs" in shown
    assert "making memories: no answer from the model" in shown
    assert line(health).startswith("5 sessions, 13 turns, ")


def test_the_picture_is_drawn_until_it_is_stopped(
    filled: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class OneLook(Supervisor):
        looks = 0

        def look(self) -> bool:
            self.looks += 1
            return self.looks < 3

    monkeypatch.setattr(up_commands, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(up_commands, "_LINE_SECONDS", 0.0)

    up_commands._show(Workspace(), OneLook([Child("work", [])]), threading.Event())
    as_lines = capsys.readouterr().out
    monkeypatch.setattr(up_commands, "console", lambda: Console(force_terminal=True, width=100))
    up_commands._show(Workspace(), OneLook([Child("work", [])]), threading.Event())
    as_picture = capsys.readouterr().out

    assert "5 sessions, 13 turns" in as_lines
    assert "memory in" in as_picture


def test_a_memory_that_cannot_be_opened_is_told_and_looked_at_again(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class OneLook(Supervisor):
        looks = 0

        def look(self) -> bool:
            self.looks += 1
            return self.looks < 3

    monkeypatch.setattr(up_commands, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(up_commands, "_LINE_SECONDS", 0.0)
    home.prepare()
    home.memory_db.write_bytes(b"no database at all, but long enough to be taken for a damaged one" * 100)

    up_commands._show(Workspace(), OneLook([Child("work", [])]), threading.Event())
    monkeypatch.setattr(up_commands, "console", lambda: Console(force_terminal=True, width=400))
    up_commands._show(Workspace(), OneLook([Child("work", [])]), threading.Event())

    assert capsys.readouterr().out.count("is damaged") >= 2


def test_a_child_that_cannot_run_ends_up_with_its_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Child):
        def start(self) -> None:
            self.ended, self.has_failed = "Error: the disk is gone", True

    monkeypatch.setattr(up_commands, "Child", Broken)

    assert "the watcher can't run: the disk is gone" in run("up", code=1).stderr


def test_a_second_watcher_or_worker_ends_at_once_without_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def running(_: object, **__: object) -> int:
        raise AlreadyRunning

    monkeypatch.setattr("engram.watcher.watch.run_watcher", running)
    monkeypatch.setattr("engram.worker.lifecycle.run_worker", lambda _, **__: 75)

    assert "already running" in run("service", "run", "watcher").stderr
    run("service", "run", "worker", code=75)


def test_an_expected_fault_of_a_service_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, **__: object) -> int:
        raise EngramError("the folder is gone")

    monkeypatch.setattr("engram.worker.lifecycle.run_worker", broken)

    assert run("service", "run", "worker", code=1).stderr == "Error: the folder is gone\n"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (8.2, "8 s"), (119, "119 s"), (180, "3 min"), (7200, "2 h"), (432_000, "5 days")],
)
def test_lengths_of_time_are_short(seconds: float | None, shown: str) -> None:
    assert span(seconds) == shown


def test_times_and_lines_are_short() -> None:
    assert when(None) == "–"
    assert len(when(1_767_225_600_000)) == 16
    assert one_line("a\n b  c " + "x" * 200, 10) == "a b c xxx…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb\x1b[0m", "ab"),
        ("a\x1b]0;title\x07b", "ab"),
        ("tab\there", "tab    here"),
        ("two\nlines", "two\nlines"),
        ("\u202eevil\u2066", "evil"),
        ("zero\u200bwidth\ud800", "zerowidth"),
        ("Ünïcode 数据 🚀", "Ünïcode 数据 🚀"),
    ],
)
def test_what_steers_a_terminal_is_not_shown(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_the_size_of_the_memory_folder_is_known(filled: Store) -> None:
    assert home_bytes(filled.path.parent) > filled.path.stat().st_size


def test_a_workspace_is_made_where_a_command_is_called_by_itself(run: Run) -> None:
    assert CliRunner().invoke(engram, ["config", "bites"]).output == "3\n"


#: Question → what its own session answered.
ANSWERED = {
    "is the third tool still running?": "The poem is ready: in emerald swirls a creamy dream descends.",
    "can you add the retry to the release workflow?": "The release workflow retries the release twice.",
    "what should the walrus be called?": "It is done.",
    "what are the tools that are available to you?": "These tools are available: Read and Write.",
    "where is the short line filtering?": "The short line filtering is in extractSignificantLines, by length.",
    "why does the walrus proxy drop headers?": "The walrus proxy drops headers because they are longer than 8 kB.",
}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (list(ANSWERED), "why does the walrus proxy drop headers?"),
        (list(ANSWERED)[:5], "where is the short line filtering?"),
        (list(ANSWERED)[:4], None),
        (list(ANSWERED)[:1], None),
        ([], None),
    ],
)
def test_the_question_of_the_first_screen_is_one_that_a_person_asks_again(
    filled: Store, monkeypatch: pytest.MonkeyPatch, asked: list[str], chosen: str | None
) -> None:
    def answer(store: Store, settings: Settings, request: RecallRequest, **options: bool) -> RecallResponse:
        place = list(ANSWERED).index(request.text)
        hit = Hit("q_0", "turn", f"the user: {request.text}", 1.0, {}, session_id=f"s{place}")
        return RecallResponse(
            (replace(PublicHit.of(hit), outcome=ANSWERED[request.text]),), answered_by=AnsweredBy.TEXT
        )

    prompts = [LatestPrompt(place, f"s{place}", 0, text) for place, text in enumerate(ANSWERED) if text in asked]
    monkeypatch.setattr("engram.cli.up_once.latest_turn_prompts", lambda store: prompts)
    monkeypatch.setattr("engram.cli.up_once.ask_memory", answer)

    found = find_own_question(filled, load().settings)

    assert (found and found.question) == chosen


def test_the_progress_never_goes_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.cli.up_once.LINE_SECONDS", 0.0)

    lines = re.findall(r"^Preparing the search by meaning: (\d+) of (\d+)", run("up", "--once").stderr, re.MULTILINE)

    steps = [(int(done), int(total)) for done, total in lines]
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert all(done <= total for done, total in steps)


def test_a_list_on_a_terminal_has_one_line_for_each_memory(
    store: Store, keep: Callable[..., Memory], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = f"Asked “Which of the stores {'and other places ' * 8}holds the plans?” the user chose: Redis."
    keep(asked, title="")
    assert "Chosen: Redis – Asked “Which of the stores" in run("timeline").stdout  # a pipe gets all of it

    monkeypatch.setattr("engram.cli.results.is_terminal", lambda: True)

    line, about = run("timeline").stdout.splitlines()
    assert line.startswith("Chosen: Redis – Asked “Which of the stores")
    assert line.endswith("…")
    assert len(line) <= 100
    assert about.startswith("   20")


def test_a_hit_for_every_project_says_so_where_others_name_theirs(run: Run) -> None:
    run("save", "--global", "Ship on Thursdays.")

    shown = run("recall", "when do we ship on Thursdays").stdout

    assert "· every project · " in shown
    assert "! global" not in shown
