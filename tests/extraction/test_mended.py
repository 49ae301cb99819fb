"""Fixes and commits: kept only where what was run proves them, and only with a cause or a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_turns import Make

from engram.enums import Kind, Status
from engram.extraction.candidate import ExtractionContext
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.local.proven_fixes import commits, fix_memories, fixes, short_command
from engram.transcripts.calls import read_message
from engram.transcripts.turns import MAX_COMMAND_CHARS, EntryRef, Role, TextBlock, Turn

HEREDOC = """git add -A && git commit -m "$(cat <<'EOF'
fix(cache): key entries by branch

Two branches share one entry of cache.py, which makes the second one read stale results.

Co-Authored-By: Claude <noreply@anthropic.com>
EOF
)" && git status"""
REASON = "Two branches share one entry of cache.py, which makes the second one read stale results."
CAUSE = "The key of `cache.py` left out the branch because it was built before branches existed."


def mended(make: type[Make], *said: str, closing: str = "All tests pass.", key: str = "t1") -> Turn:
    """A failing test, what the assistant says about it, a change, the test that passes, and a last message."""
    return make.turn(
        "the tests fail",
        make.run("pytest tests/test_cache.py", fails="E  KeyError: 'branch'", uuid=f"{key}-u1"),
        *said,
        make.edit("src/cache.py", uuid=f"{key}-u2"),
        make.run("pytest tests/test_cache.py", uuid=f"{key}-u3"),
        closing,
        key=key,
    )


def kept(*turns: Turn) -> list[Any]:
    return list(fixes(turns))


@pytest.mark.parametrize(
    "cause",
    [
        CAUSE,
        "`cache.py` never sets the branch, so the lookup raises.",
        "The root cause is that the cache key is built without the branch.",
        "The branch is missing in the key that `cache.py` builds.",
        "`read_cache()` requires a branch that the caller doesn't pass.",
    ],
)
def test_a_proven_fix_is_kept_with_its_cause_its_command_and_its_files(make: type[Make], cause: str) -> None:
    (found,) = kept(mended(make, cause))

    assert found.summary == f"`pytest tests/test_cache.py` failed: {cause} It passed after a change of cache.py."
    assert (found.kind, found.status, found.evidence) == (Kind.FIX, Status.ACTIVE, ("t1-1", "t1-u1", "t1-u3"))
    assert found.facts == ("E KeyError: 'branch'", "pytest tests/test_cache.py", "changed: cache.py")


def test_brackets_of_a_function_stay(make: type[Make]) -> None:
    (found,) = kept(mended(make, "`handlers[name]()` of `cache.py` fails because the branch is no name."))

    assert "`handlers[name]()`" in found.summary


@pytest.mark.parametrize(
    "said",
    [
        "Let me look at the cache.",
        "The cache might be stale because the branch is missing.",
        "It looks like the branch is missing in the cache.",
        "Is the branch missing because the cache is old?",
        "I'll add the branch to the cache because it is missing.",
        "The tests of the cache fail.",
        "That's because the cache has no branch.",
        "The README is outdated because nobody read it.",
        "The issue is that the test of the cache expects no branch.",
    ],
)
def test_a_guess_a_plan_and_another_matter_are_not_causes(make: type[Make], said: str) -> None:
    assert kept(mended(make, said)) == []


@pytest.mark.parametrize(
    "later",
    [
        "Wait, the branch is set after all.",
        "Hmm, the branch isn't the problem here.",
        "It turns out the branch is set everywhere.",
        "I was wrong about the branch of the key.",
    ],
)
def test_a_cause_that_a_later_message_contradicts_is_not_kept(make: type[Make], later: str) -> None:
    assert kept(mended(make, CAUSE, later)) == []
    assert len(kept(mended(make, later, CAUSE))) == 1


def test_a_cause_after_which_the_command_failed_again_is_not_kept(make: type[Make]) -> None:
    fails = make.run("pytest tests/test_cache.py", fails="E", uuid="u0")

    assert kept(make.turn("x", fails, CAUSE, key="t0"), mended(make)) == []


@pytest.mark.parametrize("objection", ["no, that's not it", "it still fails here", "That did not help, same error."])
def test_a_fix_that_the_user_denies_is_not_kept(make: type[Make], objection: str) -> None:
    turn = mended(make, CAUSE)

    assert kept(turn, make.turn(objection, "I see.", key="t2")) == []
    assert kept(turn, make.turn("", "The build ended.", key="t2"), make.turn(objection, "I see.", key="t3")) == []
    assert kept(interrupted(turn, objection)) == []
    assert len(kept(turn, make.turn("thanks, commit it", "Done.", key="t2"))) == 1
    assert len(kept(interrupted(turn, "thanks, commit it"))) == 1


