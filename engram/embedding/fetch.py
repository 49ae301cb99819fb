"""Fetches a model by its name on the hub and makes it ready to run: the one action that uses the network."""

from __future__ import annotations

from pathlib import Path

from engram.embedding import hub
from engram.embedding.bert import is_encoder
from engram.embedding.embedder import Embedder
from engram.embedding.extra import require_extra
from engram.embedding.load import load_embedder
from engram.embedding.source import find_source
from engram.errors import EmbeddingError


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
    if not is_encoder(hub.download(name, hub.DESCRIPTION_FILES)):
        require_extra(name)
    hub.download(name)
    return load_embedder(name, models_folder, compile_if_missing=True)
