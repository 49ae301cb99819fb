"""``engram where``, ``engram fix``, ``engram blame`` and ``engram how`` over real sessions in a real repository."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from planting import plant

from engram.cli.main import engram
from engram.consolidation.git_staleness import read_branches
from engram.enums import Kind
from engram.models.projects.projects import list_projects
from engram.recollection.past_fixes import find_fixes
from engram.system.clock import parse_time_ms
from tests.branch_sessions import Workshop, bash, edit, todo_list
from tests.repositories import Repository

FAILED = "E   ValueError: unknown cache backend 'valkey' in settings"


@pytest.fixture
def at_work(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A repository on a branch, now, in which the commands run."""
    workshop.clock.at_ms = int(time.time() * 1000)
    workshop.repository.git("switch", "-q", "-c", "feat/x")
    monkeypatch.chdir(workshop.repository.root)
    return workshop


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(engram, list(arguments), input=stdin)


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_where_shows_what_is_open_and_how_to_resume(at_work: Workshop) -> None:
    session = at_work.work(
        "feat/x", "Let the cache expire", todo_list(write="pending"), bash("make test", FAILED, failed=True)
    )
    at_work.repository.write("README", "changed\n")

    shown = run("where")

    assert shown.exit_code == 0, shown.output
    for line in (
        "On branch feat/x.",
        "Not committed: README",
        "Failed last: make test",
        "To do: write",
        "  last prompt: Let the cache expire",
        f"  claude --resume {session}",
    ):
        assert line in shown.stdout.splitlines()
    told = run_json("where")
    assert (told["branch"], told["todos"], told["uncommitted"]["changed"]) == ("feat/x", ["write"], ["README"])
    assert told["failure"]["error"] == FAILED


def test_where_shows_the_very_last_prompt_and_the_one_that_says_more(at_work: Workshop) -> None:
    at_work.work("feat/x", "Let the cache expire", "It does now.")
    at_work.work("feat/x", "commit", "Done.", session="one")

    shown, told = run("where").stdout, run_json("where")["session"]

    assert "  last prompt: commit\n  before that: Let the cache expire\n" in shown
    assert (told["last_prompt"], told["prompt_before"]) == ("commit", "Let the cache expire")


def test_where_names_the_last_session_of_this_branch_and_the_last_of_all(at_work: Workshop) -> None:
    here = at_work.work("feat/x", "Let the cache expire")
    elsewhere = at_work.work("feat/y", "Let the lamp burn longer", session="elsewhere")

    lines = run("where").stdout.splitlines()

    for title, which, session in (
        ("Let the cache expire", "Last session on this branch", here),
        ("Let the lamp burn longer", "Latest session overall (branch feat/y)", elsewhere),
    ):
        place = next(number for number, line in enumerate(lines) if line.startswith(title))
        assert which in " ".join(lines[place : place + 2])
        assert any(line.endswith(session) for line in lines[place : place + 4])
    told = run_json("where")
    assert (told["session"]["id"], told["last_elsewhere"]["id"]) == (here, elsewhere)
    assert told["last_elsewhere"]["branch"] == "feat/y"


def test_where_names_what_was_left_open_on_another_branch(at_work: Workshop) -> None:
    at_work.work("feat/y", "Let the lamp burn longer")
    left = at_work.learn("Left open: the lamp burns for two hours, not yet for three.", kind=Kind.STATE)

    shown, told = run("where").stdout, run_json("where")

    assert "Nothing is open on this branch from the last 30 days." in shown
    said = f"Open on branch feat/y: Left open: the lamp burns for two hours, not yet for three. ({left.episode_id})"
    assert said in " ".join(shown.split())
    assert [(one["id"], one["branch"]) for one in told["open_elsewhere"]] == [(left.episode_id, "feat/y")]
    assert told["open"] == []


def test_where_says_how_far_back_it_looks_for_open_work(at_work: Workshop) -> None:
    at_work.work("feat/x", "Let the lamp burn longer")
    at_work.learn("Left open: the lamp burns for two hours, not yet for three.", kind=Kind.STATE)
    assert "Nothing is open" not in run("where").stdout
    plant(at_work.store, "UPDATE episode SET created_at_ms = created_at_ms - ?", (31 * 86_400_000,))

    shown = run("where").stdout

    assert "Nothing is open from the last 30 days." in shown.splitlines()
    assert run_json("where")["open"] == []