@pytest.mark.parametrize(
    "words",
    [
        "I was wrong, it wasn't the key of the cache.",
        "It turns out that the key was never the problem. The worker read an old file.",
        "My earlier diagnosis was wrong: the branch has no part in it.",
        "The real cause is the clock. The cache key had nothing to do with it.",
    ],
)
def test_a_cause_that_is_taken_back_in_a_later_turn_is_not_kept(make: type[Make], words: str) -> None:
    turn = mended(make, CAUSE)
    between = make.turn("thanks, and now the docs", "The docs are written.", key="t2")

    assert kept(turn, between, make.turn("are you sure about the test?", words, key="t3")) == []
    assert kept(turn, between, make.turn(words, "I see.", key="t3")) == []


@pytest.mark.parametrize(
    "words",
    [
        "I was wrong about the colour of the button.",
        "I was wrong about the clock; the key of the cache is the cause.",
        "I was wrong: the real cause is the key of the cache.",
        "It failed not because of the clock but because of the branch in the key.",
        "The failure of the cache was not because of the clock.",
        "The test was not because of the clock: it was the key of the cache.",
        "The cache key was not the only thing in the way.",
        "The cache key is not the problem any more.",
        "I was wrong: the other test does not use the branch fixture at all.",
        "The README was not the latest one.",
        "The key of the cache is built from the branch now.",
        "I was wrong.",
    ],
)
def test_a_cause_stays_if_something_else_is_taken_back_later(make: type[Make], words: str) -> None:
    assert len(kept(mended(make, CAUSE), make.turn("and the page?", words, key="t2"))) == 1


def interrupted(turn: Turn, words: str) -> Turn:
    """The turn with words that the user typed at its end."""
    said = TextBlock(uuid="later", role=Role.USER, text=words)
    return replace(turn, said=(*turn.said, said), entries=(*turn.entries, EntryRef("later", 9_000, 90, 90)))


@pytest.mark.parametrize("command", ["CI=1 SECRETS_PATH=/etc/the/long/way/to/the/secrets.env pytest", "pytest -"])
def test_a_command_is_named_without_what_is_set_for_it(make: type[Make], command: str) -> None:
    assert short_command(command) == "pytest"


@pytest.mark.parametrize("command", ["OUT=$(make test)", "FILES=(one two)"])
def test_a_command_in_a_value_is_not_cut(command: str) -> None:
    assert short_command(command) == command


@pytest.mark.parametrize(
    "error",
    [
        "FAIL\tdemo/cache [build failed]",
        "src/cache.ts(23,2): error TS2322: Type 'null' is not assignable to type 'string'.",
        "error[E0308]: mismatched types",
        "cache/cache.go:141:21: undefined: branch",
    ],
)
def test_an_error_that_a_compiler_names_is_not_a_memory(make: type[Make], error: str) -> None:
    fails = make.run("make check", fails=error, uuid="u1")
    turn = make.turn("go", fails, CAUSE, make.edit("src/cache.py"), make.run("make check", uuid="u2"))

    assert kept(turn) == []


def test_the_closing_message_may_state_the_cause(make: type[Make]) -> None:
    closing = "All pass.\n\n**Root cause:** `cache.py` left out the branch, so two branches shared one entry."

    (found,) = kept(mended(make, closing=closing))

    assert found.summary.startswith("`pytest tests/test_cache.py` failed: `cache.py` left out the branch, so two")
    whole = "The key of `cache.py` left out the branch, since it was built before branches existed and were shared."
    assert whole in kept(mended(make, CAUSE, closing=f"Done. {whole}"))[0].summary
    assert kept(mended(make, closing="The sweeper was slow because the folder grew.")) == []


def test_the_sentence_that_says_what_mended_it_is_kept_too(make: type[Make]) -> None:
    (found,) = kept(mended(make, f"{CAUSE} The fix is a key of branch and path. Next comes the sweeper."))

    assert f"{CAUSE} The fix is a key of branch and path. It passed" in found.summary


def test_the_next_sentence_may_say_what_has_to_be_done(make: type[Make]) -> None:
    (found,) = kept(mended(make, f"{CAUSE} I need to use `sweep=auto` there."))
    (vague,) = kept(mended(make, f"{CAUSE} I need to add it there somehow."))

    assert f"{CAUSE} I need to use `sweep=auto` there. It passed" in found.summary
    assert f"{CAUSE} It passed" in vague.summary


