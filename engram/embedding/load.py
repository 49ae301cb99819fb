"""Loads the embedder that a setting names. Torch stays out of this process unless compiling failed."""

from __future__ import annotations

import logging
from pathlib import Path

from engram.embedding import source
from engram.embedding.bert import is_encoder, read_encoder
from engram.embedding.compile import discard, ensure_compiled, is_compiled
from engram.embedding.embedder import Embedder, ModelInfo, Prompts, read_card
from engram.embedding.source import HASHED, ModelSource, find_folder, find_source, require_extra, weights_sha256
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
) -> Embedder:
    """Return the embedder for ``model``; never uses the network.

    The bundled model and other BERT encoders run from their own weights. Any other model has to be compiled first.

    Args:
        model: ``bundled``, ``hashed`` (no model), a folder, or the name of a model that was fetched from the hub.
        models_folder: Where compiled models are kept.
        compile_if_missing: Compile a model that needs it (in a child process, about 20 s). If compiling fails, the
            original model runs in this process, and ``reason`` says why. Without it, torch is never loaded.
        document_prompt: Prefix of each document; "" takes the model's own.
        query_prompt: Prefix of each query; "" takes the model's own.
        threads: Threads for one call of the model.

    Raises:
        EmbeddingError: there is no such model, it is damaged, the extra ``models`` is missing, or the model is not
            compiled and ``compile_if_missing`` is not set.
    """
    if model == HASHED:
        from engram.embedding.hashed import HashedEmbedder

        return HashedEmbedder()
    prompts = Prompts(document_prompt, query_prompt)
    source = find_source(model)
    if source.is_bundled:
        return _run_bundled(source, prompts, threads)
    target = models_folder / source.target_name
    if is_compiled(target):
        try:
            return _run_compiled(target, prompts, threads)
        except EmbeddingError as error:
            if not compile_if_missing:
                raise
            logger.warning("action=load_model model=%s compiled=damaged reason=%s", model, error)
            discard(target)
    if embedder := _run_encoder(source, prompts, threads):
        return embedder
    if not compile_if_missing:
        raise EmbeddingError(f"no compiled model in {target}")
    require_extra(model)
    try:
        return _run_compiled(ensure_compiled(model, models_folder), prompts, threads)
    except EmbeddingError as error:
        reason = str(error)
    logger.warning("action=load_model model=%s compiled=no reason=%s", model, reason)
    from engram.embedding.original_model import ReferenceEmbedder

    return ReferenceEmbedder(source, prompts, reason, threads=max(1, threads))


def needs_compiling(model: str, models_folder: Path) -> bool:
    """Whether ``model`` has to be compiled before it can run. Raises EmbeddingError if there is no such model."""
    if model == HASHED:
        return False
    source = find_source(model)
    if source.is_bundled or is_compiled(models_folder / source.target_name):
        return False
    return read_encoder(find_folder(source)) is None


def _run_bundled(source: ModelSource, prompts: Prompts, threads: int) -> Embedder:
    embedder = _run_encoder(source, prompts, threads)
    if embedder is None:
        raise EmbeddingError("the files of the bundled model are damaged; install Engram again")
    return embedder


def _run_compiled(folder: Path, prompts: Prompts, threads: int) -> Embedder:
    from engram.embedding.onnx_model import OnnxEmbedder

    card = read_card(folder)
    return OnnxEmbedder(folder, card, prompts.over(card.prompts), threads)


def _run_encoder(source: ModelSource, prompts: Prompts, threads: int) -> Embedder | None:
    """Return the model if it is a BERT encoder, run from its own weights; else None."""
    folder = find_folder(source)
    encoder = read_encoder(folder)
    if encoder is None:
        return None
    from engram.embedding.bert_graph import build_graph
    from engram.embedding.onnx_model import OnnxEmbedder

    info = ModelInfo(
        name=source.name,
        weights_sha256=source.pinned_sha256 or weights_sha256(folder),
        dimension=encoder.dimension,
        max_tokens=encoder.max_tokens,
        pooling=encoder.pooling,
        prompts=encoder.prompts.over(source.prompts),
    )
    return OnnxEmbedder(folder, info, prompts.over(info.prompts), threads, graph=build_graph(encoder))


# -- Fetches a model by its name on the hub and makes it ready to run: the one action that uses the network.


def fetch_model(name: str, models_folder: Path) -> Embedder:
    """Fetch the model ``name`` and return it, ready to run.

    The small files come first: if the model needs packages that are missing, its weights are not fetched.

    Args:
        name: The model's name on the hub.
        models_folder: Where compiled models are kept.

    Raises:
        EmbeddingError: ``name`` is no name on the hub, the hub can't be reached, the model holds something other than
            safetensors weights, or it needs the extra ``models`` and that is not installed.
    """
    if find_source(name).folder is not None:
        raise EmbeddingError(f"{name} is on this machine already; set embedding_model to it")
    if not is_encoder(source.download(name, source.DESCRIPTION_FILES)):
        require_extra(name)
    source.download(name)
    return load_embedder(name, models_folder, compile_if_missing=True)