def test_where_in_a_known_project_without_anything_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boats").mkdir()
    monkeypatch.chdir(tmp_path / "boats")
    saved = json.loads(run("save", "The mast is cedar.", "--json").stdout)
    run("forget", saved["id"], "--yes")

    shown = run("where")

    assert shown.exit_code == 1
    assert "Nothing is known about this folder yet" in shown.stdout


def test_where_in_a_repository_without_sessions_and_open_work_ends_with_1(at_work: Workshop) -> None:
    shown, told = run("where"), run("where", "--json")

    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert "There have been no sessions here yet." in shown.stdout
    assert json.loads(told.stdout)["branch"] == "feat/x"
    at_work.work("feat/x")
    assert run("where").exit_code == 0


def test_where_outside_of_everything_says_so(
    at_work: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.chdir(outside)

    shown = run("where")

    assert shown.exit_code == 1
    assert "not in any known project" in shown.output


def test_fix_shows_how_the_command_passed_later_and_what_was_learned(at_work: Workshop) -> None:
    session = at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        "The settings name a backend that the registry does not know, so it must be registered first.",
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )
    dead = at_work.learn(
        "Renaming the unknown cache backend valkey in settings did not help.", kind=Kind.DEAD_END, extractor="openai-m"
    )

    shown = run("fix", "-", stdin=f"Traceback\n{FAILED}\n")
    told = run_json("fix", FAILED)["fixes"]

    assert shown.exit_code == 0, shown.output
    assert "`make test` failed like this and passed after changes to registry.py." in shown.stdout
    assert re.search(r"Did not work · \d{4}-\d\d-\d\d", shown.stdout)
    assert f"claude --resume {session}" in shown.stdout
    assert {fix["id"] for fix in told} == {None, dead.episode_id}
    assert {fix["session"] for fix in told} == {session}


def test_the_same_fix_is_shown_once(at_work: Workshop) -> None:
    """Two failures on the way to one success have one fix, and a memory of it says more than the transcript."""
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        edit(at_work.repository.root / "cache.py"),
        bash("make test", FAILED, failed=True),
        "Let me look.",
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )
    (seen,) = run_json("fix", FAILED)["fixes"]
    memory = at_work.learn(
        "`make test` failed: no such backend. It passed after a change of registry.py.", kind=Kind.FIX
    )

    assert seen["id"] is None
    assert [fix["id"] for fix in run_json("fix", FAILED)["fixes"]] == [memory.episode_id]


def test_a_fix_in_a_file_with_a_longer_name_is_another_fix(at_work: Workshop) -> None:
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        "Let me look.",
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )
    memory = at_work.learn(
        "`make test` failed: no such backend. It passed after a change of old_registry.py.", kind=Kind.FIX
    )

    assert {fix["id"] for fix in run_json("fix", FAILED)["fixes"]} == {None, memory.episode_id}


def test_the_same_error_of_two_commands_has_two_fixes(at_work: Workshop) -> None:
    """One of them failed and passed while the other still failed."""
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        bash("npm run check", FAILED, failed=True),
        edit(at_work.repository.root / "package.json"),
        bash("npm run check", "ok"),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )

    told = " ".join(fix["text"] for fix in run_json("fix", FAILED)["fixes"])

    assert "package.json" in told
    assert "registry.py" in told


def test_fix_shows_how_a_reported_error_was_answered_and_names_recall_otherwise(at_work: Workshop) -> None:
    session = at_work.work(
        "feat/x",
        "I get this:\n  | sail: cannot raise `/srv/mast/main.sail':\n  | no halyard is rigged on boom 12",
        "Let me look at the rigging.",
        edit(at_work.repository.root / "rig.py"),
        "Fixed. The halyard was missing from rig.py, so I rigged one before the sail is raised.",
    )

    shown = run("fix", "sail: cannot raise: no halyard is rigged on boom 3")
    (told,) = run_json("fix", "sail: cannot raise: no halyard is rigged on boom 3")["fixes"]
    unknown = run("fix", "anchor: cannot drop: the chain is too short")

    assert "Reported, and answered" in shown.stdout
    assert (told["is_proven"], told["session"]) == (False, session)
    assert told["text"].startswith("Fixed. The halyard was missing from rig.py")
    assert "The halyard was missing" in run("expand", told["id"]).stdout
    assert unknown.exit_code == 1
    assert "`engram recall`" in unknown.output


