"""A commit message that gives a reason is a memory, with the messages that say the same as evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_turns import Make

from engram.enums import Kind, Status
from engram.extraction.commits import commits
from engram.extraction.local import LocalExtractor
from engram.extraction.protocol import ExtractionContext
from engram.extraction.select import session_room
from engram.transcripts.commit_message import read_message
from engram.transcripts.record import MAX_COMMAND_CHARS

HEREDOC = """git add -A && git commit -m "$(cat <<'EOF'
fix(cache): key entries by branch

Two branches shared one entry of cache.py, so the second one read stale results.

Co-Authored-By: Claude <noreply@anthropic.com>
EOF
)" && git status"""
REASON = "Two branches shared one entry of cache.py, so the second one read stale results."


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


def test_a_failed_commit_and_one_without_a_reason_are_none(make: type[Make]) -> None:
    failed = make.turn("commit it", make.run(HEREDOC, fails="hook failed", uuid="c1"), key="t1")
    bare = make.turn("commit it", make.run('git commit -m "wip"', uuid="c2"), key="t2")

    assert list(commits([failed, bare])) == []


def test_of_an_amended_commit_the_last_message_is_kept(make: type[Make]) -> None:
    first = make.turn("commit it", make.run(HEREDOC, uuid="c1"), key="t1")
    amended = make.turn("amend it", make.run(HEREDOC.replace("git commit", "git commit --amend"), uuid="c2"), key="t2")

    found = LocalExtractor().propose([first, amended], ExtractionContext(project="demo"))

    assert [candidate.evidence[0] for candidate in found if "key entries" in candidate.summary] == ["c2"]


def test_the_room_of_a_session_grows_with_the_square_root_of_the_work(make: type[Make]) -> None:
    talk = make.turn("why?", "word " * 2_000)
    work = replace(talk, actions=(make.edit("cache.py"),))

    assert session_room([]) < session_room([talk]) < session_room([work]) < session_room([work] * 4)
    assert session_room([work] * 4) < 4 * session_room([work])


def test_the_users_rules_are_kept_beyond_the_room(make: type[Make]) -> None:
    prompts = [
        "Always run the linter before pushing.",
        "Never touch generated protobuf stubs.",
        "From now on answer in German.",
        "We use pnpm here.",
        "Never wrap long Markdown lines.",
        "I prefer small commits over large ones.",
        "Always name branches after tickets.",
    ]
    turns = [make.turn(prompt, "Understood.", key=f"t{n}") for n, prompt in enumerate(prompts)]

    found = LocalExtractor().propose(turns, ExtractionContext(project="demo"))

    assert session_room(turns) < len(prompts)
    assert {candidate.summary for candidate in found} >= set(prompts)
