"""What is typed wrong gets one sentence on standard error that says what to do, and an exit code that is no fault."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result
from make_reference import subcommands

from engram.cli.main import engram, main
from engram.cli.options import usage_of
from engram.memories.save import require_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories, evidence_of
from engram.models.open_memory import open_store
from engram.models.projects.projects import list_projects
from engram.paths import Home

#: A command line, the exit code, and words that its answer must have: what to do.
WRONG: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("sessions", ""), 2, "Invalid value for 'ID': it is empty. Write: engram sessions [OPTIONS] [ID]"),
    (("why", " "), 2, "Invalid value for "),
    (("export", "--output", "."), 1, ". is a folder; name a file in it, such as NAME\n"),
    (("config", "set", "llm_base_url", "notaurl"), 1, "must begin with http:// or https://"),
    (("config", "set", "llm_base_url", "https://"), 1, "must begin with http:// or https://"),
    (("config", "set", "llm_base_url", "http://localhost:99999/v1"), 1, "must begin with http:// or https://"),
    (("config", "set", "llm_prices", "gpt-x"), 1, "model=input/output"),
    (("config", "set", "llm_prices", "gpt-x=1/-2"), 1, "model=input/output"),
    (("undo",), 2, "`engram timeline` lists memories with their ids"),
    (("expand",), 2, "`engram timeline` lists memories with their ids"),
    (("pin",), 2, "`engram timeline` lists memories with their ids"),
    (("recal",), 2, "Did you mean `engram recall`?"),
    (("recall",), 2, "Write: engram recall"),
    *(
        ((name, query), 2, "describe in a few words")
        for name in ("recall", "search")
        for query in ("", " ", "*", '""', "… _")
    ),
    (("recall", "why", "did", "we"), 2, "put text of several words in quotes"),
    (("recall", "why", "not"), 2, "put text of several words in quotes"),
    (("edit", "ep_000000000001", "Call baz() first."), 2, "`engram edit --help` shows its options"),
    (("pin", "ep_000000000001", "it is important"), 2, "`engram pin --help` shows its options"),
    (("recall", "x", "--limt", "3"), 2, "Did you mean '--limit'?"),
    (("timeline", "--since", "2026-13-45"), 2, "`engram timeline --help` shows its options.\n"),
    (("recall", "deploy", "--since", "monday"), 2, "`engram recall --help` shows its options.\n"),
    (("logs", "--follow"), 2, "`engram logs --help` shows its options.\n"),
    (("search", "--no-verify"), 2, "not an option, write: engram search -- --no-verify\n"),
    (("undo", "ep_1", "ep_2"), 2, "Write: engram undo [OPTIONS] ID; `engram undo --help` shows its options.\n"),
    (("config", "bites", "3"), 2, "Write: engram config set bites 3."),
    (("config", "bites", "a b"), 2, "Write: engram config set bites 'a b'."),
    (("hub", "devices", "--remove", "laptop"), 2, "'laptop' is not a number.\n"),
    (("save", "x", "--global", "--project", "harbor"), 2, "--global and --project can't be combined"),
    (("restore", ".", "--yes"), 1, "there is no backup '.'. `engram"),
    (("version",), 2, "Did you mean `engram --version`?"),
    (
        ("fix", "--- FAIL: TestTide (0.00s)"),
        2,
        "not an option, write: engram fix -- '--- FAIL: TestTide (0.00s)'",
    ),
    (("service", "strt"), 2, "there is no command 'strt'. Did you mean 'restart', 'start', 'status'? `engram service"),
    (("timeline", "2026-02-30"), 1, "there is no day 2026-02-30; write one such as yesterday"),
    (("timeline", "yesterdy"), 1, "nor a time. Did you mean yesterday?"),
    (("timeline", "sometime"), 1, "nor a time; write one such as yesterday"),
    (("import", "--from", "claude-mem"), 1, "To import another: engram import FILE"),
    (("import", "--from", "earlier"), 1, "To import another: engram import FILE"),
    (("projects", "vault", "acme", "--apart", "/gone"), 1, "there is no vault for 'acme'; vaults: none"),
    (("vault", "list"), 2, "Did you mean `engram projects vault`?"),
    (("memories",), 2, "Did you mean `engram timeline`?"),
    (("project", "list"), 2, "Did you mean `engram projects`? `engram"),
    (("projects", "remove", "x"), 2, "there is no command 'remove'. Did you mean 'forget'? `engram projects"),
    (("service", "begin"), 2, "there is no command 'begin'. `engram service --help` lists its commands.\n"),
    (("doctor", "--tide"), 2, "`engram doctor --help` shows its options."),
    (("feedback", "ep_0123456789ab", "good"), 2, "Invalid value for 'JUDGEMENT'"),
    (("import", "notes", "--project", "nowhere"), 1, "with its first session, or with the first `engram save` in it"),
    (("recall", "x", "--limit", "0"), 2, "is not between 1 and"),
    (("recall", "x", "-n", "abc"), 2, "'abc' is not a number.\n"),
    (("install", "--extractor", "magic"), 2, "'claude', 'openai', 'local'.\n"),
    (("pause", "5m"), 2, "Write: engram pause [OPTIONS]; `engram pause --help` shows its options."),
    (("export", "--format", "markdown", "--output", __file__), 1, "is a file; name a folder for the Markdown files"),
    (("up", "--once", __file__), 1, "test_wrong_input.py contains no session; `engram up --once` reads transcripts"),
    (("recall", "x", "--project", "nosuch"), 1, "'nosuch'. Known projects: harbor, lantern"),
    (("expand",), 2, "Write: engram expand [OPTIONS] ID"),
    (("expand", "hello"), 1, "recall and timeline print the ids"),
    (("expand", "5d4da058-9547-4d8d-9e6a-f1b36f34670a"), 1, "`engram sessions 5d4da058-9547"),
    (("expand", "5d4da058"), 1, "`engram sessions 5d4da058-9547"),
    (("timeline", "5d4da058"), 1, "`engram sessions 5d4da058-9547"),
    (("forget", "5d4da058", "--only-memory", "--dry-run"), 1, "leave out --only-memory"),
    (("forget", "5d4da058", "--only-memory", "--yes"), 1, "leave out --only-memory"),
    (("projects", "rename", "harbor", "lantern"), 1, "`engram projects merge`"),
    (("why", "ep_ffffffffffff"), 1, "recall and timeline print the ids"),
    (("sessions", "ep_ffffffffffff"), 1, "`engram expand` shows memories"),
    (("edit", "ep_ffffffffffff", "--summary", "x"), 1, "recall and timeline print the ids"),
    (("forget", "nothing"), 1, "recall and timeline print the ids"),
    (("purge", "nothing"), 1, "recall and timeline print the ids"),
    (("correct", "ep_ffffffffffff", "text"), 2, "Write: engram correct [OPTIONS] ID TEXT --why REASON"),
    (("expand", ""), 2, "Write: engram expand [OPTIONS] ID"),
    (("how", " "), 2, "Write: engram how [OPTIONS] TOOL"),
    (("sessions", ""), 2, "Write: engram sessions [OPTIONS] [ID]"),
    (("forget", "", "--yes"), 2, "Write: engram forget [OPTIONS] ID"),
    (("blame", ""), 2, "Write: engram blame [OPTIONS] FILE"),
    (("blame", "\x07"), 2, "it is empty. Write: engram blame [OPTIONS] FILE"),
    (("recall", "x", "--project", "\x1b[1m\u200b"), 2, "Invalid value for '--project': it is empty."),
    (("projects", "show", ""), 2, "Write: engram projects show [OPTIONS] NAME"),
    (("tasks", "retry", ""), 2, "it is empty"),
    (("why", "--prompt", ""), 2, "'--prompt': it is empty. `engram why --help` shows its options.\n"),
    (("edit", "ep_1", "--summary", ""), 2, "it is empty. `engram edit --help` shows its options.\n"),
    (("recall", "x", "--project", ""), 2, "Invalid value for '--project': it is empty."),
    (("--home", "", "status"), 2, "Invalid value for '--home': it is empty."),
    (("save", ""), 2, "Invalid value for 'TEXT': it is empty. Write: engram save [OPTIONS] TEXT"),
    (("restore", "--json"), 1, "there is no backup"),
    (("feedback", "ep_ffffffffffff"), 2, "(helpful, wrong or outdated), or only --off"),
    (("feedback", "ep_ffffffffffff", "nonsense"), 2, "'helpful', 'wrong', 'outdated'"),
    (("review", "keep", "ep_ffffffffffff"), 1, "recall and timeline print the ids"),
    (("review", "tust"), 2, "engram review --help"),
    (("timeline", "someday"), 1, "yesterday"),
    (("sessions", "nosuch"), 1, "`engram sessions` lists them"),
    (("why", "nosuch"), 1, "A memory's id begins with ep_"),
    (("why", "ep_1", "--prompt", "x"), 2, "SESSION|ID and --prompt can't be combined"),
    (("why", "ep_1", "--project", "harbor"), 2, "SESSION|ID and --project can't be combined"),
    (("sessions", "81d05d22", "--project", "harbor"), 2, "ID and --project can't be combined"),
    (("fix", "x", "--all", "--project", "harbor"), 2, "--all and --project can't be combined"),
    (("how", "x", "--all", "--project", "harbor"), 2, "--all and --project can't be combined"),
    (("pause", "--off", "--for", "1h"), 2, "--off and --for can't be combined"),
    (("pause", "--list", "--project", "harbor"), 2, "--list and --project can't be combined"),
    (("consolidate", "--undo", "1", "--dry-run"), 2, "--undo and --preview can't be combined"),
    (("import", "--undo", "1", "--dry-run"), 2, "--undo and --dry-run can't be combined"),
    (("import", "x.jsonl", "--list"), 2, "--list and PATH can't be combined"),
    (("restore", "--list", "x.db"), 2, "--list and FILE can't be combined"),
    (("restore", "--new", "x.db", "--yes"), 2, "--new and FILE can't be combined"),
    (("projects", "sort", "--undo", "--dry-run"), 2, "--undo and --dry-run can't be combined"),
    (("expand", "q_0000000"), 1, "there is no quotation 'q_0000000'; recall and search print the ids"),
    (("fix", ""), 2, "it is empty. Write: engram fix [OPTIONS] ERROR"),
    (("import",), 2, "name the file or folder to import; only --from claude-mem and --from earlier need none"),
    (("import", "--from", "notes"), 2, "name the file or folder to import"),
    (("import", "nosuch.jsonl"), 1, "`engram import --help` says what can be imported"),
    (("projects", "merge", "harbor", "harbor"), 1, "name two projects"),
    (("import", "x.jsonl", "--map", "here"), 2, "write it as OLD=NEW"),
    (("share",), 2, "name the memories to share"),
    (("ui", "--stop", "--no-open"), 2, "leave out --no-open"),
    (("hub", "devices", "--add", "--remove", "1"), 2, "can't be combined"),
    (("export", "--format", "markdown"), 2, "--output DIR"),
    (("blame", "/etc/passwd"), 1, "`engram projects` lists"),
    (("restore", "nosuch"), 1, "`engram restore --list`"),
    (("export", "out.json"), 2, "Write: engram export [OPTIONS]"),
    (("config", "set", "nosuch", "1"), 1, "`engram config` lists them"),
    (("config", "set", "recall_limt", "1"), 1, "Did you mean recall_limit?"),
    (("exclude",), 2, "Did you mean `engram config set exclude`?"),
    (("recall", "x", "--project", "harbour"), 1, "Did you mean 'harbor'? Known projects: harbor, lantern"),
    (("recall", "x", "--project", "HARBOR"), 1, "Did you mean 'harbor'?"),
    (("config", "set", "RECALL-LIMIT", "1"), 1, "Did you mean recall_limit?"),
    (("recall-limit",), 2, "Did you mean `engram config set recall_limit`? `engram"),
    (("recall_limt",), 2, "Did you mean `engram config set recall_limit`"),
    (("config", "set", "bites", "-1"), 1, "must not be negative"),
    (("config", "set", "recall_limit", "0"), 1, "must be at least 1"),
    (("config", "set", "recall_limit", "1001"), 1, "it may be at most 1,000"),
    (("consolidate", "--undo", "0"), 2, "0 is less than 1."),
    (("recall", "x", "--home", "/tmp"), 2, "--home goes before the command. Write: engram --home DIR recall"),
    (("projects", "list", "--vault", "acme"), 2, "engram --vault NAME projects list"),
    (("tasks", "--set", "bites=1"), 2, "engram --set NAME=VALUE tasks"),
    (("status", "--version"), 2, "Write: engram --version status"),
    (("config", "set", "recall_limit", "many"), 1, "is invalid: it must be a whole number"),
    (("--set", "claude_timeout_seconds=high", "status"), 1, "is invalid: it must be a number"),
    (("--set", "nosuch=1", "status"), 1, "`engram config` lists them all"),
    (("--set", "nosuch", "status"), 1, "`engram config` lists them all"),
    (("--set", "recall-limit", "status"), 1, "--set recall_limit=VALUE"),
    (("pack", "add", "nosuch.pack"), 1, "is not a readable file"),
    (("--vault", "nosuch", "status"), 1, "`engram projects vault NAME`"),
    (("completion", "tcsh"), 2, "'bash', 'zsh', 'fish'"),
    (("pause", "--for", "soon"), 2, "such as 90s"),
    (("pause", "--for", "2"), 2, "has no unit"),
    (("cost", "--since", "7"), 2, "has no unit"),
    (("pause", "--for", "0"), 2, "such as 90s"),
    (("tasks", "pause", "--for", "0m"), 2, "such as 90s"),
    (("cost", "--since", "0d"), 2, "such as 90s"),
    (("completion",), 2, "Choose from: bash, zsh, fish."),
    (("tasks", "retry"), 2, "name the work by its ID, or use --dead."),
    (("tasks", "retry", "99"), 1, "`engram tasks list --all`"),
    (("consolidate", "--undo", "999"), 1, "engram consolidate --list"),
    (("consolidate", "--undo", "9" * 23), 1, "a number is too large"),
    (("import", "--undo", "9" * 23), 1, "a number is too large"),
    (("purge", "--archived", "9" * 23), 2, "is not between 0 and 99999"),
    (("purge", "--superseded", "9" * 17), 2, "is not between 0 and 99999"),
    (("pause", "--for", "99999999999d"), 2, "longer than a hundred years"),
    (("tasks", "pause", "--for", "9999999999999d"), 2, "longer than a hundred years"),
    (("cost", "--since", "9" * 30 + "d"), 2, "longer than a hundred years"),
    (("up", "--json"), 2, "needs --once"),
    (("up", "nosuch"), 2, "needs --once"),
    (("up", "--once", "nosuch"), 1, "does not exist; give a transcript or a folder of them, or nothing for all"),
    (("--claude-folder", "/nosuch", "up", "--once"), 1, "there is no folder /nosuch"),
    (("--claude-folder", "/nosuch", "install", "--dry-run"), 1, "there is no folder /nosuch"),
    (("--home", "/nosuch", "--claude-folder", "/nosuch2", "status"), 1, "there is no folder /nosuch2"),
    (("service", "run", "nosuch"), 2, "'worker', 'watcher'"),
    (("projects", "show", "nosuch"), 1, "Known projects"),
    *(
        (words, 1, "`engram sync DIR` uses a folder as the hub, `engram hub join URL CODE` joins one\n")
        for words in (("hub", "sync"), ("sync",), ("hub", "key", "--show"), ("hub", "key", "shop"), ("hub", "leave"))
    ),
    (("config", "set", "claude_folder", __file__), 1, "is a file; claude_folder takes a folder"),
    (("config", "set", "note_folders", f"/tmp,{__file__}"), 1, "is a file; note_folders takes folders"),
    (("share", "ep_ffffffffffff"), 1, "`engram team join CODE`"),
    (("pack", "make", "nosuch"), 1, "specify their ids, or a project"),
    (("uninstall", "--now"), 2, "engram uninstall --help"),
    (("install", "--json"), 1, "add --yes"),
)


def test_a_wrong_input_gets_one_sentence_that_says_what_to_do(
    filled: Store, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    answers = {}
    for words, _, _ in WRONG:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        answers[words] = (ended.value.code, *capfd.readouterr())

    for words, code, help_text in WRONG:
        assert answers[words][:2] == (code, ""), words
        assert answers[words][2].startswith("Error: "), words
        assert answers[words][2].count("\n") == 1, words
        assert help_text in answers[words][2], words
    assert len(WRONG) > 30


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (("projects", "forget", "harbor"), "add --yes"),
        (("projects", "merge", "harbor", "lantern"), "add --yes"),
        (("forget", "MEMORY"), "add --yes for the memory only, or --yes --also-source"),
        (("forget", "MEMORY", "--only-memory"), "add --yes"),
        (("sync", "FOLDER"), "add --yes"),
        (("sync", "FOLDER", "--phrase"), "write the phrase to standard input"),
    ],
)
def test_a_question_that_nobody_can_answer_names_the_option(
    filled: Store,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    way: str,
) -> None:
    with_source = next(one for one in all_memories(filled) if evidence_of(filled, one.id))
    typed = [{"MEMORY": with_source.episode_id, "FOLDER": str(tmp_path)}.get(word, word) for word in words]
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open() as empty:
        monkeypatch.setattr("sys.stdin", empty)
        with pytest.raises(SystemExit) as ended:
            main(typed)

    assert ended.value.code == 1
    assert f"there is nobody to answer: {way}, or run it in a terminal" in capfd.readouterr().err
    assert require_memory(filled, with_source.episode_id)


@pytest.mark.parametrize(
    "words",
    [
        *(("expand", "TEXT"), ("sessions", "TEXT"), ("timeline", "TEXT"), ("blame", "TEXT"), ("TEXT",)),
        *(("recall", "why", "TEXT"), ("logs", "TEXT"), ("pause", "--for", "TEXT"), ("config", "set", "TEXT", "1")),
        *(("--set", "TEXT=1", "status"), ("service", "TEXT"), ("status", "--TEXT"), ("setup", "model", "TEXT")),
    ],
)
def test_an_error_never_repeats_a_long_argument_in_full(
    filled: Store, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit):
        main([word.replace("TEXT", "tide " * 20_000) for word in words])

    message = capfd.readouterr().err
    assert message.startswith("Error: ")
    assert len(message) < 1_100
    assert not message.rstrip().endswith("tide")


def test_a_group_that_lists_by_default_takes_the_options_of_the_list(
    filled: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    names = {"projects": "list", "tasks": "list", "review": "list", "hub": "status", "config": "show"}
    for group, default in names.items():
        answers = []
        for words in ([group, "--json"], [group, default, "--json"]):
            with pytest.raises(SystemExit) as ended:
                main(words)
            answers.append((ended.value.code, json.loads(capfd.readouterr().out)))
        assert answers[0] == answers[1], group
        assert answers[0][0] == 0
    with pytest.raises(SystemExit) as ended:
        main(["projects", "--jsn"])
    assert "Did you mean '--json'?" in capfd.readouterr().err


def test_every_line_that_is_suggested_names_the_options_that_are_needed() -> None:
    for name, command in subcommands(engram):
        ctx = click.Context(command, info_name=name)
        usage = usage_of(ctx)
        for param in command.params:
            if isinstance(param, click.Option) and param.required:
                assert f" {param.opts[-1]} " in f"{usage} ", name


@pytest.mark.parametrize(
    "refused",
    [("save", ""), ("save", " "), ("save", "-"), ("save", "x" * 20_001), ("save", "Use tabs.", "--supersedes", "ep_f")],
)
def test_what_is_refused_leaves_no_project(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    refused: tuple[str, ...],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(SystemExit) as ended:
        main(refused)

    assert ended.value.code != 0
    with open_store(home.memory_db) as store:
        assert list_projects(store) == []


def test_a_memory_folder_that_is_a_file_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SystemExit) as ended:
        main(["--home", str(tmp_path / "file"), "status"])

    assert ended.value.code == 1
    assert "is a file; choose another memory folder" in capfd.readouterr().err


def test_a_command_that_is_suggested_is_written_as_this_one_was_called(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/engram"])
    monkeypatch.setattr("shutil.which", lambda name: None)
    for words, help_text in (
        (("recal", "x"), "Did you mean `.venv/bin/engram recall`?"),
        (("recall", "x", "--since", "today"), "`.venv/bin/engram recall --help`"),
        (("save",), "Write: .venv/bin/engram save "),
    ):
        with pytest.raises(SystemExit):
            main(words)

        assert help_text in capfd.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("recall", "the crane"), ("search", "crane"), ("timeline",), ("sessions",), ("expand", "ep_1"),
        ("where",), ("report",), ("cost",), ("doctor", "--quick"), ("tasks",), ("projects",), ("export",),
        ("forget", "ep_1"), ("undo", "ep_1"), ("consolidate",), ("ui", "--no-open"), ("logs",), ("review",),
    ],
)  # fmt: skip
def test_a_mistyped_memory_folder_is_named_and_not_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    typo = tmp_path / "typo"

    with pytest.raises(SystemExit) as ended:
        main(["--home", str(typo), *words])

    said = "".join(capfd.readouterr())
    assert ended.value.code == 1
    assert not typo.exists()
    assert f"there is no memory in {typo}" in said


@pytest.mark.parametrize("words", [("status",), ("recall", "the crane"), ("expand", "ep_1")])
def test_a_memory_folder_of_another_user_is_said_to_be_theirs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    monkeypatch.setattr("os.geteuid", lambda: theirs.stat().st_uid + 1)

    with pytest.raises(SystemExit) as ended:
        main(["--home", str(theirs), *words])

    assert ended.value.code == 1
    assert f"the memory folder {theirs} belongs to another user" in capfd.readouterr().err
    assert list(theirs.iterdir()) == []


def test_a_folder_of_other_files_is_not_a_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").touch()

    with pytest.raises(SystemExit) as ended:
        main(["--home", str(tmp_path), "status"])

    assert ended.value.code == 1
    assert "engram --home" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_saving_makes_the_memory_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--home", str(tmp_path / "new"), "save", "--global", "Weigh the crates twice."])

    assert ended.value.code == 0
    assert (tmp_path / "new" / "memory.db").is_file()


def test_before_the_installation_it_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ENGRAM_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(SystemExit) as ended:
        main(["recall", "the crane"])

    assert ended.value.code == 1
    assert "Type: engram install" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_or_a_word_that_is_not_utf_8_is_not_a_fault(
    filled: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "caf\udce9"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    monkeypatch.chdir(folder)
    for words in (
        ("save", "The caf\udce9 opens at nine"),
        ("recall", "caf\udce9"),
        ("where",),
        ("blame", "menu.md"),
        ("sessions", "caf\udce9"),
        ("forget", "caf\udce9"),
        ("pause", "--project", "caf\udce9"),
        ("timeline", "--project", str(folder)),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = capfd.readouterr().err
        assert ended.value.code in (0, 1), (words, told)
        assert "bug in Engram" not in told, words


def test_a_memory_folder_that_is_a_link_to_nothing_is_not_created_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It may be on a disk that is not mounted. Before, it was "no memory", with the advice to install."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk")

    for command in (["status"], ["up", "--once"]):
        with pytest.raises(SystemExit) as ended:
            main(["--home", str(link), *command])
        assert ended.value.code == 1
        assert f"{link} is a link to {tmp_path / 'disk'}, which does not exist" in capfd.readouterr().err
    assert not (tmp_path / "disk").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_of_writing_names_the_file(filled: Store, run: Callable[..., Result]) -> None:
    assert (
        "/dev/full can't be written: No space left on device" in run("export", "--output", "/dev/full", code=1).stderr
    )
