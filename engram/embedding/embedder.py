"""The protocol of embedders: text to unit vectors, with the thresholds that belong to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

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
