"""Recognise BERT sentence encoders, such as the bundled model, and build ONNX graphs over their own weights."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.embedding.embedder import MAX_TEXT_TOKENS, Prompts
from engram.errors import EmbeddingError
from engram.system.atomic import read_regular

# -- Read the header of a safetensors file: its tensors and their locations.

#: Length of the header's size field, in bytes.
_PREFIX_BYTES = 8
#: Maximum size of a header, in bytes.
_MAX_HEADER_BYTES = 10_000_000
#: Size of a number in bytes, by safetensors' name of its type.
_NUMBER_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, slots=True)
class Tensor:
    #: safetensors' name of the type, such as F32 or F16.
    dtype: str
    shape: tuple[int, ...]
    #: Start of its numbers in the file, in bytes.
    offset: int
    #: Length of its numbers, in bytes.
    length: int


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the tensors in ``path`` by name, from the header only. Raises EmbeddingError if it can't be read."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(_PREFIX_BYTES))
            if header_bytes > min(_MAX_HEADER_BYTES, size):
                raise ValueError("the header is longer than the file")
            fields = json.loads(file.read(header_bytes))
        fields.pop("__metadata__", None)
        start = _PREFIX_BYTES + header_bytes
        return {name: _tensor(field, start, size) for name, field in fields.items()}
    except OSError as error:
        raise EmbeddingError(f"can't read the weights {path}: {error.strerror}") from error
    except (struct.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EmbeddingError(f"the weights {path} are damaged: {error}") from error


def _tensor(field: dict[str, object], start: int, file_bytes: int) -> Tensor:
    shape = tuple(map(int, field["shape"]))  # type: ignore[call-overload]
    begin, end = map(int, field["data_offsets"])  # type: ignore[call-overload]
    dtype = str(field["dtype"])
    if not 0 <= begin <= end <= file_bytes - start or min(shape, default=0) < 0:
        raise ValueError("a tensor is outside the file")
    if dtype in _NUMBER_BYTES and end - begin != math.prod(shape) * _NUMBER_BYTES[dtype]:
        raise ValueError("a tensor's length doesn't fit its shape")
    return Tensor(dtype, shape, start + begin, end - begin)


#: File names in a model's folder, as sentence-transformers writes them.
WEIGHTS_NAME = "model.safetensors"
TOKENIZER_NAME = "tokenizer.json"
#: Modules of a sentence encoder. The last one is optional, because Engram scales rows to length 1 anyway.
_MODULES = ("Transformer", "Pooling", "Normalize")
#: Supported kinds of pooling, with their older names.
_POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_MAX_JSON_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class BertEncoder:
    """A BERT sentence encoder on disk: everything on which its graph and vectors depend."""

    #: Path of the weights file, with links resolved, because onnxruntime refuses links.
    weights: Path
    #: The tensors in the weights file, by name.
    tensors: dict[str, Tensor]
    #: Numbers in a row.
    dimension: int
    layers: int
    heads: int
    #: Added to the variance in layer normalization.
    epsilon: float
    #: ``mean`` or ``cls``.
    pooling: str
    #: Maximum number of tokens read from a text, including special tokens.
    max_tokens: int
    #: The model's own prompts.
    prompts: Prompts


def read_encoder(folder: Path) -> BertEncoder | None:
    """Return the encoder in ``folder``; None for any other model. Raises EmbeddingError for a damaged file."""
    if not ((folder / WEIGHTS_NAME).is_file() and is_encoder(folder)):
        return None
    with _reading(folder):
        encoder = _read(folder)
    return encoder if _has_plain_weights(encoder) else None


def is_encoder(folder: Path) -> bool:
    """Return True if ``folder`` has an encoder's configuration, even without weights. Raises EmbeddingError."""
    with _reading(folder):
        modules, config = _json(folder / "modules.json"), _json(folder / "config.json")
        kinds = tuple(str(module["type"]).rpartition(".")[2] for module in modules)
        return (
            (folder / TOKENIZER_NAME).is_file()
            and kinds in (_MODULES, _MODULES[:2])
            and not modules[0]["path"]
            and _is_plain_bert(config)
            and bool(_pooling(folder, modules))
            and not _json(folder / "sentence_bert_config.json").get("do_lower_case")
        )


