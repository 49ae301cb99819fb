"""The card beside a compiled model is read strictly."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from engram.embedding.embedder import CARD_NAME, FORM, ModelCard, Prompts, model_id, read_card, write_card
from engram.errors import EmbeddingError

CARD = ModelCard("tiny", "00ff", 4, 32, "mean", Prompts("d: ", "q: "), 0.9999, {"torch": "2"})


def test_a_card_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_card(tmp_path, CARD)

    assert read_card(tmp_path) == CARD
    assert (tmp_path / CARD_NAME).stat().st_mode & 0o777 == 0o600


def test_no_card_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no compiled model"):
        read_card(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"prompts": {}}', "\xff"])
def test_a_damaged_card_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / CARD_NAME).write_bytes(text.encode("latin-1"))

    with pytest.raises(EmbeddingError, match="damaged"):
        read_card(tmp_path)


def test_a_card_with_a_useless_number_is_refused(tmp_path: Path) -> None:
    fields = dataclasses.asdict(CARD) | {"max_tokens": "many"}
    (tmp_path / CARD_NAME).write_text(json.dumps(fields))

    with pytest.raises(EmbeddingError, match="damaged"):
        read_card(tmp_path)


def test_another_form_is_refused(tmp_path: Path) -> None:
    write_card(tmp_path, dataclasses.replace(CARD, form=FORM + 1))

    with pytest.raises(EmbeddingError, match="another version"):
        read_card(tmp_path)


def test_the_id_changes_with_whatever_changes_a_row() -> None:
    same = model_id("name", "00ff", 256, "")

    others = {
        model_id("name", "00fe", 256, ""),
        model_id("name", "00ff", 128, ""),
        model_id("name", "00ff", 256, "d: "),
    }
    assert same not in others
    assert len(others) == 3
    assert same.startswith("name-")
