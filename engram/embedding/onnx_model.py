"""Run a model with onnxruntime. Only this module imports onnxruntime and tokenizers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engram.embedding.bert import TOKENIZER_NAME, GraphInPlace
from engram.embedding.embedder import ModelInfo, model_id
from engram.embedding.hashed import unit_rows, without_surrogates
from engram.embedding.model_source import thresholds_of
from engram.errors import EmbeddingError
from engram.system import process_limits

# The tokenizers library's threads would overload the machine and warn at every fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# onnxruntime would report its use to Microsoft and keep a device id in the user's cache. It reads this variable on
# import; its function disable_telemetry_events comes too late.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime
import tokenizers

#: Maximum number of tokens in a model call, including padding. A larger value needs more memory (177 MB at 512, 206 at
#: 1,024) and makes other callers wait longer, but is no faster.
MAX_BATCH_TOKENS = 512
#: Assumed maximum length of a token, in characters. Text beyond ``max_tokens`` times this is not tokenized.
_MAX_TOKEN_CHARACTERS = 64
#: Name of onnxruntime's setting for the folder of external weights.
_WEIGHTS_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


class OnnxEmbedder:
    """Runs a model's weights with a graph built in memory. Calls don't hold a lock; computing releases the GIL."""

    runtime = "onnx"

    def __init__(self, folder: Path, info: ModelInfo, graph: GraphInPlace, threads: int = 1) -> None:
        """Load a model.

        Args:
            threads: number of batches of a call that are computed at the same time, each in its own thread; 0 for two
                while the machine is idle and one otherwise.

        Raises:
            EmbeddingError: the model can't be loaded.
        """
        self.prompts = info.prompts
        self.dimension = info.dimension
        self.max_tokens = info.max_tokens
        self.thresholds = thresholds_of(info.name)
        self.model_id = model_id(info.name, info.weights_sha256, info.max_tokens, self.prompts.document)
        options = _options()
        options.add_session_config_entry(_WEIGHTS_FOLDER_ENTRY, str(graph.weights_folder))
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_NAME))
            self._session = onnxruntime.InferenceSession(graph.data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both libraries raise a bare Exception for a damaged file
            raise EmbeddingError(f"the model in {folder} can't be loaded: {error}") from error
        self._threads = threads
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special_tokens = self._tokenizer.num_special_tokens_to_add(False)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows([self.prompts.document + text for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self._rows([self.prompts.query + text])[0]
        return row

    def _ids(self, text: str) -> list[int]:
        shown = without_surrogates(text[: self.max_tokens * _MAX_TOKEN_CHARACTERS])
        encoding = self._tokenizer.encode(shown, add_special_tokens=False)
        encoding.truncate(self.max_tokens - self._special_tokens)
        ids: list[int] = self._tokenizer.post_process(encoding).ids
        return ids

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        tokens = [self._ids(text) for text in texts]

        can_wait = process_limits.is_giving_way()

        def fill(batch: list[int]) -> None:
            if can_wait:
                process_limits.let_questions_pass()
            rows[batch] = self._run([tokens[index] for index in batch])

        pending = list(batches([len(ids) for ids in tokens], MAX_BATCH_TOKENS))
        threads = self._threads or (2 if len(pending) > 1 and process_limits.is_quiet() else 1)
        if threads > 1 and len(pending) > 1:
            # Whole batches in parallel keep two cores busier than two threads within a small batch.
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, pending))
        else:
            for batch in pending:
                fill(batch)
        return unit_rows(rows)

    def _run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        width = max(len(ids) for ids in tokens)
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros((len(tokens), width), dtype=np.int64)
        for row, text_ids in enumerate(tokens):
            ids[row, : len(text_ids)] = text_ids
            mask[row, : len(text_ids)] = 1
        try:
            rows: NDArray[np.float32] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        except Exception as error:  # onnxruntime's errors share no base but Exception
            raise EmbeddingError(f"the embedding model failed: {error}") from error
        return rows


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield the indexes of texts in batches of similar length.

    Unless a batch is a single text, its number of texts times its longest length is at most ``max_tokens``.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _options() -> onnxruntime.SessionOptions:
    """Return options that save memory. Without an arena, the memory of a batch is returned to the system."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    # Spinning threads would occupy a core while the worker is idle.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