@pytest.mark.parametrize(
    ("remedy", "is_told"),
    [
        ("I added those folders to the ignore list of the check.", True),
        ("I've limited the pool of the worker to five connections.", True),
        ("It now returns the path early from an empty lookup.", True),
        ("The lookup now takes `branch` as well.", True),
        ("I updated the test.", False),
        ("It now passes all tests of the sweeper suite.", False),
        ("Let me look at the sweeper of the worker first.", False),
        ("Let me add some logging to the loader to see what it returns.", False),
        ("I'll disable the whole suite of the sweeper until Monday then.", False),
        ("I'm going to create a ticket for the maintainer about the outage.", False),
        ("Let's skip the failing check of the sweeper and go on.", False),
        ("I need to add those folders to the ignore list of the check.", False),
    ],
)
def test_a_remedy_is_told_if_it_says_what_was_changed(make: type[Make], remedy: str, is_told: bool) -> None:
    (found,) = kept(mended(make, f"{CAUSE} {remedy}"))

    assert (remedy in found.summary) is is_told


def test_an_abbreviation_is_not_a_name(make: type[Make]) -> None:
    (found,) = kept(mended(make, f"{CAUSE} The fix is a key of branch and path (e.g. in sweeper.py)."))

    assert "sweeper.py" in found.entities
    assert "e.g" not in found.entities


def test_an_error_line_is_never_told(make: type[Make]) -> None:
    steps = [
        make.run("pytest", fails="E zebra", uuid="u1"),
        CAUSE,
        make.edit("cache.py"),
        make.run("pytest", uuid="u2"),
    ]

    (found,) = kept(make.turn("go", *steps))

    assert "zebra" not in found.summary + found.content


def test_one_cause_of_two_commands_is_told_once_and_a_commit_is_a_fact(make: type[Make]) -> None:
    commit = make.run("git commit -m x", uuid="c1")._replace(commit="abc1234 key by branch")
    lint, check = (make.run(name, fails="E branch", uuid=name) for name in ("make lint", "make check"))
    passed = [make.run(name, uuid=f"{name}2") for name in ("make lint", "make check")]

    (found,) = kept(make.turn("go", lint, check, CAUSE, make.edit("cache.py"), *passed, commit))

    assert "abc1234 key by branch" in found.facts


def test_a_failing_test_that_passes_after_an_edit_is_a_fix_across_turns_too(make: type[Make]) -> None:
    first = make.turn("why?", make.run("cd /r && make check 2>&1 | tail -5", fails="no rule", uuid="u1"), key="t1")
    second = make.turn("fix it", make.edit("Makefile", uuid="u2"), make.run("make check", uuid="u3"), key="t2")

    (found,) = fix_memories([first, second])

    assert (found.last.error_line, found.files, found.turn) == ("no rule", ("Makefile",), 1)
    assert (found.first.uuid, found.last.uuid, found.passed.uuid) == ("u1", "u1", "u3")


def test_what_proves_nothing_is_not_a_fix(make: type[Make]) -> None:
    failed, edit = make.run("pytest", fails="boom", uuid="u1"), make.edit("a.py")
    retried = make.turn("go", failed, make.run("pytest", uuid="u2"))
    edited_before = make.turn("go", edit, failed, make.run("pytest", uuid="u2"))
    other = make.turn("go", failed, edit, make.run("pytest b", uuid="u2"))
    hidden = make.turn("go", failed, edit, make.run("pytest | tail -3", uuid="u2"))
    searched = make.turn("go", make.run("pytest | grep x", fails="", uuid="u1"), edit, make.run("pytest", uuid="u2"))

    assert [fix_memories([turn]) for turn in (retried, edited_before, other, hidden, searched)] == [[]] * 5


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (HEREDOC, ("fix(cache): key entries by branch", REASON)),
        (f'git commit -m "subject" -m "{REASON}"', ("subject", REASON)),
        (f"git commit -am 'subject\n\n{REASON}'", ("subject", REASON)),
        (f"git commit -m @'\nsubject\n\n{REASON}\n'@", ("subject", REASON)),
        (f'cd app && rtk git commit -m "subject" -m "{REASON}"', ("", "")),
        ("git commit --amend --no-edit", ("", "")),
        ("echo 'git commit -m \"no\"'", ("", "")),
        ("git log --grep commit", ("", "")),
        (f'git commit --dry-run -m "subject" -m "{REASON}"', ("", "")),
        (f'git commit -am "subject" -m "{REASON}" --amend --dry-run', ("", "")),
        (f'git commit \\\n  --short -m "subject" -m "{REASON}"', ("", "")),
        (f'git commit --dry-run -m x && git commit -m "subject" -m "{REASON}"', ("subject", REASON)),
        (f'git commit -n -m "add --dry-run" -m "{REASON}"', ("add --dry-run", REASON)),
        (f'git commit -m "subject" -m "{REASON}" && git push --dry-run', ("subject", REASON)),
    ],
)
def test_subject_and_body_are_read_from_the_command(command: str, message: tuple[str, str]) -> None:
    assert read_message(command) == message