def test_fix_finds_a_report_by_the_name_of_an_error_alone(at_work: Workshop) -> None:
    at_work.work(
        "feat/x",
        "GET\nhttps://sail.example/mast.css\nNS_ERROR_CORRUPTED_SAIL\n\nwhat now?",
        "The path of mast.css was relative to the page, so the server answered with the page itself.",
    )

    (told,) = run_json("fix", "NS_ERROR_CORRUPTED_SAIL")["fixes"]

    assert "relative to the page" in told["text"]


def test_a_proven_fix_comes_before_an_answer_to_a_report(at_work: Workshop) -> None:
    at_work.work("feat/x", f"What is this? {FAILED}", "The registry of the cache backends lacks an entry for valkey.")
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
        session="two",
    )

    assert [fix["is_proven"] for fix in run_json("fix", FAILED)["fixes"]] == [True, False]
    assert "1 more; add -n 2 to see all" in run("fix", FAILED, "-n", "1").stdout


@pytest.mark.parametrize(
    "error",
    [
        "ConfigurationError: backend for the session cache was refused while the application started at boot",
        "Error: ConfigurationError: session cache backend refused\n    at boot (main.js:3:1)\n    at start (x.js:9:2)",
    ],
)
def test_fix_finds_what_a_prompt_with_the_error_is_told(at_work: Workshop, error: str) -> None:
    at_work.work("feat/x", "Begin")
    fix = at_work.learn(
        "Fixed the refused session cache: a ConfigurationError of its backend means that redis must be at least 7.",
        kind=Kind.FIX,
        extractor="openai-m",
    )

    why = run_json("why", "--prompt", error)
    told = [memory["id"] for memory in why["memories"] if memory["verdict"] == "shown"]

    assert told == [fix.episode_id]
    assert [found["id"] for found in run_json("fix", error)["fixes"]] == told


def test_fix_of_a_prompt_that_only_names_the_same_place_is_not_one(at_work: Workshop) -> None:
    at_work.work("feat/x", "Begin")
    fix = at_work.learn(
        "Fixed the refused session cache in cache/backend/valkey: redis must be at least 7.",
        kind=Kind.FIX,
        extractor="openai-m",
    )
    close = dict.fromkeys([fix.episode_id], 0.9)

    def found(error: str) -> list[str]:
        projects = [row.id for row in list_projects(at_work.store)]
        return [one.id for one in find_fixes(at_work.store, error, projects, relevance_of=close)]

    assert found("gofmt failed in cache/backend/valkey") == []
    assert found("redis failed in cache/backend/valkey") == [fix.episode_id]
    assert found("Datenbank antwortet nicht") == [fix.episode_id]


@pytest.mark.parametrize(
    ("error", "fix", "is_told"),
    [
        ("bash: ./hoist: Permission denied", "chmod +x ./hoist after cloning on Windows.", True),
        ("zsh: permission denied: bin/hoist", "Marked `bin/hoist` as executable in Git.", True),
        ("Cannot find module lib/winch.js", "winch.js was renamed to windlass.js.", True),
        ("bash: ./hoist: Permission denied", "Raised the memory to 4 GB, because it ran out in ./hoist.", False),
        ("bash: ./hoist: Permission denied", "`./hoist up` failed: out of memory. Raised it to 4 GB.", False),
        ("lib/winch.js: error TS2304: Cannot resolve 'rope'", "Moved lib/winch.js out of the watched folder.", False),
        ("gofmt refused in lib/winch", "Renamed lib/winch to keep the import short.", False),
        ("./gradlew: Permission denied", "chmod +x ./gradlew after cloning on Windows.", True),
        ("Cannot find module lib/winch.js", "Ran `npm install` again, which builds lib/winch.js.", True),
        ("art/flag.png: invalid header", "`git lfs pull` brings art/flag.png instead of its pointer.", True),
        ("./src/port/mast.py: Permission denied", "Added docstrings to src/port/mast.py", False),
        ("cannot open src/port/sail.py", "Spelling mistakes in the header of src/port/sail.py corrected", False),
        ("src/port/Mast.java: cannot find symbol", "Sorted imports of src/port/Mast.java", False),
        ("src/port/mast.py: SyntaxError at line", "Renamed a variable on line 3 of src/port/mast.py", False),
        ("cannot open src/port/sail.py", "Renamed a variable of src/port/sail.py", False),
        ("src/port/mast.py: No such file", "Formatted the file src/port/mast.py", False),
        ("src/port/sail.py: invalid syntax", "Added a shebang to src/port/sail.py", False),
        ("src/port/sail.py: No such file", "src/port/sail.py was missing. The harness writes it.", True),
        ("./src/port/mast.py: Permission denied", "Linted src/port/mast.py. Then chmod +x bin/deploy.sh.", False),
    ],
)
def test_fix_of_the_very_file_that_an_error_is_about_is_one(
    at_work: Workshop, error: str, fix: str, is_told: bool
) -> None:
    at_work.work("feat/x", "Begin")
    memory = at_work.learn(fix, kind=Kind.FIX, extractor="openai-m")
    projects = [row.id for row in list_projects(at_work.store)]

    found = find_fixes(at_work.store, error, projects, relevance_of={memory.episode_id: 0.9})

    assert [one.id for one in found] == [memory.episode_id] * is_told


