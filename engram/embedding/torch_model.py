"""Run a model with sentence-transformers. Only this module imports sentence-transformers and torch.

Importing it is cheap; using it loads torch (about 8 s and 400 MB) and requires the ``models`` extra.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.embedding.embedder import MAX_TEXT_TOKENS, Prompts, model_id
from engram.embedding.hashed import unit_rows, without_surrogates
from engram.embedding.model_source import ModelSource, find_folder, thresholds_of, weights_sha256
from engram.errors import EmbeddingError

#: Number of texts in a model call.
_BATCH_ROWS = 4


class OriginalEmbedder:
    """Runs a model as its authors published it. For a BERT encoder, the vectors are those of ``OnnxEmbedder``."""

    runtime = "torch"

    def __init__(self, source: ModelSource, prompts: Prompts, *, threads: int = 1) -> None:
        """Load the model.

        Args:
            prompts: prefixes of texts; an empty prefix is replaced by the model's own.
            threads: number of threads that torch uses for a call, in the whole process.

        Raises:
            EmbeddingError: the model is not on this machine or can't be loaded.
        """
        folder = find_folder(source)
        self._model = _load(folder, threads)
        # The tokenizer must not be used by two threads at the same time.
        self._lock = threading.Lock()
        #: Held while waiting for the lock, so that a waiting prompt is next after the current batch.
        self._turn = threading.Lock()
        own = Prompts(self._model.prompts.get("document") or "", self._model.prompts.get("query") or "")
        self.prompts = prompts.over(own.over(source.prompts))
        self.dimension: int = self._model.get_embedding_dimension()
        self.max_tokens: int = self._model.max_seq_length
        self.thresholds = thresholds_of(source.name)
        self.model_id = model_id(source.name, weights_sha256(folder), self.max_tokens, self.prompts.document)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self._rows([self.prompts.document + text for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self._rows([self.prompts.query + text])[0]
        return row

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            # Batch texts of similar length, because each takes as long as the longest text in its batch.
            order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
            some = [order[start : start + _BATCH_ROWS] for start in range(0, len(order), _BATCH_ROWS)]
            rows = np.concatenate(
                [self._encode([without_surrogates(texts[place]) for place in places]) for places in some]
            )
            return unit_rows(rows[np.argsort(order)])
        except Exception as error:  # a model may raise anything
            raise EmbeddingError(f"the embedding model failed: {_first_line(error)}") from error

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        with self._turn:
            self._lock.acquire()
        try:
            rows: NDArray[np.float32] = self._model.encode(
                texts, batch_size=_BATCH_ROWS, prompt="", show_progress_bar=False, convert_to_numpy=True
            )
        finally:
            self._lock.release()
        return rows


def _load(folder: Path, threads: int) -> Any:
    """Load the SentenceTransformer in ``folder`` from safetensors, without running its code, on the CPU, in float32."""
    weights_sha256(folder)
    # The libraries read these variables when they are imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        model = SentenceTransformer(
            str(folder),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "dtype": "float32"},
        )
    except Exception as error:  # a model may raise anything
        raise EmbeddingError(f"sentence-transformers can't load {folder.name}: {_first_line(error)}") from error
    model.eval()
    model.max_seq_length = min(model.max_seq_length or MAX_TEXT_TOKENS, MAX_TEXT_TOKENS)
    return model


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