def test_a_commit_that_another_program_runs_is_read_where_that_is_wanted() -> None:
    assert read_message('cd app && rtk git commit -m "subject"', by_runner=True) == ("subject", "")
    assert read_message('echo git commit -m "subject"', by_runner=True) == ("", "")


def test_of_a_message_that_was_cut_only_whole_sentences_are_read() -> None:
    command = f'git commit -m "subject\n\n{REASON} And {"more " * 100}'[:MAX_COMMAND_CHARS]

    assert read_message(command) == ("subject", REASON)


def test_a_commit_with_a_reason_is_kept_with_what_explains_it(make: type[Make]) -> None:
    work = make.turn("why is it stale?", make.edit("cache.py", uuid="u1"), f"Fixed. {REASON}", key="t1")
    commit = make.turn("commit it", make.run(HEREDOC, uuid="c1"), "Committed.", key="t2")

    (found,) = commits([work, commit])

    assert found.summary == f"cache: key entries by branch. {REASON}"
    assert (found.kind, found.status, found.turn_keys) == (Kind.FIX, Status.ACTIVE, ("t2",))
    assert found.evidence == ("c1", "t1-1")


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        (f"{REASON} The second entry held {'old ' * 60}rows.", REASON),
        (f"{REASON}\n\nFix: take {'the branch ' * 30}into the key.", REASON),
        (f"{REASON}\nAll tests pass.", f"{REASON}\nAll tests pass."),
        (f"Entries of cache.py share one branch {'and a stale result ' * 30}.", ""),
    ],
)
def test_what_explains_a_commit_is_quoted_in_whole_sentences(make: type[Make], said: str, quoted: str) -> None:
    (found,) = commits([make.turn("commit it", said, make.run(HEREDOC, uuid="c1"))])

    _, _, excerpt = found.content.partition("\n\n[also] ")
    assert excerpt == quoted


def committed(make: type[Make], message: str) -> list[Any]:
    return list(commits([make.turn("commit it", make.run(f'git commit -m "{message}"', uuid="c1"))]))


@pytest.mark.parametrize(
    "reason",
    [
        "Passing an empty type makes the reader join chunks wrongly, losing the last one.",
        "Absolute paths fail behind a rewrite because the server strips the folder.",
        "The daemon cannot be stopped where the shell has no job control.",
        "The vendor's parser doesn't accept a byte order mark.",
        "AGENTS.md takes precedence where both files exist.",
        "Interim fix, until the registry has names of one kind.",
        "That is enough for now, until the registry has names of one kind.",
        "The newer parser breaks the compiled extension, so the project must stay on version 4.",
        "The newer parser is not supported yet, because its chunks have no length.",
        "Clients of the existing endpoint still call it, so it cannot be removed.",
        "The vendor changed its licence, so the lawyers forbid the newer parser.",
        "The left join never matches because the key on that side is null.",
        "The service is rate limited, so each reader must not fetch its own chunks.",
        "The shell splits on spaces, so items break.",
        "Changes of the schema never reach the readers.",
    ],
)
def test_a_sentence_that_says_why_is_kept_without_the_list_of_changes(make: type[Make], reason: str) -> None:
    (found,) = committed(make, f"feat: read whole chunks\n\n{reason}\n\n- add a reader\n- rename the writer")

    assert found.summary == f"Read whole chunks. {reason}"


@pytest.mark.parametrize(
    "message",
    [
        "wip",
        "feat: read whole chunks",
        "feat: read whole chunks\n\n- add a reader because it is needed\n- rename the writer",
        "feat: read whole chunks\n\nAdds a reader and a writer, and renames the old one.",
        "docs: describe chunks\n\nReaders could not find the format, so it has a page.",
        "chore: bump chunks\n\nThe old one failed silently.",
        "feat: read whole chunks\n\nA reader now joins them, enabling the importer to read them at once.",
        "feat: read whole chunks\n\nInstead of lines, the reader takes chunks.",
        "Update TestChunks for the new reader\n\nNow that chunks are whole, it reads one.",
    ],
)
def test_a_commit_that_does_not_say_why_is_not_a_memory(make: type[Make], message: str) -> None:
    assert committed(make, message) == []