@pytest.mark.parametrize("error", ["E   AssertionError: assert 118 == 119", "AssertionError: assert 118 == 119"])
def test_fix_knows_what_pytest_printed_with_or_without_its_mark(at_work: Workshop, error: str) -> None:
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", "E   AssertionError: assert 118 == 119\n1 failed", failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )

    assert [found["id"] for found in run_json("fix", error)["fixes"]] == [None]


def test_fix_of_an_error_that_names_the_branch_is_found_on_another_branch(at_work: Workshop) -> None:
    failed = "error: failed to push some refs of {} to the remote origin"
    at_work.work(
        "feat/y",
        "Publish it",
        bash("make publish", failed.format("feat/y"), failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make publish", "ok"),
    )

    assert [found["id"] for found in run_json("fix", failed.format("feat/x"))["fixes"]] == [None]


def test_fix_how_and_where_look_in_other_projects_if_asked_to(
    at_work: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", FAILED, failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )
    (name,) = {fix["project"] for fix in run_json("fix", FAILED)["fixes"]}

    here = run("fix", FAILED).stdout
    (tmp_path / "boats").mkdir()
    monkeypatch.chdir(tmp_path / "boats")
    run("save", "The mast is cedar.")
    other, passed = run("fix", FAILED), run("how", "make")
    open_there = run("where", "--project", name)
    monkeypatch.chdir(tmp_path)
    elsewhere = run("fix", FAILED).stdout

    assert f" · {name}\n" in elsewhere
    for nothing in (other, passed):
        assert (nothing.exit_code, "boats; add --all for those of other projects." in nothing.output) == (1, True)
    assert "On branch feat/x." in open_there.stdout
    assert name
    assert f" · {name}\n" not in here


@pytest.mark.parametrize(
    "error",
    [
        "no such file or directory ./harbour/dock/main.go",
        "gofmt failed in harbour/dock",
        "FAIL port.example/harbour/dock [build failed]",
    ],
)
def test_a_fix_in_the_same_place_is_not_one_of_another_error(at_work: Workshop, error: str) -> None:
    at_work.work("feat/x", "Begin")
    at_work.learn(
        "`go test ./harbour/dock/...` failed: The crane id needs 12 letters. It passed after a change of "
        "dock_crane_test.go in harbour/dock.",
        kind=Kind.FIX,
        extractor="openai-m",
    )

    assert run("fix", error).exit_code == 1
    assert run("fix", "the crane id needs 12 letters").exit_code == 0


def test_a_fix_that_shares_two_common_words_with_an_error_is_not_one(at_work: Workshop) -> None:
    at_work.work("feat/x", "Begin")
    at_work.learn(
        "Make GetByCraneType accept names. Interim fix of the function that looks up a crane by its name.",
        kind=Kind.FIX,
        extractor="openai-m",
    )

    assert run("fix", "undefined function get/2").exit_code == 1
    assert run("fix", "the crane lookup function accepts no names").exit_code == 0


def test_fix_of_an_unknown_error_exits_with_1(at_work: Workshop) -> None:
    at_work.work("feat/x", "Begin")

    shown, empty = run("fix", "TypeError: the parser was given an apple"), run("fix", "  ")

    assert (shown.exit_code, empty.exit_code) == (1, 2)
    assert shown.output.startswith("No earlier fix of this error is known in ")
    assert "it is empty" in empty.output
    for_a_script = run("fix", "TypeError: the parser was given an apple", "--json")
    assert (for_a_script.exit_code, json.loads(for_a_script.output)) == (1, {"fixes": []})


def test_blame_shows_changes_with_their_reason_and_commits_and_memories(
    at_work: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = at_work.repository.root / "src" / "cache.py"
    at_work.repository.write("src/cache.py", "1\n")
    first = at_work.work("feat/x", "Add a cache", edit(file), session="first")
    at_work.work("feat/x", "Only look at it", ("Read", {"file_path": str(file)}, "1", False), session="second")
    third = at_work.work("feat/x", "Elsewhere", edit(at_work.repository.root / "lib" / "cache.py"), session="third")
    commit = bash("git commit -am expire", "[feat/x 1234567] let it expire\n 1 file changed")
    last = at_work.work("feat/x", "Let it expire", edit(file), commit, session="fourth")
    memory = at_work.learn("cache.py keeps a week of answers.", ["fourth"], entities=("src/cache.py",))

    told = run_json("blame", "src/cache.py")
    shown = run("blame", str(file))

    assert [(touch["id"], touch["kind"], touch["session"]) for touch in told["touches"]] == [
        (memory.episode_id, "decision", last),
        (None, "change", last),
        (None, "change", first),
    ]
    assert told["touches"][1]["commits"] == ["1234567 let it expire"]
    assert told["touches"][2]["text"] == "Add a cache"
    assert shown.exit_code == 0
    assert "  commit 1234567 let it expire" in shown.stdout
    # From anywhere else, the project is named.
    monkeypatch.chdir("/")
    assert run_json("blame", "src/cache.py", "--project", str(at_work.repository.root)) == told
    monkeypatch.chdir(at_work.repository.root)
    # A bare name that is no file here is one in any folder.
    assert {touch["session"] for touch in run_json("blame", "cache.py")["touches"]} == {last, third, first}
    assert run("blame", "src/other/cache.py").exit_code == 0
    (at_work.repository.root / "cache.py").write_text("2\n")
    assert {touch["kind"] for touch in run_json("blame", "cache.py")["touches"]} == {"decision"}


def test_blame_counts_a_file_of_the_same_name_in_a_worktree_and_in_no_other_folder(
    at_work: Workshop, tmp_path: Path
) -> None:
    elsewhere, beside, gone = (tmp_path / name for name in ("scratch", "beside", "gone"))
    elsewhere.mkdir()
    for folder in (beside, gone):
        at_work.repository.git("worktree", "add", "-q", str(folder), "-b", folder.name)
    Repository.make(tmp_path / "other")
    for folder in (at_work.repository.root, elsewhere, beside, gone, tmp_path / "other"):
        at_work.work("feat/x", f"Change it in {folder.name}", edit(folder / "README"), session=folder.name)
    at_work.repository.git("worktree", "remove", "--force", str(gone))

    touches = run_json("blame", "README")["touches"]

    own = f"Change it in {at_work.repository.root.name}"
    assert [touch["text"] for touch in touches] == ["Change it in gone", "Change it in beside", own]


@pytest.mark.parametrize(
    ("prompt", "is_reason"),
    [
        ("continue", False),
        ("Yes, please go on.", False),
        ("continue until all are done", False),
        ("ok, proceed with the rest", False),
        ("continue with the login page", True),
        ("Now drop the old cache", True),
    ],
)
def test_blame_names_the_prompt_that_a_turn_carried_on(at_work: Workshop, prompt: str, is_reason: bool) -> None:
    at_work.work("feat/x", "Add a cache to the page", session="first")
    at_work.work("feat/x", prompt, edit(at_work.repository.root / "cache.py"), session="first")

    (touch,) = run_json("blame", "cache.py")["touches"]

    assert touch["text"] == (prompt if is_reason else "Add a cache to the page")


def test_blame_says_how_much_it_leaves_out(at_work: Workshop) -> None:
    file = at_work.repository.root / "cache.py"
    for number in range(3):
        at_work.work("feat/x", f"Change it {number}", edit(file), session=f"change-{number}")

    assert run("blame", "cache.py", "-n", "1").stdout.endswith("\n2 more; add -n 3 to see all\n")
    assert " more" not in run("blame", "cache.py").stdout


def test_blame_says_which_branches_were_not_merged(at_work: Workshop) -> None:
    at_work.repository.commit("draft", draft="1\n")
    for branch, name in (("feat/x", "cache.py"), ("main", "store.py")):
        at_work.repository.git("switch", "-q", branch)
        at_work.work(branch, f"Change it on {branch}", edit(at_work.repository.root / name), session=branch)
        at_work.learn(f"{name} keeps a week of answers.", [branch], entities=(name,))
    read_branches(at_work.store, at_work.settings, only_lively=True)

    assert run("blame", "cache.py").stdout.count("on branch feat/x, not merged") == 2
    assert [touch["is_unmerged"] for touch in run_json("blame", "cache.py")["touches"]] == [True, True]
    assert run("blame", "store.py").stdout.count("· on branch main\n") == 1
    assert [touch["is_unmerged"] for touch in run_json("blame", "store.py")["touches"]] == [False, False]


def test_blame_of_an_unknown_file_exits_with_1(at_work: Workshop, tmp_path: Path) -> None:
    at_work.work("feat/x", "Begin")

    assert run("blame", "missing.py").exit_code == 1
    assert run("blame", "missing.py").output.startswith("Nothing is known about missing.py in ")
    assert "not in any known project" in run("blame", str(tmp_path / "elsewhere.py")).output


def test_how_shows_the_commands_that_passed_newest_first_each_once(at_work: Workshop) -> None:
    build = "docker build -t harbor ."
    at_work.work("feat/x", "Build it", bash(build), bash("sudo docker push harbor"), session="first")
    at_work.work("feat/x", "Again", bash("docker push harbor", FAILED, failed=True), bash("echo docker"), bash(build))

    lines = run("how", "docker").stdout.splitlines()

    commands = [line for line in lines if "docker" in line]
    assert commands == [build, "sudo docker push harbor"]
    assert [line.partition("exit ")[2] for line in lines if "exit" in line] == ["0, 2 times", "0"]
    assert "It also failed 1 time." in lines
    assert not any("fix" in line for line in lines)
    assert any(line.startswith("   claude --resume ") for line in lines)
    told = run_json("how", "docker build")
    assert [(one["command"], one["exit"], one["times"]) for one in told["runs"]] == [(build, 0, 2)]
    assert told["failed"] == 0
    assert len(run("how", "docker", "--limit", "1").stdout.split("exit ")) == 2


def test_how_shows_of_a_long_command_only_what_ran_the_tool_and_each_such_part_once(at_work: Workshop) -> None:
    build = "docker build -t harbor --label 'mast && sail' ."
    check = " && echo 'a line of the report that nobody asks for; it is long' && make report && cat report.txt | head"
    at_work.work("feat/x", "Build it", bash(f"cd harbour && {build}{check}"), bash(f"cd pier\n{build}{check}"))

    lines = run("how", "docker").stdout.splitlines()

    assert lines[0] == build
    assert lines[1].endswith("· exit 0, 2 times")
    assert not any("report" in line for line in lines)


def test_how_gives_each_command_its_own_time(at_work: Workshop) -> None:
    began_ms = at_work.clock.now_ms() // 1000 * 1000 + 60_000
    at_work.work("feat/x", "Build it", bash("docker build ."), bash("docker push harbor"), pace=600)

    assert [(run["command"], parse_time_ms(run["at"])) for run in run_json("how", "docker")["runs"]] == [
        ("docker push harbor", began_ms + 1_800_000),
        ("docker build .", began_ms + 600_000),
    ]


def test_how_counts_no_exit_code_that_is_another_programs(at_work: Workshop) -> None:
    at_work.work(
        "feat/x",
        "Build it",
        bash("docker build . | tail -3"),
        bash("docker ps | grep harbor", failed=True),
        bash("docker pull x; echo done"),
    )

    nothing = run("how", "docker")
    at_work.work("feat/x", "Again", bash("set -o pipefail; docker build . | tail -3"))
    told = run_json("how", "docker")

    assert nothing.exit_code == 1
    assert "Whether 3 calls worked is unknown" in nothing.output
    assert [one["command"] for one in told["runs"]] == ["set -o pipefail; docker build . | tail -3"]
    assert (told["failed"], told["unknown"]) == (0, 3)


def test_how_shows_no_command_as_passed_of_which_one_run_is_unknown(at_work: Workshop) -> None:
    at_work.work("feat/x", "Build it", bash("mix compile && mix dialyzer | grep lib/"), bash("mix compile && mix test"))

    told = run_json("how", "mix")

    assert [one["command"] for one in told["runs"]] == ["mix compile && mix test"]
    assert told["unknown"] == 1
    assert len(run_json("how", "mix compile")["runs"]) == 2


def test_how_resumes_each_session_once_and_leaves_out_here_documents(at_work: Workshop) -> None:
    message = "git commit -m \"$(cat <<'EOF'\nAdd the mast\n\nIt was asked for.\nEOF\n)\""
    at_work.work("feat/x", "Commit it", bash("git add mast.py"), bash(message))

    shown = run("how", "git").stdout

    assert shown.count("claude --resume ") == 1
    assert "git commit -m" in shown
    assert "It was asked for" not in shown


def test_how_names_no_error_that_states_none(at_work: Workshop) -> None:
    progress = "Compiling the harbour module of the lighthouse"
    at_work.work(
        "feat/x",
        "Build it",
        bash("make build", progress, failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make build", "ok"),
    )
    at_work.learn(f"Fixed {progress}", kind=Kind.FIX)

    assert "How that was once fixed" not in run("how", "make").stdout


def test_where_takes_no_failure_of_a_search_for_one_of_the_tool(at_work: Workshop) -> None:
    at_work.work("feat/x", "Test it", bash("make test | grep FAILED", failed=True))

    assert run_json("where")["failure"] is None


@pytest.mark.parametrize("failed", [FAILED, f"- FAILED {FAILED}"])
def test_how_names_an_error_whose_fix_is_known(at_work: Workshop, failed: str) -> None:
    at_work.work("feat/x", "Lint it", bash("make lint", "lint: 3 problems in the harbour module", failed=True))
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", failed, failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )

    lines = run("how", "make").stdout.splitlines()

    place = lines.index("How that was once fixed:")
    assert lines[place - 1] == "It also failed 2 times."
    command, *words = shlex.split(lines[place + 1])
    assert command == "engram"
    assert "passed after changes to registry.py" in run(*words).stdout


def test_how_names_one_line_of_an_error_of_many(at_work: Workshop) -> None:
    many = f"Traceback (most recent call last):\n  File 'x.py', line 3\n{FAILED}\nmake: *** [test] Error 1"
    at_work.work(
        "feat/x",
        "Run the tests",
        bash("make test", many, failed=True),
        edit(at_work.repository.root / "registry.py"),
        bash("make test", "ok"),
    )

    lines = run("how", "make").stdout.splitlines()

    (advice,) = lines[lines.index("How that was once fixed:") + 1 :]
    assert "passed after changes to registry.py" in run(*shlex.split(advice)[1:]).stdout


def test_how_names_the_project_of_each_command_only_if_it_looks_everywhere(at_work: Workshop) -> None:
    at_work.work("feat/x", "Build it", bash("docker build -t harbor ."))
    (name,) = {one["project"] for one in run_json("how", "docker")["runs"]}

    command, ending = run("how", "docker", "--all").stdout.splitlines()[:2]
    assert command.startswith("docker build")
    assert ending.endswith(f"· exit 0 · {name}")
    command, ending = run("how", "docker").stdout.splitlines()[:2]
    assert command.startswith("docker build")
    assert ending.endswith("· exit 0")


@pytest.mark.parametrize(("tool", "said"), [("podman", "No command that ran podman"), ("make", "it failed 1 time")])
def test_how_says_what_never_passed(at_work: Workshop, tool: str, said: str) -> None:
    at_work.work("feat/x", "Test it", bash("make test", FAILED, failed=True), bash("ls podman"))

    result = run("how", tool)

    assert result.exit_code == 1
    assert said in result.output


def test_a_quotation_that_ends_within_a_list_is_expanded_with_a_mark(at_work: Workshop) -> None:
    berths = "\n".join(f"{number}. Berth {number} has {'a very long ketch ' * 5}" for number in range(1, 8))
    at_work.work("feat/x", "Which berths are taken?", f"These berths of the harbour are taken:\n{berths}")
    (hit, *_) = run_json("search", "berths harbour taken")["hits"]

    shown = run("expand", hit["id"]).stdout
    quoted = shown.partition("\n\n")[0]
    forgotten = " ".join(run("forget", hit["id"], "--yes").stdout.split())

    assert "Berth 7" not in quoted
    assert quoted.endswith(" …")
    assert re.search(r"“These berths [^”]* a very…”", forgotten)
