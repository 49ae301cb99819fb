"""The embedder that a setting means; torch stays out of this process unless compiling failed."""

from __future__ import annotations

import logging
from pathlib import Path

from engram.embedding.card import read_card
from engram.embedding.compile import discard, ensure_compiled
from engram.embedding.embedder import Embedder, Prompts
from engram.embedding.source import HASHED, find_source
from engram.errors import EmbeddingError

logger = logging.getLogger(__name__)


def load_embedder(
    model: str,
    models_folder: Path,
    *,
    compile_if_missing: bool,
    document_prompt: str = "",
    query_prompt: str = "",
    threads: int = 1,
    allow_network: bool = False,
) -> Embedder:
    """The embedder for ``model``.

    Args:
        model: ``bundled``, ``hashed`` (no model), a folder, or a name on the hub.
        models_folder: Where compiled models are kept.
        compile_if_missing: Compile where that was not done yet (a child process, about 20 s); where compiling
            fails, run the original model in this process, with ``reason`` saying why. Off: never loads torch.
        document_prompt: Put before each document; "" takes the model's own.
        query_prompt: Put before each query; "" takes the model's own.
        threads: Threads for one call of the model.
        allow_network: Fetch a model by name from the hub.

    Raises:
        EmbeddingError: there is no such model, or it is not compiled and must not be.
    """
    if model == HASHED:
        from engram.embedding.hashed import HashedEmbedder

        return HashedEmbedder()
    prompts = Prompts(document_prompt, query_prompt)
    try:
        if compile_if_missing:
            return _compile_and_run(model, models_folder, prompts, threads, allow_network)
        return _run_compiled(models_folder / find_source(model).target_name, prompts, threads)
    except EmbeddingError as error:
        if not compile_if_missing:
            raise
        reason = str(error)
    logger.warning("action=load_model model=%s compiled=no reason=%s", model, reason)
    from engram.embedding.reference import ReferenceEmbedder

    return ReferenceEmbedder(find_source(model), prompts, reason, threads=threads, allow_network=allow_network)


def _compile_and_run(model: str, models_folder: Path, prompts: Prompts, threads: int, allow_network: bool) -> Embedder:
    folder = ensure_compiled(model, models_folder, allow_network=allow_network)
    try:
        return _run_compiled(folder, prompts, threads)
    except EmbeddingError as error:
        logger.warning("action=load_model model=%s compiled=damaged reason=%s", model, error)
        discard(folder)
    return _run_compiled(ensure_compiled(model, models_folder, allow_network=allow_network), prompts, threads)


def _run_compiled(folder: Path, prompts: Prompts, threads: int) -> Embedder:
    from engram.embedding.onnx_model import OnnxEmbedder

    card = read_card(folder)
    return OnnxEmbedder(folder, card, prompts.over(card.prompts), threads)
