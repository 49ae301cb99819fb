"""Every session has a title that a person recognises: what Claude Code calls it, else its first prompt."""

from __future__ import annotations

import json

import pytest
from transcript_lines import say

from engram.ingest.read_sources import ingest_path
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_entries import drop_summary
from engram.models.sessions.sessions import list_sessions, session_titles
from engram.redaction import redact
from engram.settings import Settings

ENTRY = "11111111-2222-4333-8444-555555555555"


class Read:
    """A session that is read again and again."""

    def __init__(self, store: Store, settings: Settings, name: str = "s1") -> None:
        self.store, self.settings = store, settings
        self.path = settings.projects_folder / "-work-demo" / f"{name}.jsonl"
        self.entry = say(self.path, "user", "Number the footnotes from 0, please. The printer wants it.")
        say(self.path, "assistant", "They are numbered from 0.")

    def add(self, **line: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def title(self) -> str:
        ingest_path(self.store, self.path, settings=self.settings, redact=redact)
        return session_titles(self.store, list_sessions(self.store))[self.path.stem]


@pytest.fixture
def session(store: Store, settings: Settings) -> Read:
    return Read(store, settings)


def test_a_session_is_called_by_its_first_prompt_up_to_a_clause(session: Read) -> None:
    say(session.path, "user", "And now the endnotes")

    assert session.title() == "Number the footnotes from 0"


def test_what_the_user_calls_it_counts_more_than_what_a_model_does_and_the_last_name_counts(session: Read) -> None:
    session.add(type="summary", summary="Footnotes", leafUuid=session.entry)
    assert session.title() == "Footnotes"
    session.add(type="ai-title", aiTitle="Footnotes of the report", sessionId="s1")
    session.add(type="custom-title", customTitle="Printer", sessionId="s1")
    assert session.title() == "Printer"
    session.add(type="ai-title", aiTitle="Endnotes", sessionId="s1")
    session.add(type="custom-title", customTitle="Printers", sessionId="s1")
    assert session.title() == "Printers"


@pytest.mark.parametrize(
    "line",
    [
        {"type": "summary", "summary": "Another session", "leafUuid": ENTRY},
        {"type": "summary", "summary": "No entry"},
        {"type": "custom-title", "customTitle": "  "},
        {"type": "custom-title", "customTitle": 7},
        {"type": "ai-title"},
    ],
)
def test_a_title_of_nothing_or_of_an_unknown_session_is_not_used(session: Read, line: dict[str, object]) -> None:
    session.add(**line)

    assert session.title() == "Number the footnotes from 0"


def test_a_summary_in_another_file_names_the_session_that_it_ends(session: Read, settings: Settings) -> None:
    session.title()
    other = Read(session.store, settings, "s2")
    other.add(type="summary", summary="Footnotes", leafUuid=session.entry)

    assert other.title() == "Number the footnotes from 0"
    assert session.title() == "Footnotes"


def test_a_title_is_redacted(session: Read) -> None:
    secret = "ghp_" + "a1B2" * 9
    session.add(type="custom-title", customTitle=f"Token {secret}", sessionId="s1")

    assert secret not in session.title()


def test_the_agents_title_of_forgotten_words_goes_and_does_not_come_back(session: Read) -> None:
    session.add(type="ai-title", aiTitle="The secret harbour", sessionId="s1")
    session.title()
    with session.store.transaction() as tx:
        drop_summary(tx, tables.Session.session_id == "s1")
    session.add(type="custom-title", customTitle="The secret harbour", sessionId="s1")

    assert session.title() == "Number the footnotes from 0"


def test_a_session_that_begins_with_a_greeting_is_called_by_the_next_prompt_that_says_something(
    store: Store, settings: Settings
) -> None:
    sessions: dict[str, list[str]] = {
        "greeted": [
            "hello",
            "Hi there, Claude!",
            "continue",
            "write a file about geese in docs",
            "now delete that file",
        ],
        "warmed-up": ["Warmup", "Which gulls nest on the pier?"],
        "terse": ["hello", "go on"],
        "telling": ["Hello, count the boats in the harbour", "and now the gulls on the pier"],
    }
    for name, prompts in sessions.items():
        path = settings.projects_folder / "-work-demo" / f"{name}.jsonl"
        for prompt in prompts:
            say(path, "user", prompt)
            say(path, "assistant", "Done.")
        ingest_path(store, path, settings=settings, redact=redact)

    assert session_titles(store, list_sessions(store)) == {
        "greeted": "write a file about geese in docs",
        "warmed-up": "Which gulls nest on the pier?",
        "terse": "hello",
        "telling": "count the boats in the harbour",
    }
