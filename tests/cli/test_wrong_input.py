"""What is typed wrong gets one sentence on standard error that says what to do, and an exit code that is no fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.cli.main import main
from engram.models.engine.transaction import Store

#: A command line, the exit code, and words that its answer must have: what to do.
WRONG: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("recal",), 2, "Did you mean `engram recall`?"),
    (("recall",), 2, "Write: engram recall"),
    (("recall", " "), 1, "describe in a few words"),
    (("recall", "why", "did", "we"), 2, "put a text of several words in quotes"),
    (("recall", "why", "not"), 2, "put a text of several words in quotes"),
    (("edit", "ep_000000000001", "Call baz() first."), 2, "`engram edit --help` shows its options"),
    (("pin", "ep_000000000001", "it is important"), 2, "`engram pin --help` shows its options"),
    (("recall", "x", "--limt", "3"), 2, "Did you mean '--limit'?"),
    (("recall", "x", "--limit", "0"), 2, "is not between 1 and"),
    (("recall", "x", "-n", "abc"), 2, "'abc' is not a number"),
    (("recall", "x", "--project", "nosuch"), 1, "known projects: harbor, lantern"),
    (("expand",), 2, "Write: engram expand [OPTIONS] ID"),
    (("expand", "hello"), 1, "recall and timeline print the ids"),
    (("edit", "ep_ffffffffffff", "--summary", "x"), 1, "recall and timeline print the ids"),
    (("forget", "nothing"), 1, "recall and timeline print the ids"),
    (("purge", "nothing"), 1, "recall and timeline print the ids"),
    (("correct", "ep_ffffffffffff", "text"), 2, "Missing option '--why'. Write: engram correct"),
    (("feedback", "ep_ffffffffffff"), 1, "helpful, wrong or outdated; or --off"),
    (("feedback", "ep_ffffffffffff", "nonsense"), 2, "'helpful', 'wrong', 'outdated'"),
    (("review", "keep", "ep_ffffffffffff"), 1, "recall and timeline print the ids"),
    (("review", "tust"), 2, "engram review --help"),
    (("timeline", "someday"), 1, "yesterday"),
    (("sessions", "nosuch"), 1, "`engram sessions` lists them"),
    (("why", "nosuch"), 1, "An id of a memory begins with ep_"),
    (("why",), 1, "`engram sessions` lists the sessions"),
    (("fix", ""), 1, "give the message"),
    (("blame", "/etc/passwd"), 1, "`engram projects` lists"),
    (("restore", "nosuch"), 1, "`engram restore --list`"),
    (("export", "out.json"), 2, "Write: engram export [OPTIONS]"),
    (("config", "set", "nosuch", "1"), 1, "`engram config` lists them"),
    (("config", "set", "bites", "-1"), 1, "must not be negative"),
    (("config", "set", "recall_limit", "many"), 1, "is invalid: it must be a whole number"),
    (("--set", "topic_threshold=high", "status"), 1, "is invalid: it must be a number"),
    (("--set", "nosuch=1", "status"), 1, "`engram config` lists them all"),
    (("--vault", "nosuch", "status"), 1, "`engram projects vault NAME`"),
    (("completion", "tcsh"), 2, "'bash', 'zsh', 'fish'"),
    (("pause", "--for", "soon"), 2, "Write one such as 90s"),
    (("tasks", "retry"), 2, "name the work by its ID, or use --dead."),
    (("tasks", "retry", "99"), 1, "`engram tasks list --all`"),
    (("consolidate", "--undo", "999"), 1, "engram consolidate --list"),
    (("up", "--json"), 1, "needs --once"),
    (("up", "nosuch"), 1, "needs --once"),
    (("up", "--once", "nosuch"), 1, "does not exist"),
    (("service", "run", "nosuch"), 2, "'worker', 'watcher'"),
    (("projects", "show", "nosuch"), 1, "known projects"),
    (("hub", "sync"), 1, "`engram hub join URL CODE`"),
    (("share", "ep_ffffffffffff"), 1, "`engram team join CODE`"),
    (("pack", "make", "nosuch"), 1, "name them by their ids, or a project"),
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


def test_a_question_that_nobody_can_answer_names_the_option(
    filled: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open() as empty:
        monkeypatch.setattr("sys.stdin", empty)
        with pytest.raises(SystemExit) as ended:
            main(["projects", "forget", "harbor"])

    assert ended.value.code == 1
    assert "add --yes" in capfd.readouterr().err


def test_a_memory_folder_that_is_a_file_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SystemExit) as ended:
        main(["--home", str(tmp_path / "file"), "status"])

    assert ended.value.code == 1
    assert "is a file; the memory folder must be a folder" in capfd.readouterr().err
