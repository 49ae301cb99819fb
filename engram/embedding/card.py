"""What is known of a model: what it takes to run it, and the card beside a compiled one (engram-model.json)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.atomic import read_regular, write_atomic
from engram.embedding.embedder import Prompts
from engram.errors import EmbeddingError

#: Name of the card in the folder of a compiled model.
CARD_NAME = "engram-model.json"
#: Version of the compiled form; a model in another form is compiled again.
FORM = 1
_MAX_CARD_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What it takes to run a model and to name its vectors."""

    #: Short name of the model, as in its id.
    name: str
    #: SHA-256 of the original weights.
    weights_sha256: str
    #: Numbers in a vector.
    dimension: int
    #: Tokens of a text that are read, special tokens included.
    max_tokens: int
    #: How token vectors become one vector, as the model's own configuration says.
    pooling: str
    #: The model's own prompts.
    prompts: Prompts


@dataclass(frozen=True, slots=True)
class ModelCard(ModelInfo):
    """The card of a compiled model; it holds no times and no paths."""

    #: The lowest cosine between a vector of the compiled model and the original's, over the texts of the check.
    verified_cosine: float
    #: Names and versions of the libraries that compiled it.
    made_by: dict[str, str]
    #: Version of the compiled form.
    form: int = FORM


def model_id(name: str, weights_sha256: str, max_tokens: int, document_prompt: str) -> str:
    """Return the name with a short hash of everything that changes a document's vector."""
    basis = "\x00".join([weights_sha256, str(max_tokens), document_prompt])
    return f"{name}-{hashlib.sha256(basis.encode()).hexdigest()[:8]}"


def write_card(folder: Path, card: ModelCard) -> None:
    """Write ``card`` into ``folder``."""
    write_atomic(folder / CARD_NAME, json.dumps(dataclasses.asdict(card), indent=1).encode())


def read_card(folder: Path) -> ModelCard:
    """Return the card in ``folder``.

    Raises:
        EmbeddingError: the card is missing, unreadable or of another form.
    """
    data = read_regular(folder / CARD_NAME, _MAX_CARD_BYTES)
    if data is None:
        raise EmbeddingError(f"no compiled model in {folder}")
    try:
        card = _parse(json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        raise EmbeddingError(f"{folder / CARD_NAME} is damaged: {error}") from error
    if card.form != FORM:
        raise EmbeddingError(f"the model in {folder} was compiled by another version of Engram")
    return card


def _parse(fields: dict[str, Any]) -> ModelCard:
    card = ModelCard(prompts=Prompts(**fields.pop("prompts")), **fields)
    if not (isinstance(card.dimension, int) and isinstance(card.max_tokens, int) and card.max_tokens > 8):
        raise ValueError("dimension or max_tokens is not a usable number")
    return card
