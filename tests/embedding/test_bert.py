"""BERT encoders run from their own weights, with the vectors that the model is meant to have."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_bert import CHECK_TEXTS, TinyBert, write_tiny_bert

from engram.embedding.bert import read_encoder
from engram.embedding.embedder import Embedder, Prompts
from engram.embedding.load_model import load_embedder
from engram.embedding.model_source import BUNDLED_FOLDER, ModelSource
from engram.errors import EmbeddingError

#: Vectors of CHECK_TEXTS that sentence-transformers computed with the original model.
ORIGINAL_ROWS = Path(__file__).parent / "original_rows.npy"
TEXTS = ["the worker reads", "a test fails and the queue reads files the worker", "", "unknown"]
TOKENS = [[2, 4, 5, 6, 3], [2, 10, 11, 12, 9, 4, 7, 6, 8, 4, 5, 3], [2, 3], [2, 1, 3]]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_vectors_are_those_that_a_plain_calculation_gives(tmp_path: Path, pooling: str, half: bool) -> None:
    tiny = write_tiny_bert(tmp_path / "tiny", pooling=pooling, half=half)

    rows = load_embedder(str(tiny.folder)).embed(TEXTS)

    expected = np.stack([tiny.expected(ids) for ids in TOKENS])
    assert np.allclose(rows, expected, atol=1e-4)
    assert not (tmp_path / "models").exists()


@pytest.mark.model
def test_the_bundled_model_has_the_vectors_of_the_original(bundled: Embedder) -> None:
    expected = np.load(ORIGINAL_ROWS)

    assert float((bundled.embed(CHECK_TEXTS) * expected).sum(axis=1).min()) > 0.9999


@pytest.mark.model
def test_the_bundled_model_keeps_the_id_of_vectors_that_are_stored(bundled: Embedder) -> None:
    assert bundled.model_id == "all-minilm-l6-v2-4570c791"
    assert (bundled.dimension, bundled.max_tokens, bundled.runtime) == (384, 256, "onnx")


@pytest.mark.model
@pytest.mark.reference
def test_the_stored_vectors_of_the_original_are_those_of_sentence_transformers(original: ModelSource) -> None:
    from engram.embedding.torch_model import OriginalEmbedder

    rows = OriginalEmbedder(original, Prompts()).embed(CHECK_TEXTS)

    assert np.allclose(rows, np.load(ORIGINAL_ROWS), atol=1e-5)


@pytest.mark.reference
def test_a_model_of_sentence_transformers_has_the_same_vectors_without_it(tiny_model: Path, tmp_path: Path) -> None:
    from engram.embedding.torch_model import OriginalEmbedder

    source = ModelSource("tiny", tiny_model, "", "", Prompts())
    reference = OriginalEmbedder(source, Prompts())

    embedder = load_embedder(str(tiny_model))

    assert embedder.model_id == reference.model_id
    assert embedder.max_tokens == reference.max_tokens
    assert float((embedder.embed(CHECK_TEXTS) * reference.embed(CHECK_TEXTS)).sum(axis=1).min()) > 0.9999
    assert np.allclose(embedder.embed_query("a text"), reference.embed_query("a text"), atol=1e-4)


def test_a_model_keeps_its_own_prompts(tiny_bert: TinyBert, tmp_path: Path) -> None:
    prompts = {"document": "queue ", "query": "files "}
    (tiny_bert.folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))

    embedder = load_embedder(str(tiny_bert.folder))

    assert np.allclose(embedder.embed(["reads"])[0], tiny_bert.expected([2, 7, 6, 3]), atol=1e-4)
    assert np.allclose(embedder.embed_query("reads"), tiny_bert.expected([2, 8, 6, 3]), atol=1e-4)


def test_a_model_behind_links_is_run(tiny_bert: TinyBert, tmp_path: Path) -> None:
    """The hub's cache is a folder of links to files with other names."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    for number, file in enumerate(sorted(path for path in tiny_bert.folder.rglob("*") if path.is_file())):
        shutil.move(file, blobs / str(number))
        link = snapshot / file.relative_to(tiny_bert.folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / str(number), link.parent))

    embedder = load_embedder(str(snapshot))

    assert np.allclose(embedder.embed(TEXTS[:1])[0], tiny_bert.expected(TOKENS[0]), atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "roberta"},
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"hidden_size": 32},
        {"num_hidden_layers": 3},
        {"max_position_embeddings": 64},
    ],
)
def test_a_model_with_any_other_part_is_not_taken(tmp_path: Path, config: dict[str, Any]) -> None:
    tiny = write_tiny_bert(tmp_path / "tiny", **config)
    if "max_position_embeddings" in config:
        (tiny.folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64}))

    assert read_encoder(tiny.folder) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "max"}),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}),
        ("1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": False}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("modules.json", [{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Dense"}]),
        ("modules.json", [{"path": "0_T", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}]),
        ("modules.json", []),
    ],
)
def test_a_model_with_another_configuration_is_not_taken(tiny_bert: TinyBert, name: str, content: Any) -> None:
    (tiny_bert.folder / name).write_text(json.dumps(content))

    assert read_encoder(tiny_bert.folder) is None


@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer.json", "model.safetensors"])
def test_a_model_without_one_of_its_files_is_not_taken(tiny_bert: TinyBert, name: str) -> None:
    (tiny_bert.folder / name).unlink()

    assert read_encoder(tiny_bert.folder) is None


@pytest.mark.parametrize("text", ["{", "[1]", '{"model_type": "bert", "hidden_act": "gelu", "hidden_size": "wide"}'])
def test_a_damaged_configuration_is_an_embedding_error(tiny_bert: TinyBert, text: str) -> None:
    (tiny_bert.folder / "config.json").write_text(text)

    with pytest.raises(EmbeddingError, match="damaged"):
        read_encoder(tiny_bert.folder)


def test_older_names_of_a_pooling_are_known(tiny_bert: TinyBert) -> None:
    former = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tiny_bert.folder / "1_Pooling" / "config.json").write_text(json.dumps(former))

    encoder = read_encoder(tiny_bert.folder)

    assert encoder is not None
    assert encoder.pooling == "cls"


def test_weights_that_are_cut_short_are_an_embedding_error(bundled_folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(BUNDLED_FOLDER, broken)
    with (broken / "model.safetensors").open("r+b") as file:
        file.truncate(1_000_000)

    with pytest.raises(EmbeddingError, match="damaged"):
        load_embedder(str(broken))