@pytest.mark.parametrize(
    "over",
    [
        "Passing an empty type made the reader join chunks wrongly, which lost the last one.",
        "The daemon was only stopped where the shell had job control.",
        "Two branches shared one entry, so the second one never matched.",
        "The lookup failed because the path was relative.",
        "The entries took the name of the folder, so they hid each other.",
    ],
)
def test_a_fault_that_the_commit_ended_is_not_a_memory(make: type[Make], over: str) -> None:
    assert committed(make, f"fix: read whole chunks\n\n{over}") == []


@pytest.mark.parametrize(
    "told",
    [
        "Callers no longer need the registry name.",
        "Use relative paths to ensure that they never break behind a rewrite.",
        "This never loses the last chunk.",
        "Falls back to the default when the variable is not set.",
        "The new reader doesn't lose the last chunk.",
        "All tests pass, and the linter never fails.",
        "Keep unknown chunks, so readers can't fail.",
        "Readers must not fail, which takes three steps: 1. Add a reader.",
        "Reuse the loader of the ledger, so readers never load it twice.",
    ],
)
def test_what_the_change_itself_does_is_not_a_reason(make: type[Make], told: str) -> None:
    assert committed(make, f"feat: read whole chunks\n\n{told}") == []


@pytest.mark.parametrize(
    "subject", ["test: read chunks", "release: 4.1", "Release 4.1", "lint: chunks", "docs(api): chunks"]
)
def test_a_commit_that_changes_nothing_of_the_program_is_not_a_memory(make: type[Make], subject: str) -> None:
    assert committed(make, f"{subject}\n\nThe parser doesn't accept a byte order mark.") == []


@pytest.mark.parametrize(
    "subject",
    [
        "fix(release): sign with the old key",
        "feat(test): run against Postgres",
        "fix(lint): ignore what is generated",
        "Release the lock before the callback",
        "Bump the stack of threads to 8 MB",
    ],
)
def test_a_commit_is_kept_for_its_reason_whatever_it_is_about(make: type[Make], subject: str) -> None:
    assert len(committed(make, f"{subject}\n\nThe store rejects anything else, so every upload fails.")) == 1


@pytest.mark.parametrize(
    "told", ["For now.", "Nobody asked for it for now.", "This was good enough for now.", "A temporary solution."]
)
def test_for_now_alone_is_not_a_reason(make: type[Make], told: str) -> None:
    assert committed(make, f"feat: skip the check\n\n{told}") == []


@pytest.mark.parametrize(
    "before",
    [
        "A shell announced the job on the terminal, and the first prompt showed it.",
        "The daemon starts beside the shell.",
        "Jobs of a shell were announced at once.",
    ],
)
def test_the_sentence_before_a_reason_is_kept_with_it(make: type[Make], before: str) -> None:
    reason = "Ending it later fails because the notice is printed at the start."

    (found,) = committed(make, f"fix: start without a notice\n\n{before} {reason}")
    (alone,) = committed(make, f"fix: start without a notice\n\nThis adds a flag. {reason}")

    assert found.summary == f"Start without a notice. {before} {reason}"
    assert alone.summary == f"Start without a notice. {reason}"


def test_a_commit_with_a_reason_for_which_there_is_no_room_is_no_memory(make: type[Make]) -> None:
    long = f"The parser doesn't accept a mark {'and a mark ' * 40}at the start."
    short = "The reader cannot see a mark."

    assert committed(make, f"feat: read whole chunks\n\n{long}") == []
    (found,) = committed(make, f"feat: read whole chunks\n\n{long} {short}")
    assert found.summary == f"Read whole chunks. {short}"


@pytest.mark.parametrize("command", [f"{HEREDOC}; git log", f"{HEREDOC} | tail -2"])
def test_a_commit_that_nothing_proves_is_not_a_memory(make: type[Make], command: str) -> None:
    hidden = make.run(command, uuid="c1")
    running = make.run(HEREDOC, uuid="c1")._replace(is_error=None, exit_code=None)

    assert [list(commits([make.turn("commit it", action)])) for action in (hidden, running)] == [[], []]
    printed = (hidden._replace(commit="abc1234 key by branch"), make.run(HEREDOC, uuid="c1"))
    assert [len(list(commits([make.turn("commit it", action)]))) for action in printed] == [1, 1]


