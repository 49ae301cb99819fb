"""engram-model.json: what a compiled model is, beside its weights."""

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
#: Version of the compiled form; another one is compiled anew.
FORM = 1
_LIMIT_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What has to be known to run a compiled model; times and paths are not in it."""

    #: Name of the model, as in its rows' id.
    name: str
    #: SHA-256 over the weights that were compiled.
    weights_sha256: str
    #: Numbers in a row.
    dimension: int
    #: Tokens of a text that count, special tokens included.
    max_tokens: int
    #: How token vectors become one vector, as the model's own configuration says.
    pooling: str
    #: The model's own prompts.
    prompts: Prompts
    #: The worst cosine between the compiled model and the original, over the texts of the check.
    verified_cosine: float
    #: What compiled it, name and version.
    made_by: dict[str, str]
    #: Version of the compiled form.
    form: int = FORM


def model_id(name: str, weights_sha256: str, max_tokens: int, document_prompt: str) -> str:
    """Name and short hash over all that changes a document's row."""
    basis = "\x00".join([weights_sha256, str(max_tokens), document_prompt])
    return f"{name}-{hashlib.sha256(basis.encode()).hexdigest()[:8]}"


def write_card(folder: Path, card: ModelCard) -> None:
    """Write ``card`` into ``folder``."""
    write_atomic(folder / CARD_NAME, json.dumps(dataclasses.asdict(card), indent=1).encode())


def read_card(folder: Path) -> ModelCard:
    """The card in ``folder``; raises EmbeddingError where it is missing, unreadable or of another form."""
    data = read_regular(folder / CARD_NAME, _LIMIT_BYTES)
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
        raise ValueError("dimension or max_tokens is no usable number")
    return card
