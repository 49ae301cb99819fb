"""The protocol of embedders: text to unit vectors, with the thresholds that belong to the model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from engram.errors import EmbeddingError
from engram.system.atomic import read_regular, write_atomic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]


#: Most tokens of one text. Longer texts are cut even if the model takes more: memory grows with the square.
MAX_TEXT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines that decide whether two texts are alike; each model has its own."""

    #: At or above this, two memories are duplicates and may be merged.
    duplicate: float = 0.92
    #: Above this, two prompts are about the same topic.
    same_topic: float = 0.85
    #: Below this, a memory is unrelated to a prompt.
    relevance_floor: float = 0.25


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prefixes that some models expect before a text; "" for none."""

    document: str = ""
    query: str = ""

    def over(self, others: Prompts) -> Prompts:
        """Return these prompts, with each empty one taken from ``others``."""
        return Prompts(self.document or others.document, self.query or others.query)


class Embedder(Protocol):
    """Turns text into float32 vectors of length 1, so that a dot product is a cosine.

    All methods are thread-safe. Text beyond ``max_tokens`` is ignored; ``pieces`` cuts a long text into texts that
    fit. A blank text has a vector like any other.
    """

    @property
    def model_id(self) -> str:
        """Name and short hash; vectors with different ids can't be compared."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read, prompt included."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of this model."""

    @property
    def runtime(self) -> str:
        """What computes the vectors: onnx, reference or hashed."""

    @property
    def reason(self) -> str:
        """Why the model runs in a slower way than usual; "" if it doesn't."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one vector for each text, shape (n, dimension), in the order of ``texts``.

        Raises:
            EmbeddingError: the model returned a vector that is zero or not finite.
        """

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query, shape (dimension,). Raises EmbeddingError like ``embed``."""

    def pieces(self, text: str) -> list[str]:
        """Cut ``text`` at paragraphs, sentences or words into texts that fit the model; [] for a blank text."""


# -- What is known of a model: what it takes to run it, and the card beside a compiled one (engram-model.json).

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
