"""The compiled model, run by onnxruntime; the one home of onnxruntime and tokenizers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engram.embedding.card import ModelCard, model_id
from engram.embedding.embedder import Prompts
from engram.embedding.pieces import Spans, cut, valid
from engram.embedding.rows import unit_rows
from engram.embedding.source import thresholds_of
from engram.errors import EmbeddingError

# Its own threads would oversubscribe the machine, and warn at every fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import onnxruntime
import tokenizers

#: File names in the folder of a compiled model.
MODEL_NAME = "model.onnx"
TOKENIZER_NAME = "tokenizer.json"
#: Most tokens in one call of the model, padding included. More costs memory (177 MB at 512, 206 at 1,024) and
#: makes others wait longer, and is no faster.
BATCH_TOKENS = 512
#: Fewest tokens of a row: shapes below 2 are not in the compiled graph.
_FEWEST_TOKENS = 2
#: Characters a token at most; what lies beyond cannot count and is not even looked at.
_CHARACTERS_A_TOKEN = 64


class OnnxEmbedder:
    """Runs the model in ``folder``; pooling and length 1 are part of the compiled graph.

    A call holds no lock and lets go of the GIL while the model computes.
    """

    runtime = "onnx"
    reason = ""

    def __init__(self, folder: Path, card: ModelCard, prompts: Prompts | None = None, threads: int = 1) -> None:
        """Load the model that ``card`` describes.

        Args:
            folder: Where the compiled model is.
            card: What stands in its engram-model.json.
            prompts: What to put before texts; None takes the model's own.
            threads: Batches of one call that are computed at the same time, a thread each.

        Raises:
            EmbeddingError: the model cannot be loaded.
        """
        self.prompts = card.prompts if prompts is None else prompts
        self.dimension = card.dimension
        self.max_tokens = card.max_tokens
        self.thresholds = thresholds_of(card.name)
        self.model_id = model_id(card.name, card.weights_sha256, card.max_tokens, self.prompts.document)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_NAME))
            self._session = onnxruntime.InferenceSession(
                str(folder / MODEL_NAME), _options(), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both libraries raise bare Exception for a damaged file
            raise EmbeddingError(f"the compiled model in {folder} cannot be loaded: {error}") from error
        self._threads = threads
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special_tokens = self._tokenizer.num_special_tokens_to_add(False)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text; see ``Embedder.embed``."""
        return self._rows([self.prompts.document + text for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of what is searched for; see ``Embedder.embed_query``."""
        row: NDArray[np.float32] = self._rows([self.prompts.query + text])[0]
        return row

    def pieces(self, text: str) -> list[str]:
        """``text`` in pieces that fit beside the document prompt; see ``Embedder.pieces``."""
        room = self.max_tokens - self._special_tokens - len(self._spans(self.prompts.document))
        return cut(text, room, self._spans)

    def _spans(self, text: str) -> Spans:
        spans: Spans = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return spans

    def _ids(self, text: str) -> list[int]:
        shown = valid(text[: self.max_tokens * _CHARACTERS_A_TOKEN])
        encoding = self._tokenizer.encode(shown, add_special_tokens=False)
        encoding.truncate(self.max_tokens - self._special_tokens)
        ids: list[int] = self._tokenizer.post_process(encoding).ids
        return ids

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        tokens = [self._ids(text) for text in texts]

        def fill(batch: list[int]) -> None:
            rows[batch] = self._run([tokens[index] for index in batch])

        todo = list(batches([len(ids) for ids in tokens], BATCH_TOKENS))
        if self._threads > 1 and len(todo) > 1:
            # Whole batches side by side keep two cores busier than two threads inside one small batch.
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(fill, todo))
        else:
            for batch in todo:
                fill(batch)
        return unit_rows(rows)

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The model's answer for one batch, rows in order; the longest decides the width."""
        width = max(_FEWEST_TOKENS, *(len(ids) for ids in tokens))
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros((len(tokens), width), dtype=np.int64)
        for row, own in enumerate(tokens):
            ids[row, : len(own)] = own
            mask[row, : len(own)] = 1
        try:
            answer = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        except Exception as error:  # onnxruntime's errors share no base but Exception
            raise EmbeddingError(f"the embedding model failed: {error}") from error
        rows: NDArray[np.float32] = answer
        return rows


def batches(lengths: Sequence[int], limit_tokens: int) -> Iterator[list[int]]:
    """Indexes of texts in batches of like length; rows times the longest is at most ``limit_tokens``, or one row."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > limit_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _options() -> onnxruntime.SessionOptions:
    """Little memory before speed: without an arena, what a batch needed goes back to the system."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    # Spinning threads would burn a core while the worker idles.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
