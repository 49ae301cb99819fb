"""A BERT sentence encoder of random numbers, written by hand, and a plain numpy calculation of what it must answer."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

Matrix = NDArray[np.float32]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "worker", "reads", "queue", "files", "and", "a", "test", "fails"]
WIDTH, INNER, LAYERS, HEADS, POSITIONS = 16, 24, 2, 4, 32
_erf = np.vectorize(math.erf)

#: Texts that compare ways of running a model: lengths, scripts, code, blanks.
CHECK_TEXTS = (
    "",
    " ",
    "yes",
    "Use tabs.",
    "How do I run the tests?",
    "We decided to use SQLite instead of Postgres because it needs no server.",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "git commit -am 'fix: close the file before the rename' && git push origin main",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "SELECT id, name FROM turn WHERE session = ? ORDER BY created_at DESC LIMIT 10;",
    "Die Prüfung schlug fehl, weil die Datei schon geöffnet war.",
    "数据库连接在超时后没有关闭。",
    "Это сообщение на другом языке.",
    "🚀 ship it 🎉",
    "/usr/local/lib/python3.11/site-packages/package/module.py:123",
    "a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "The worker reads the queue, and the watcher reads the files; " * 3,
    "Never push to main without a review. " * 8,
    "| column | value |\n|---|---|\n| a | 1 |\n| b | 2 |\n" * 6,
    "A long text that goes far beyond what the model can read at once, in many words that say little. " * 40,
)


@dataclass(frozen=True)
class TinyBert:
    """The model's folder, its numbers, and how it pools."""

    folder: Path
    weights: dict[str, Matrix]
    pooling: str

    def expected(self, ids: list[int]) -> Matrix:
        """The unit vector of a text that has these tokens, without padding."""
        weights = self.weights
        rows = weights["embeddings.word_embeddings.weight"][ids]
        rows = rows + weights["embeddings.position_embeddings.weight"][: len(ids)]
        rows = self._normalized(rows + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}."
            mixed = self._linear(self._attention(rows, layer), f"{layer}attention.output.dense")
            rows = self._normalized(rows + mixed, f"{layer}attention.output.LayerNorm")
            inner = self._linear(rows, f"{layer}intermediate.dense")
            inner = inner * 0.5 * (1 + _erf(inner / np.sqrt(2)))
            rows = self._normalized(rows + self._linear(inner, f"{layer}output.dense"), f"{layer}output.LayerNorm")
        vector = rows[0] if self.pooling == "cls" else rows.mean(axis=0)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    def _attention(self, rows: Matrix, layer: str) -> Matrix:
        size = WIDTH // HEADS
        query, key, value = (
            self._linear(rows, f"{layer}attention.self.{part}").reshape(-1, HEADS, size).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(size)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return np.asarray((shares @ value).transpose(1, 0, 2).reshape(-1, WIDTH))

    def _linear(self, rows: Matrix, name: str) -> Matrix:
        return np.asarray(rows @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"])

    def _normalized(self, rows: Matrix, name: str) -> Matrix:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])


def write_tiny_bert(folder: Path, *, pooling: str = "mean", half: bool = False, **config: Any) -> TinyBert:
    """Write a model into ``folder``.

    Args:
        folder: Is made.
        pooling: mean or cls.
        half: Store the numbers as float16.
        config: Changes to config.json.
    """
    (folder / "1_Pooling").mkdir(parents=True)
    weights = _weights()
    if half:
        weights = {name: rows.astype(np.float16).astype(np.float32) for name, rows in weights.items()}
    _write_weights(folder / "model.safetensors", weights, np.float16 if half else np.float32)
    plain = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-12,
        "vocab_size": len(WORDS),
        "type_vocab_size": 2,
    }
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    for name, content in {
        "config.json": plain | config,
        "modules.json": modules,
        "1_Pooling/config.json": {"embedding_dimension": WIDTH, "pooling_mode": pooling, "include_prompt": True},
        "sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False},
    }.items():
        (folder / name).write_text(json.dumps(content))
    _write_tokenizer(folder / "tokenizer.json")
    return TinyBert(folder, weights, pooling)


def _weights() -> dict[str, Matrix]:
    chance = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}."
        square = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
        matrices = dict.fromkeys(square, (WIDTH, WIDTH))
        matrices |= {"intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
        for name, shape in matrices.items():
            shapes |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    for name in norms:
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    return {name: chance.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def _write_weights(path: Path, weights: dict[str, Matrix], kind: type) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, rows in weights.items():
        numbers = rows.astype(kind).tobytes()
        place = [len(data), len(data) + len(numbers)]
        header[name] = {"dtype": "F16" if kind is np.float16 else "F32", "shape": rows.shape, "data_offsets": place}
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _write_tokenizer(path: Path) -> None:
    numbers = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"])]
    )
    tokenizer.save(str(path))
