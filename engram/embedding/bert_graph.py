"""The ONNX graph of a BERT sentence encoder over its own file of weights: 20 KB, made in a few milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engram.embedding.bert import BertEncoder
from engram.embedding.onnx_graph import FLOAT32, INT32, INT64, OnnxGraph

#: The domain of the operators that onnxruntime has beyond those of ONNX.
_MICROSOFT = "com.microsoft"


@dataclass(frozen=True, slots=True)
class GraphInPlace:
    """An ONNX model whose weights stay where they are."""

    #: The model, as the bytes of an ONNX file.
    data: bytes
    #: The folder of the weights; the model names the file in it.
    weights_folder: Path


def build_graph(encoder: BertEncoder) -> GraphInPlace:
    """Return the graph from ``input_ids`` and ``attention_mask`` (batch, length) to one row a text.

    The rows have the direction of the model's rows, not their length.
    """
    return GraphInPlace(_Builder(encoder).build(), encoder.weights.parent)


class _Builder:
    """Adds the parts of the encoder; tokens are rows of one matrix except where attention needs texts apart."""

    def __init__(self, encoder: BertEncoder) -> None:
        self._encoder = encoder
        self._graph = OnnxGraph(encoder.weights.name)
        self._width = self._graph.integers(encoder.dimension)
        self._row_shape = self._graph.integers(-1, encoder.dimension)

    def build(self) -> bytes:
        """Return the model."""
        graph = self._graph
        size = graph.node("Shape", ["input_ids"])
        self._text_shape = graph.node("Concat", [size, self._width], axis=0)
        self._padding_mask = graph.node("Cast", ["attention_mask"], to=INT32)
        rows = self._embeddings(size)
        for number in range(self._encoder.layers):
            rows = self._layer(rows, f"encoder.layer.{number}.")
        vector = self._pooled(graph.node("Reshape", [rows, self._text_shape]))
        texts = (INT64, ("batch", "length"))
        return graph.finish(
            inputs={"input_ids": texts, "attention_mask": texts},
            outputs={vector: (FLOAT32, ("batch", self._encoder.dimension))},
        )

    def _embeddings(self, size: str) -> str:
        """Rows of words, places and the first text type, added. Stored tables are only read where they are needed."""
        graph, zero, first = self._graph, self._graph.integers(0), self._graph.integers(1)
        words = graph.node("Gather", [self._stored("embeddings.word_embeddings.weight"), "input_ids"])
        length = graph.node("Gather", [size, first])
        positions = graph.node("Slice", [self._stored("embeddings.position_embeddings.weight"), zero, length, zero])
        text_type = graph.node("Slice", [self._stored("embeddings.token_type_embeddings.weight"), zero, first, zero])
        places = graph.node("Add", [graph.as_float32(positions), graph.as_float32(text_type)])
        together = graph.node("Add", [graph.as_float32(words), places])
        return self._normalized(graph.node("Reshape", [together, self._row_shape]), "embeddings.LayerNorm")

    def _layer(self, rows: str, prefix: str) -> str:
        graph = self._graph
        attention = graph.node(
            "Add", [rows, self._linear(self._attention(rows, prefix), f"{prefix}attention.output.dense")]
        )
        rows = self._normalized(attention, f"{prefix}attention.output.LayerNorm")
        inner = graph.node("Gelu", [self._linear(rows, f"{prefix}intermediate.dense")], domain=_MICROSOFT)
        outer = graph.node("Add", [rows, self._linear(inner, f"{prefix}output.dense")])
        return self._normalized(outer, f"{prefix}output.LayerNorm")

    def _attention(self, rows: str, prefix: str) -> str:
        graph = self._graph
        parts = [self._linear(rows, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        texts = [graph.node("Reshape", [part, self._text_shape]) for part in parts]
        mixed = graph.node(
            "MultiHeadAttention", [*texts, "", self._padding_mask], domain=_MICROSOFT, num_heads=self._encoder.heads
        )
        return graph.node("Reshape", [mixed, self._row_shape])

    def _pooled(self, texts: str) -> str:
        """One row a text: its first token's, or the sum over its tokens, which has the direction of their mean."""
        graph, one = self._graph, self._graph.integers(1)
        if self._encoder.pooling == "cls":
            pooled = graph.node("Slice", [texts, graph.integers(0), one, one])
        else:
            mask = graph.node("Unsqueeze", [graph.as_float32("attention_mask"), one])
            pooled = graph.node("MatMul", [mask, texts])
        return graph.node("Reshape", [pooled, self._row_shape])

    def _stored(self, name: str) -> str:
        return self._graph.stored_weight(name, self._encoder.tensors[name])

    def _weight(self, name: str) -> str:
        return self._graph.weight(name, self._encoder.tensors[name])

    def _linear(self, rows: str, name: str) -> str:
        return self._graph.node("Gemm", [rows, self._weight(f"{name}.weight"), self._weight(f"{name}.bias")], transB=1)

    def _normalized(self, rows: str, name: str) -> str:
        weights = [self._weight(f"{name}.weight"), self._weight(f"{name}.bias")]
        return self._graph.node("LayerNormalization", [rows, *weights], axis=-1, epsilon=self._encoder.epsilon)