def weight_shapes(encoder: BertEncoder) -> dict[str, tuple[int, ...]]:
    """Return name → shape of every tensor that the graph uses; 0 means any length."""
    width, inner = encoder.dimension, encoder.tensors["encoder.layer.0.intermediate.dense.bias"].shape[0]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (0, width),
        "embeddings.position_embeddings.weight": (0, width),
        "embeddings.token_type_embeddings.weight": (0, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for number in range(encoder.layers):
        layer = f"encoder.layer.{number}."
        matrices = dict.fromkeys(("attention.self.query", "attention.self.key", "attention.self.value"), (width, width))
        matrices |= {
            "attention.output.dense": (width, width),
            "intermediate.dense": (inner, width),
            "output.dense": (width, inner),
        }
        for name, shape in matrices.items():
            shapes |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}{name}.weight": (width,), f"{layer}{name}.bias": (width,)}
    return shapes


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EmbeddingError(f"the configuration of the model in {folder} is damaged: {error}") from error


def _read(folder: Path) -> BertEncoder:
    config, limits = _json(folder / "config.json"), _json(folder / "sentence_bert_config.json")
    own_limit = limits.get("max_seq_length") or _json(folder / "tokenizer_config.json").get("model_max_length")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return BertEncoder(
        weights=(folder / WEIGHTS_NAME).resolve(),
        tensors=read_header(folder / WEIGHTS_NAME),
        dimension=int(config["hidden_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        pooling=_pooling(folder, _json(folder / "modules.json")),
        max_tokens=int(min(own_limit or MAX_TEXT_TOKENS, config["max_position_embeddings"], MAX_TEXT_TOKENS)),
        prompts=Prompts(prompts.get("document") or "", prompts.get("query") or ""),
    )


def _json(path: Path) -> Any:
    """Return the content of a JSON file; an empty object if there is no such file."""
    data = read_regular(path.resolve(), _MAX_JSON_BYTES)
    return {} if data is None else json.loads(data)


def _is_plain_bert(config: dict[str, Any]) -> bool:
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
        and int(config["hidden_size"]) % int(config["num_attention_heads"]) == 0
    )


def _pooling(folder: Path, modules: list[dict[str, Any]]) -> str:
    """Return the model's kind of pooling; "" if the graph does not support it."""
    config = _json(folder / modules[1]["path"] / "config.json")
    if not config.get("include_prompt", True):
        return ""
    chosen = config.get("pooling_mode")
    if chosen is None:
        switched_on = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
        chosen = next((name for name, former in _POOLINGS.items() if switched_on == [former]), "")
    return chosen if isinstance(chosen, str) and chosen in _POOLINGS else ""


def _has_plain_weights(encoder: BertEncoder) -> bool:
    """Return True if every tensor of the graph is present, with the right shape, as float32 or float16."""
    if "encoder.layer.0.intermediate.dense.bias" not in encoder.tensors:
        return False
    for name, shape in weight_shapes(encoder).items():
        tensor = encoder.tensors.get(name)
        if tensor is None or tensor.dtype not in ("F32", "F16") or len(tensor.shape) != len(shape):
            return False
        if any(wanted not in (0, length) for wanted, length in zip(shape, tensor.shape, strict=True)):
            return False
    return encoder.tensors["embeddings.position_embeddings.weight"].shape[0] >= encoder.max_tokens


# -- Write an ONNX model as protobuf bytes, so that the onnx package is not needed.
#
# This covers only the parts of the format that Engram's graphs use. Field and type numbers are those of onnx.proto.

#: Versions of the file format and of the operators; "" is the domain of ONNX itself.
_IR_VERSION = 10
_OPERATOR_VERSIONS = {"": 20, "com.microsoft": 1}
#: ONNX's codes for number types.
FLOAT32, INT32, INT64, FLOAT16 = 1, 6, 7, 10
_TYPES = {"F32": FLOAT32, "F16": FLOAT16}
#: Codes for attribute types.
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _STRING_ATTRIBUTE = 1, 2, 3
_EXTERNAL = 1

#: Length of a dimension; a name means any length.
Dimension = int | str


class OnnxGraph:
    """Collects the nodes of a graph with weights in a separate file, which onnxruntime memory-maps."""

    def __init__(self, weights_name: str) -> None:
        """Start a graph; ``weights_name`` is the name of the weights file, without a folder."""
        self._weights_name = weights_name
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []

    def node(self, operator: str, inputs: Sequence[str], *, domain: str = "", **attributes: float | int | str) -> str:
        """Add a node with one output; return the name of the output. The input "" omits an optional input."""
        output = f"{operator}_{len(self._nodes)}"
        fields = [_text(1, name) for name in inputs]
        fields += [_text(2, output), _text(3, output), _text(4, operator)]
        fields += [_message(5, _attribute(name, value)) for name, value in attributes.items()]
        fields += [_text(7, domain)] if domain else []
        self._nodes.append(b"".join(fields))
        return output

    def weight(self, name: str, tensor: Tensor) -> str:
        """Add a tensor of the weights file, cast to float32 if necessary, and return its name."""
        value = self.stored_weight(name, tensor)
        return value if tensor.dtype == "F32" else self.as_float32(value)

    def stored_weight(self, name: str, tensor: Tensor) -> str:
        place = {"location": self._weights_name, "offset": str(tensor.offset), "length": str(tensor.length)}
        fields = [_number(1, length) for length in tensor.shape]
        fields += [_number(2, _TYPES[tensor.dtype]), _text(8, name)]
        fields += [_message(13, _text(1, key) + _text(2, value)) for key, value in place.items()]
        fields += [_number(14, _EXTERNAL)]
        self._initializers.append(b"".join(fields))
        return name

    def as_float32(self, value: str) -> str:
        """Add a cast to float32 and return its name."""
        return self.node("Cast", [value], to=FLOAT32)

    def integers(self, *values: int) -> str:
        """Add a constant row of int64 and return its name."""
        name = f"integers_{len(self._initializers)}"
        data = struct.pack(f"<{len(values)}q", *values)
        self._initializers.append(_number(1, len(values)) + _number(2, INT64) + _text(8, name) + _message(9, data))
        return name

    def finish(
        self, inputs: dict[str, tuple[int, Sequence[Dimension]]], outputs: dict[str, tuple[int, Sequence[Dimension]]]
    ) -> bytes:
        """Return the complete model. Each input and output is given with its type and shape."""
        graph = [_message(1, node) for node in self._nodes]
        graph += [_text(2, "engram")]
        graph += [_message(5, initializer) for initializer in self._initializers]
        graph += [_message(11, _value(name, *kind)) for name, kind in inputs.items()]
        graph += [_message(12, _value(name, *kind)) for name, kind in outputs.items()]
        model = [_number(1, _IR_VERSION), _text(2, "engram"), _message(7, b"".join(graph))]
        model += [_message(8, _text(1, domain) + _number(2, number)) for domain, number in _OPERATOR_VERSIONS.items()]
        return b"".join(model)


def _attribute(name: str, value: float | int | str) -> bytes:
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _number(20, _STRING_ATTRIBUTE)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)
    return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)


