"""What an embedder is: text to unit vectors, with the thresholds that belong to its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines at which two texts count as the same; each model has its own."""

    #: From here on two memories are duplicates and may be merged.
    duplicate: float = 0.92
    #: Above this two prompts are about the same topic.
    same_topic: float = 0.85
    #: Below this a memory has nothing to do with a prompt.
    relevance_floor: float = 0.25


@dataclass(frozen=True, slots=True)
class Prompts:
    """Words that some models want before a text; "" where a model wants none."""

    document: str = ""
    query: str = ""

    def over(self, others: Prompts) -> Prompts:
        """These, and where one is "" that of ``others``."""
        return Prompts(self.document or others.document, self.query or others.query)


class Embedder(Protocol):
    """Turns text into float32 rows of length 1, so that a dot product is a cosine.

    Any thread may call any method at any time. A text beyond ``max_tokens`` counts up to there only; ``pieces``
    cuts it into texts that fit. A blank text has a row like any other.
    """

    @property
    def model_id(self) -> str:
        """Name and short hash; rows of different ids cannot be compared."""

    @property
    def dimension(self) -> int:
        """Numbers in a row."""

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that count, prompt included."""

    @property
    def thresholds(self) -> Thresholds:
        """The cosines that mean something to this model."""

    @property
    def runtime(self) -> str:
        """What computes the rows: onnx, reference or hashed."""

    @property
    def reason(self) -> str:
        """Why this is not the fast way to run the model; "" where it is."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One row a text, shape (n, dimension), in the order of ``texts``.

        Raises EmbeddingError where the model answers with a row that is zero or not finite.
        """

    def embed_query(self, text: str) -> Matrix:
        """The vector of what is searched for, shape (dimension,). Raises EmbeddingError like ``embed``."""

    def pieces(self, text: str) -> list[str]:
        """``text`` cut at paragraphs, sentences or words into texts that fit the model; [] for a blank text."""
