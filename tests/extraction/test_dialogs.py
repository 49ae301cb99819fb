"""Decisions in dialogs: kept with their question, and not kept where they decide nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_turns import Make

from engram.enums import Importance, Voice
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, Candidate
from engram.extraction.local.dialog_decisions import decisions
from engram.transcripts.turns import Action, Role, TextBlock, Turn

QUESTION = "Where shall the ledger live?"
OPTIONS = f"{QUESTION}\n- SQLite: a small file\n- Postgres (Recommended): shared by all machines"
LONG = " ".join(f"Reason {number} is that the importer reads them again." for number in range(20))


def dialog(make: type[Make], *texts: tuple[Role, str], action: Action | None = None) -> Turn:
    """A turn with the texts of one dialog."""
    turn = make.turn("go on")
    said = [
        TextBlock(uuid=f"d{n}", role=role, text=text, message_id="toolu_1#0") for n, (role, text) in enumerate(texts)
    ]
    return replace(turn, said=(*turn.said, *said), actions=() if action is None else (action,))


def kept(make: type[Make], *texts: tuple[Role, str]) -> list[Candidate]:
    return list(decisions(dialog(make, *texts)))


def answered(make: type[Make], typed: str, question: str = QUESTION) -> list[Candidate]:
    return kept(make, (Role.PROPOSED, question), (Role.USER, typed))


def test_a_label_is_kept_with_its_question_and_what_a_short_one_means(make: type[Make]) -> None:
    (found,) = kept(make, (Role.PROPOSED, OPTIONS), (Role.CHOSEN, f"{QUESTION} → Postgres (Recommended)"))

    assert found.summary == f"Asked “{QUESTION}” the user chose: Postgres (shared by all machines)."
    assert (found.voice, found.importance, found.evidence) == (Voice.CHOSEN, Importance.HIGH, ("d1", "d0"))
    assert OPTIONS in found.content


def test_a_note_beside_a_label_is_kept_with_it(make: type[Make]) -> None:
    chosen = (Role.CHOSEN, f"{QUESTION} → SQLite")
    (found,) = kept(make, (Role.PROPOSED, OPTIONS), chosen, (Role.USER, "but never on a share"))

    assert (
        found.summary == f"Asked “{QUESTION}” the user chose: SQLite (a small file); and said: “but never on a share”."
    )


@pytest.mark.parametrize("typed", ["in the home folder", "Neither, we keep it in memory.", "No"])
def test_an_answer_in_own_words_is_kept(make: type[Make], typed: str) -> None:
    (found,) = answered(make, typed)

    assert found.summary.startswith(f"Asked “{QUESTION}” the user answered: {typed.rstrip('.')}")


@pytest.mark.parametrize(
    "typed",
    [
        "You decide.",
        "up to you",
        "whatever you think is best",
        "I don't know",
        "not sure",
        "no preference",
        "let's discuss",
    ],
)
def test_an_answer_that_decides_nothing_is_not_kept(make: type[Make], typed: str) -> None:
    assert answered(make, typed) == []
    assert kept(make, (Role.PROPOSED, OPTIONS), (Role.CHOSEN, f"{QUESTION} → {typed}")) == []


@pytest.mark.parametrize(
    "question",
    [
        "How should I proceed?",
        "Should I commit this now?",
        "Which task shall I do next?",
        "Ready to push?",
        "What next?",
    ],
)
def test_an_answer_about_the_next_step_is_not_kept(make: type[Make], question: str) -> None:
    assert answered(make, "the importer", question) == []
    assert kept(make, (Role.PROPOSED, question), (Role.CHOSEN, f"{question} → Yes")) == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What do you want to do when the sync fails?", "Stop and tell the user"),
        ("How should the importer treat untracked files?", "Leave them alone"),
        ("Which branch should we release from?", "the stable one"),
        ("Which one should I use for the cache: Redis or Memcached?", "Redis"),
        ("How should I handle conflicts between two offline edits?", "The last one wins"),
        ("Which error code should the API return for an expired token?", "401"),
        ("What do you want to see on the dashboard?", "Only revenue and churn"),
        ("Have you decided between a monolith and services?", "A monolith, we are three"),
        ("What commit message language do you want?", "English"),
        ("Should I squash commits before merging?", "Yes"),
        ("Should I test private functions too?", "No"),
        ("Is this right: tenants never share a database?", "Yes"),
        ("Should I add retries to the client?", "No"),
    ],
)
def test_an_answer_about_how_it_is_to_be_is_kept(make: type[Make], question: str, answer: str) -> None:
    (typed,) = answered(make, answer, question)
    (chosen,) = kept(make, (Role.PROPOSED, question), (Role.CHOSEN, f"{question} → {answer}"))

    assert typed.summary == f"Asked “{question}” the user answered: {answer}."
    assert chosen.summary == f"Asked “{question}” the user chose: {answer}."


@pytest.mark.parametrize(
    ("options", "label", "told"),
    [
        ("- SQLite on a share: slow\n- SQLite: a small file", "SQLite", "SQLite (a small file)"),
        ("- Postgres (Recommended): shared\n- SQLite: a file", "Postgres", "Postgres (shared)"),
        ("- Plan B: SQLite: a small file", "Plan B: SQLite", "Plan B: SQLite (a small file)"),
        ("- SQLite → Postgres: moved at night", "SQLite → Postgres", "SQLite → Postgres (moved at night)"),
    ],
)
def test_a_label_is_told_with_its_own_description(make: type[Make], options: str, label: str, told: str) -> None:
    (found,) = kept(make, (Role.PROPOSED, f"{QUESTION}\n{options}"), (Role.CHOSEN, f"{QUESTION} → {label}"))

    assert found.summary == f"Asked “{QUESTION}” the user chose: {told}."


@pytest.mark.parametrize("label", ["You decide", "Later", "None of these"])
def test_what_the_user_adds_to_a_label_that_decides_nothing_is_kept(make: type[Make], label: str) -> None:
    chosen = (Role.CHOSEN, f"{QUESTION} → {label}")
    (found,) = kept(make, (Role.PROPOSED, OPTIONS), chosen, (Role.USER, "but never on a share"))

    assert found.summary == f"Asked “{QUESTION}” the user chose: {label}; and said: “but never on a share”."
    assert kept(make, (Role.PROPOSED, OPTIONS), chosen, (Role.USER, "whatever you think")) == []


@pytest.mark.parametrize("typed", ["What would Postgres cost?", "?", "why not both?", "which one do you prefer?"])
def test_an_answer_that_only_asks_decides_nothing(make: type[Make], typed: str) -> None:
    assert answered(make, typed) == []


@pytest.mark.parametrize("label", ["What about SQLite?", "Do tests first", "Why not both?", "Have tests write it"])
def test_a_label_that_is_worded_as_a_question_was_chosen(make: type[Make], label: str) -> None:
    (found,) = kept(make, (Role.PROPOSED, OPTIONS), (Role.CHOSEN, f"{QUESTION} → {label}"))

    assert found.summary.removesuffix(".") == f"Asked “{QUESTION}” the user chose: {label}"


def test_a_short_label_is_kept_with_a_longer_description_where_there_is_room(make: type[Make]) -> None:
    told = f"the rows, {'the totals of each month, ' * 5}and no more"
    chosen = f"{QUESTION} → A small file"

    (found,) = kept(make, (Role.PROPOSED, f"{QUESTION}\n- A small file: {told}"), (Role.CHOSEN, chosen))
    asked = f"{'Shall the importer read each of the rows of the ledger again before it writes them? ' * 2}{QUESTION}"
    long = f"{asked}\n- A small file: {told}"
    noted = (Role.USER, ("but never on a share " * 8).strip())
    (without_room,) = kept(make, (Role.PROPOSED, long), (Role.CHOSEN, f"{asked} → A small file"), noted)

    assert found.summary == f"Asked “{QUESTION}” the user chose: A small file ({told})."
    assert told not in without_room.summary
    assert without_room.summary.endswith(f" the user chose: A small file; and said: “{noted[1]}”.")
    assert len(without_room.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS


@pytest.mark.parametrize("asked", [QUESTION, f"Where {'of all the places ' * 12}shall the ledger live?"])
@pytest.mark.parametrize("label", [", ".join(f"Folder {number}" for number in range(40)), "Folder" * 80])
@pytest.mark.parametrize("words", ["but never on a share", "but never on a share " * 20, "neveronashare" * 30])
def test_the_users_note_beside_a_long_label_is_kept(make: type[Make], asked: str, label: str, words: str) -> None:
    chosen = (Role.CHOSEN, f"{asked} → {label}")
    (found,) = kept(make, (Role.PROPOSED, asked), chosen, (Role.USER, words))
    (bare,) = kept(make, (Role.PROPOSED, asked), chosen)

    told, _, note = found.summary.partition("; and said: “")
    assert words.startswith(note.rstrip("…”. ") or "no note")
    assert " the user chose: Folder" in told
    assert told.endswith(" …")
    assert len(found.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS
    assert len(bare.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS


def test_a_longer_answer_is_a_title_and_a_quotation(make: type[Make]) -> None:
    words = "Because of the importer, " + "and of the exporter and of the sweeper and of the cache " * 6 + "we keep it."
    (found,) = answered(make, words)

    assert found.summary == f"Asked “{QUESTION}” the user answered: Because of the importer."
    assert words in found.content


def test_nothing_is_cut_within_a_sentence(make: type[Make]) -> None:
    (found,) = answered(make, LONG, f"{LONG} Where shall it live?")

    assert len(found.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS
    assert "Where shall it live?”" in found.summary
    assert found.summary.endswith("again.")


PLAN = """# Plan: Move the ledger

