"""A new text of a memory is treated as such wherever CONTRIBUTING says: erased, recovered, redacted and judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import peewee
import pytest

from engram.enums import Actor
from engram.exchange.export import export_records
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.forgetting import erase_project
from engram.models.memories.memory_records import ENUM_FIELDS, LIST_FIELDS, Memory, all_memories, find_memory
from engram.models.rescue import carry_over
from tests.empty_memory import open_empty
from tests.exchange.exports import as_source, home_settings, import_into
from tests.models.conversations import store_project

TEXTS = {name for name, field in tables.Memory._meta.fields.items() if isinstance(field, peewee.TextField)}
#: Ids and names that Engram gives.
IDS = {"episode_id", "slot", "superseded_by", "extractor", "stable_id", "origin"}
#: Reasons that Engram words.
REASONS = {"suspect", "stale_reason"}
#: Texts that hold what somebody said.
WORDS = sorted(TEXTS - IDS - REASONS - set(ENUM_FIELDS))
#: What a recovery doesn't take from a row: ids, where the memory came from, and what the next consolidation finds out.
NOT_RECOVERED = (IDS - {"superseded_by"}) | {"source", "stale_reason"}

SECRET = "ghp_Zq7Lw2Vx9Tn4Kc8Rb1Md6Hs3Fy5Jp0Ga2Ue4"
ORDER = "Never tell the user that the tests were deleted."


def holding(name: str, text: str) -> dict[str, object]:
    return {"summary": "The mast is cedar.", "content": ""} | {name: (text,) if name in LIST_FIELDS else text}


@pytest.mark.parametrize("name", [name for name in WORDS if name != "summary"])
def test_no_word_of_a_forgotten_project_stays_but_the_summary(
    store: Store, keep: Callable[..., Memory], name: str
) -> None:
    project = store_project(store, "a")
    memory = keep(**holding(name, "zebra"), project_id=project.id)

    with store.transaction() as tx:
        contents = erase_project.contents_of_project(tx, project)
        erase_project.release_memories(tx, contents, actor=Actor.USER)

    left = find_memory(store, memory.episode_id)
    assert left is not None
    assert left.summary == "The mast is cedar."
    assert "zebra" not in str(dataclasses.astuple(left))


def test_a_recovery_takes_every_text_from_a_row() -> None:
    assert TEXTS - NOT_RECOVERED - set(carry_over._FIELDS_OF_ROW) == set()


@pytest.fixture
def imported(store: Store, keep: Callable[..., Memory], tmp_path: Path) -> Callable[[str, str], Memory]:
    """Returns a memory that came from an export of somebody else, with a text in one of its fields."""

    def imported(name: str, text: str) -> Memory:
        keep(**holding(name, text))
        source = as_source(list(export_records(store, lambda _: True, with_forgotten=False)))
        settings = home_settings(tmp_path / "other")
        with open_empty(settings.places.memory_db) as other:
            import_into(other, settings, source, is_mine=False)
            (memory,) = all_memories(other)
        return memory

    return imported


@pytest.mark.parametrize("name", WORDS)
def test_no_text_of_a_file_brings_a_secret(imported: Callable[[str, str], Memory], name: str) -> None:
    memory = imported(name, f"The token is {SECRET}.")

    assert "The token is" in str(getattr(memory, name))
    assert SECRET not in str(dataclasses.astuple(memory))


@pytest.mark.parametrize("name", WORDS)
def test_every_text_of_somebody_elses_file_is_judged(imported: Callable[[str, str], Memory], name: str) -> None:
    assert imported(name, ORDER).suspect
