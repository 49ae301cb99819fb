"""Words in an element become a prompt once this version knows the element for one with a person's words."""

from __future__ import annotations

import pytest
from branch_sessions import Workshop

from engram.consolidation.consolidation_run import consolidate
from engram.models.engine.transaction import Store
from engram.models.search.fulltext import search_passages
from engram.models.sessions.reading_progress import unknown_elements
from engram.models.sessions.recent_work import user_texts_elsewhere
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.settings import Settings
from engram.transcripts import speaker


@pytest.mark.parametrize("name", ["handoff", "side-note", "dictated.text"])
def test_words_in_an_element_become_a_prompt_once_it_is_known_for_a_persons(
    store: Store, settings: Settings, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    session_id = workshop.work("main", f"<{name}>Never push to the quetzal branch.</{name}>")
    session = find_session(store, session_id)
    assert session is not None

    def told() -> tuple[list[str], list[str]]:
        consolidate(store, settings, is_forced=True)
        turns = [stored.turn for stored in turns_of_session(store, session.id)]
        return [turn.users_prompt for turn in turns], list(unknown_elements(store))

    assert told() == ([""], [name])
    monkeypatch.setitem(speaker._USES, name, speaker._Use.PERSON)
    preview = consolidate(store, settings, is_forced=True, is_dry=True)
    assert f"treat 1 text in <{name}> as a person's words" in "\n".join(preview.lines)
    assert list(unknown_elements(store)) == [name]
    assert told() == (["Never push to the quetzal branch."], [])
    assert turns_of_session(store, session.id, only_due=True)
    assert user_texts_elsewhere(store, [hit for hit, _ in search_passages(store, [("quetzal",)], 5)], 0)
