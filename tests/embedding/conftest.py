"""The embedders that the tests compare: one without a model, the bundled model compiled once per checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.compile import ensure_compiled
from engram.embedding.embedder import Embedder
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.load import load_embedder

REPO = Path(__file__).resolve().parents[2]
#: Read before any test clears the environment.
MODELS_FOLDER = Path(os.environ.get("ENGRAM_TEST_MODELS") or REPO / ".venv" / "engram-models")


@pytest.fixture(scope="session")
def compiled_model() -> Path:
    """The folder of the compiled bundled model."""
    return ensure_compiled("bundled", MODELS_FOLDER)


@pytest.fixture(scope="session")
def bundled(compiled_model: Path) -> Embedder:
    """The bundled model, ready to run."""
    return load_embedder("bundled", compiled_model.parent, compile_if_missing=False)


@pytest.fixture(params=["hashed", pytest.param("bundled", marks=pytest.mark.model)])
def embedder(request: pytest.FixtureRequest) -> Any:
    """Each embedder in turn."""
    return HashedEmbedder() if request.param == "hashed" else request.getfixturevalue("bundled")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of random numbers: two small layers, another pooling, prompts of its own."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    base = tmp_path_factory.mktemp("base")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.:,"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (base / "vocab.txt").write_text("\n".join(vocabulary))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(base)
    BertTokenizerFast(vocab=str(base / "vocab.txt")).save_pretrained(base)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    modules = [Transformer(str(base)), Pooling(16, "cls"), Normalize()]
    prompts = {"document": "passage: ", "query": "query: "}
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    return folder
