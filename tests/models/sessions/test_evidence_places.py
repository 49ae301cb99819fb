"""Evidence is named by file and line, in the order asked; what is unknown names no file."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.sessions.passage_rows import EvidencePlace, places_of
from engram.models.sessions.turn_changes import delete_turn
from tests.models.conversations import make_turn, store_turn


def test_places_come_in_the_order_asked_and_an_unknown_entry_has_no_file(store: Store) -> None:
    store_turn(store, make_turn("t1", "why?", "because", session_id="s1"))
    store_turn(store, make_turn("t2", "how?", session_id="s2"))

    places = places_of(store, ["t2", "never seen", "t1-reply"])

    assert [(place.session_id, place.path, place.line) for place in places] == [
        ("s2", "/x/s2.jsonl", 1),
        ("", "", 0),
        ("s1", "/x/s1.jsonl", 2),
    ]
    assert [place.uuid for place in places] == ["t2", "never seen", "t1-reply"]


def test_an_entry_of_a_forgotten_turn_names_no_file(store: Store) -> None:
    turn_id = store_turn(store, make_turn("t1", "why?"))

    with store.transaction() as tx:
        delete_turn(tx, turn_id)

    assert places_of(store, ["t1"]) == [EvidencePlace(session_id="", uuid="t1", path="", line=0)]


def test_a_place_is_told_by_line_or_else_by_part_and_position() -> None:
    by_line = EvidencePlace(session_id="s", uuid="u", path="/x/s.jsonl", line=7, position=90)
    by_part = EvidencePlace(session_id="s", uuid="u", path="/x/all.db", line=0, part="42", position=90)
    by_position = EvidencePlace(session_id="s", uuid="u", path="/x/s.json", line=0, position=90)

    assert [place.text for place in (by_line, by_part, by_position)] == [
        "/x/s.jsonl:7",
        "/x/all.db 42 at 90",
        "/x/s.json at 90",
    ]