def _value(name: str, element: int, shape: Sequence[Dimension]) -> bytes:
    dimensions = (_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    tensor = _number(1, element) + _message(2, b"".join(_message(1, dimension) for dimension in dimensions))
    return _text(1, name) + _message(2, _message(1, tensor))


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


#: Domain of onnxruntime's additional operators.
_MICROSOFT = "com.microsoft"


@dataclass(frozen=True, slots=True)
class GraphInPlace:
    """An ONNX model with its weights in a separate file."""

    #: The model, as the bytes of an ONNX file.
    data: bytes
    #: Folder of the weights file to which the model refers.
    weights_folder: Path


def build_graph(encoder: BertEncoder) -> GraphInPlace:
    """Build the graph of an encoder with the inputs ``input_ids`` and ``attention_mask``, both of shape (batch,
    length).

    Its output is one row per text, with the direction of the model's row but not its length. The graph has 26 KB and is
    built in a few milliseconds.
    """
    return GraphInPlace(_Builder(encoder).build(), encoder.weights.parent)


class _Builder:
    """Adds the parts of the encoder to a graph. Except in attention, the tokens of all texts form one matrix."""

    def __init__(self, encoder: BertEncoder) -> None:
        self._encoder = encoder
        self._graph = OnnxGraph(encoder.weights.name)
        self._width = self._graph.integers(encoder.dimension)
        self._row_shape = self._graph.integers(-1, encoder.dimension)

    def build(self) -> bytes:
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
        """Return the summed embeddings of words, positions and the first text type, reading only the rows needed."""
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
        """Return one row per text: that of its first token, or the sum of its tokens' rows, parallel to their mean."""
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