def test_a_failed_commit_is_not_a_memory_and_of_an_amended_one_the_last_message_is_kept(make: type[Make]) -> None:
    failed = make.turn("commit it", make.run(HEREDOC, fails="hook failed", uuid="c0"), key="t0")
    first = make.turn("commit it", make.run(HEREDOC, uuid="c1"), key="t1")
    amended = make.turn("amend it", make.run(HEREDOC.replace("git commit", "git commit --amend"), uuid="c2"), key="t2")

    found = LocalExtractor().propose([failed, first, amended], ExtractionContext(project="demo"))

    assert [candidate.evidence[0] for candidate in found] == ["c2"]


def test_of_an_amended_commit_with_another_message_the_last_one_is_kept(make: type[Make]) -> None:
    reworded = HEREDOC.replace("key entries by branch", "separate the branches").replace(
        REASON, "Two branches share one entry, which makes the second one get an old result."
    )
    first = make.turn("commit it", make.run(HEREDOC, uuid="c1"), key="t1")
    amended = make.turn("amend it", make.run(reworded.replace("git commit", "git commit --amend"), uuid="c2"), key="t2")

    found = LocalExtractor().propose([first, amended], ExtractionContext(project="demo"))

    assert [candidate.evidence[0] for candidate in found] == ["c2"]


def undone_by(make: type[Make], *commands: str) -> list[str]:
    """The calls whose commits are memories, after a commit and these commands."""
    made = make.run(HEREDOC, uuid="c1")._replace(commit="abc1234 fix(cache): key entries by branch")
    later = [make.run(command, uuid=f"x{number}") for number, command in enumerate(commands)]
    return [
        candidate.evidence[0]
        for candidate in commits(
            [make.turn("commit it", made, key="t1"), make.turn("no, take it back", *later, key="t2")]
        )
    ]


@pytest.mark.parametrize(
    "command",
    [
        "git revert --no-edit HEAD",
        "git revert abc1234567 --no-edit",
        "git -C . revert HEAD~0",
        "git reset --hard HEAD~1",
        "git log --oneline -3 && git reset -q --hard @^",
    ],
)
def test_a_commit_that_the_session_undid_is_not_a_memory(make: type[Make], command: str) -> None:
    assert undone_by(make, command) == []
    assert undone_by(make, "git status", command) == []


@pytest.mark.parametrize(
    "commands",
    [
        ("git reset --soft HEAD~1",),  # what was changed is still there
        ("git reset HEAD~1",),
        ("git reset --hard",),
        ("git revert HEAD~1",),
        ("git revert 1234567",),
        ("git revert --no-edit HEAD; git log",),  # nothing shows that it passed
        ("git pull", "git reset --hard HEAD~1"),  # the last commit may be another one
        ("git branch kept", "git reset --hard HEAD~1"),
        ("git reset --hard HEAD~1", "git cherry-pick abc1234"),
        ("git stash",),
        ("git stash pop",),
        ("git -C other reset --hard HEAD~1",),  # another repository, another worktree
        ("cd ../other && git reset --hard HEAD~1",),
        ("cd ../other && ls", "git reset --hard HEAD~1"),
        ("git checkout main", "git reset --hard HEAD~1"),
        ("git commit -F message.txt", "git reset --hard HEAD~1"),  # the last commit has no known message
        ("git revert --no-edit HEAD", "git revert --no-edit HEAD"),
        ("git revert --no-edit HEAD", "git reset --hard HEAD~1"),
        ("git revert --no-edit abc1234", "git revert --no-edit def5678"),
        ("git reset --hard HEAD~1", "git reset --hard ORIG_HEAD"),
        ("git reset --hard HEAD~1", "git reset --hard 'HEAD@{1}'"),
    ],
)
def test_a_commit_that_may_still_be_in_force_stays_a_memory(make: type[Make], commands: tuple[str, ...]) -> None:
    assert undone_by(make, *commands) == ["c1"]


def test_an_amended_commit_is_undone_as_a_whole(make: type[Make]) -> None:
    first = make.run(HEREDOC, uuid="c1")
    amended = make.run(HEREDOC.replace("git commit", "git commit --amend"), uuid="c2")
    undone = make.run("git reset --hard HEAD~1", uuid="x")

    assert list(commits([make.turn("commit it", first, amended, undone)])) == []
