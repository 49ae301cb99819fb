"""Load the embedder chosen in the settings. torch is loaded only if the caller allows it."""

from __future__ import annotations

from engram.embedding import model_source
from engram.embedding.bert import is_encoder, read_encoder
from engram.embedding.embedder import Embedder, ModelInfo, Prompts
from engram.embedding.model_source import (
    BUNDLED_FOLDER,
    HASHED,
    ModelSource,
    find_folder,
    find_source,
    require_extra,
    weights_sha256,
)
from engram.errors import EmbeddingError
from engram.settings import Settings


def load_embedder(
    model: str, *, may_load_torch: bool = False, document_prompt: str = "", query_prompt: str = "", threads: int = 1
) -> Embedder:
    """Load the embedder for ``model``, without using the network.

    The bundled model and other BERT encoders run from their own weights. Any other model needs torch.

    Args:
        model: ``bundled``, ``hashed`` (no model), a folder, or the name of a model fetched from the Hugging Face hub.
        may_load_torch: whether to load torch (about 8 s and 400 MB) for a model that needs it.
        document_prompt: prefix of each document; "" for the model's own.
        query_prompt: prefix of each query; "" for the model's own.

    Raises:
        EmbeddingError: there is no such model, it is damaged, the ``models`` extra is missing, or the model needs torch
            and ``may_load_torch`` is not set.
    """
    if model == HASHED:
        from engram.embedding.hashed import HashedEmbedder

        return HashedEmbedder()
    prompts = Prompts(document_prompt, query_prompt)
    source = find_source(model)
    if embedder := _run_encoder(source, prompts, threads):
        return embedder
    if source.folder == BUNDLED_FOLDER:
        raise EmbeddingError("the files of the bundled model are damaged; install Engram again")
    if not may_load_torch:
        raise EmbeddingError(f"{model} needs torch, which only the worker loads")
    require_extra(model)
    from engram.embedding.torch_model import OriginalEmbedder

    return OriginalEmbedder(source, prompts, threads=max(1, threads))


def needs_torch(model: str) -> bool:
    """Return True if ``model`` can't run from its own weights. Raises EmbeddingError if there is no such model."""
    return model != HASHED and read_encoder(find_folder(find_source(model))) is None


def _run_encoder(source: ModelSource, prompts: Prompts, threads: int) -> Embedder | None:
    """Load the model from its own weights if it is a BERT encoder; otherwise, return None."""
    folder = find_folder(source)
    encoder = read_encoder(folder)
    if encoder is None:
        return None
    from engram.embedding.bert import build_graph
    from engram.embedding.onnx_model import OnnxEmbedder

    info = ModelInfo(
        name=source.name,
        weights_sha256=source.pinned_sha256 or weights_sha256(folder),
        dimension=encoder.dimension,
        max_tokens=encoder.max_tokens,
        prompts=prompts.over(encoder.prompts).over(source.prompts),
    )
    return OnnxEmbedder(folder, info, build_graph(encoder), threads)


def fetch_model(name: str) -> Embedder:
    """Fetch the model ``name`` from the hub and load it. Only this function uses the network.

    The small files are fetched first. If packages for the model are missing, its weights are not fetched.

    Raises:
        EmbeddingError: ``name`` is not on the hub, the hub can't be reached, its weights are not in safetensors, or it
            needs the ``models`` extra, which is not installed.
    """
    if find_source(name).folder is not None:
        raise EmbeddingError(f"{name} is already on this machine; set embedding_model to it")
    if not is_encoder(model_source.download(name, model_source.DESCRIPTION_FILES)):
        require_extra(name)
    model_source.download(name)
    return load_embedder(name, may_load_torch=True)


def load_model(settings: Settings) -> tuple[Embedder | None, str]:
    """Load the model in this process; if that fails, return None and the reason. Never loads torch."""
    try:
        embedder = load_embedder(
            settings.embedding_model,
            document_prompt=settings.document_prompt,
            query_prompt=settings.query_prompt,
            threads=settings.embedding_threads,
        )
    except EmbeddingError as error:
        return None, f"text search only: the embedding model can't be loaded ({error})"
    return embedder, ""