## Context
The ledger is locked because two writers share it.

## Steps
1. Copy rows"""


def test_a_plan_is_kept_with_what_it_is_for(make: type[Make]) -> None:
    (found,) = kept(make, (Role.PROPOSED, PLAN), (Role.CHOSEN, "Approved the plan: Move the ledger"))

    reason = "The ledger is locked because two writers share it."
    assert found.summary == f"The user approved the plan “Move the ledger”: {reason}"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Implementation Plan: Move the ledger", "Move the ledger"),
        ("Plan: Move the ledger", "Move the ledger"),
        ("Revised plan – moveLedger", "moveLedger"),
        ("Plan to move the ledger", "Plan to move the ledger"),
        ("Plan-based limits of the ledger", "Plan-based limits of the ledger"),
        ("Plan–price table of the ledger", "Plan–price table of the ledger"),
        ("Implementation plan:", "Implementation plan:"),
        ("Planner of the ledger", "Planner of the ledger"),
        ("Pricing plan for teams", "Pricing plan for teams"),
    ],
)
def test_a_plan_is_named_by_what_it_is_about(make: type[Make], title: str, name: str) -> None:
    (found,) = kept(make, (Role.PROPOSED, PLAN), (Role.CHOSEN, f"Approved the plan: {title}"))

    assert found.summary.startswith(f"The user approved the plan “{name}”: ")


def test_of_a_long_purpose_the_last_sentences_are_kept(make: type[Make]) -> None:
    aim = "This makes each reader of it slow. So the ledger moves to a database, and the importer asks its writer."
    plan = f"# Move the ledger\n\n## Context\n{LONG} {aim}"
    (found,) = kept(make, (Role.PROPOSED, plan), (Role.CHOSEN, "Approved the plan: Move the ledger"))

    assert found.summary.startswith("The user approved the plan “Move the ledger”: Reason ")
    assert found.summary.endswith(aim)
    assert len(found.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS


@pytest.mark.parametrize(
    "plan",
    [
        "# Move the ledger",
        "# Move the ledger\n\nShort.",
        "",
        "```\ncp a b\n```",
        "# Move the ledger\n\n1. Copy all the rows to the new file\n2. Switch all the readers over to it",
    ],
)
def test_a_plan_that_does_not_say_what_it_is_for_is_not_kept(make: type[Make], plan: str) -> None:
    assert kept(make, (Role.PROPOSED, plan), (Role.CHOSEN, "Approved the plan: Move the ledger")) == []


def test_what_the_user_changed_in_a_plan_is_kept(make: type[Make]) -> None:
    changed = "Approved the plan: Move the ledger\nChanged by the user:\n- Keep the old rows"
    (found,) = kept(make, (Role.PROPOSED, PLAN), (Role.CHOSEN, changed))

    assert found.summary.startswith(
        "The user approved the plan “Move the ledger” and changed in it: “Keep the old rows”"
    )
    assert found.importance is Importance.HIGH
    (two,) = kept(make, (Role.PROPOSED, PLAN), (Role.CHOSEN, f"{changed}\n- Lock the new ones"))
    assert "changed in it: “Keep the old rows”, “Lock the new ones”" in two.summary
    (apart,) = kept(make, (Role.PROPOSED, PLAN), (Role.CHOSEN, f"{changed}\n\n---\n-\n- Lock the new ones\n"))
    assert apart.summary == two.summary
    title = "Move the ledger and everything that refers to it " * 2
    many = "\n".join(f"- {number}" for number in range(99))
    (short,) = kept(make, (Role.CHOSEN, f"Approved the plan: {title}\nChanged by the user:\n{many}"))
    assert "changed in it: “0”, “1”, “2”" in short.summary


@pytest.mark.parametrize(
    "why",
    [
        "never drop the old rows",
        "too big, do the importer alone",
        "We use Postgres here.",
        "do it in two steps",
        "have it write to a second file instead",
        "are you sure? never drop the old rows",
    ],
)
def test_a_rejected_plan_is_kept_with_its_reason(make: type[Make], why: str) -> None:
    rejected = (Role.CHOSEN, "Rejected the plan: Move the ledger")

    (found,) = kept(make, (Role.PROPOSED, PLAN), rejected, (Role.USER, why))

    assert found.summary == f"The user rejected the plan “Move the ledger” and said: “{why}”."
    assert why in found.content
    assert kept(make, (Role.PROPOSED, PLAN), rejected) == []
    assert kept(make, (Role.PROPOSED, PLAN), rejected, (Role.USER, "what if two writers come?")) == []


def commented(make: type[Make], words: str) -> list[Candidate]:
    action = make.run("npm install left-pad", uuid="u1")._replace(result_uuid="d0", is_refused=True, is_error=True)
    return list(decisions(dialog(make, (Role.USER, words), action=action)))


@pytest.mark.parametrize(
    "words",
    [
        "I want telemetry enabled by default, and disabled where the user says so.",
        "Don't install packages with npm, the workspace uses pnpm.",
        "The vendor folder should never hold packages with scripts.",
    ],
)
def test_a_comment_that_says_how_it_is_to_be_is_kept_with_the_call(make: type[Make], words: str) -> None:
    (found,) = commented(make, words)

    assert found.summary == f"When the user refused the command `npm install left-pad`, they said: “{words}”"
    assert found.voice is Voice.CHOSEN


@pytest.mark.parametrize(
    "words",
    [
        "what are you doing...??",
        "merge from origin first",
        "lol I guess this should be go then",
        "let's do this as a separate PR, it must not grow",
        "please write down all the steps we have to follow",
        "do we need to keep the cache by default?",
        "no",
    ],
)
def test_a_comment_for_the_moment_is_not_kept(make: type[Make], words: str) -> None:
    assert commented(make, words) == []
