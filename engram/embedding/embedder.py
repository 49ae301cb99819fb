"""The protocol of embedders: text to unit vectors, with the model's thresholds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]


#: Maximum number of tokens read from a text, even if the model accepts more, because memory use grows quadratically.
MAX_TEXT_TOKENS = 512
#: Minimum cosine for two memories to be duplicates, for a model without its own threshold.
DUPLICATE_COSINE = 0.92


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines that determine whether two texts are alike. They depend on the model."""

    #: At or above this, two memories are duplicates and may be merged.
    duplicate: float = DUPLICATE_COSINE
    #: Above this, two prompts are about the same topic.
    same_topic: float = 0.85
    #: Below this, a memory is unrelated to a prompt.
    relevance_floor: float = 0.25


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prefixes that some models expect before each text."""

    document: str = ""
    query: str = ""

    def over(self, others: Prompts) -> Prompts:
        """Return these prompts, with each empty one taken from ``others``."""
        return Prompts(self.document or others.document, self.query or others.query)


class Embedder(Protocol):
    """Turns text into float32 vectors of length 1, so that a dot product is a cosine.

    Thread-safe. Text beyond ``max_tokens`` is ignored. Blank text has a vector too.
    """

    @property
    def model_id(self) -> str:
        """Name and short hash of the model. Vectors of models with different ids can't be compared."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens read from a text, including the prompt."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of this model."""

    @property
    def runtime(self) -> str:
        """The library that computes the vectors: ``onnx``, ``torch`` or ``hashed``."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one vector per text, in order, as a matrix. Raises EmbeddingError if one is zero or not finite."""

    def embed_query(self, text: str) -> Matrix:
        """Return the vector of a query, with the shape (dimension,). Raises EmbeddingError like ``embed``."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Everything needed to run a model and identify its vectors."""

    #: Short name, as in the model id.
    name: str
    #: SHA-256 of the original weights.
    weights_sha256: str
    #: Length of a vector.
    dimension: int
    #: Maximum number of tokens read from a text, including special tokens.
    max_tokens: int
    #: Prefixes of texts.
    prompts: Prompts


def model_id(name: str, weights_sha256: str, max_tokens: int, document_prompt: str) -> str:
    """Return the name with a short hash of everything that affects a document's vector."""
    basis = "\x00".join([weights_sha256, str(max_tokens), document_prompt])
    return f"{name}-{hashlib.sha256(basis.encode()).hexdigest()[:8]}"


def duplicate_cosine(embedder: Embedder | None) -> float:
    """Return the minimum cosine for two memories to be duplicates; the default without a model."""
    return DUPLICATE_COSINE if embedder is None else embedder.thresholds.duplicate
