"""Recognizes BERT sentence encoders, which run from their own weights without compiling; the bundled model is one."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.embedding.embedder import MAX_TEXT_TOKENS, Prompts
from engram.errors import EmbeddingError
from engram.system.atomic import read_regular

# -- The header of a safetensors file: which tensors it holds, and where.

#: Length of the number before the header, in bytes.
_PREFIX_BYTES = 8
#: The longest header that is read, in bytes.
_MAX_HEADER_BYTES = 10_000_000
#: Bytes of one number, by safetensors' name of the type.
_NUMBER_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a safetensors file."""

    #: F32, F16 and others: safetensors' name of the type.
    dtype: str
    shape: tuple[int, ...]
    #: Where its numbers start, counted from the start of the file, in bytes.
    offset: int
    #: How much room they take, in bytes.
    length: int


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the tensors in ``path`` by name; reads the header only.

    Raises:
        EmbeddingError: the file is missing, cut short, or no safetensors file.
    """
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
        raise ValueError("a tensor lies outside of the file")
    if dtype in _NUMBER_BYTES and end - begin != math.prod(shape) * _NUMBER_BYTES[dtype]:
        raise ValueError("a tensor's length doesn't fit its shape")
    return Tensor(dtype, shape, start + begin, end - begin)


#: File names in the folder of a model, as sentence-transformers writes them.
WEIGHTS_NAME = "model.safetensors"
TOKENIZER_NAME = "tokenizer.json"
#: What a sentence encoder consists of; the last part is optional, since Engram's rows always have length 1.
_MODULES = ("Transformer", "Pooling", "Normalize")
#: The ways of pooling that the graph has, with their older names.
_POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_MAX_JSON_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class BertEncoder:
    """A BERT sentence encoder on the disk: what its graph and its rows depend on."""

    #: The file of weights, with links resolved: onnxruntime refuses links.
    weights: Path
    #: The tensors in it, by name.
    tensors: dict[str, Tensor]
    #: Numbers in a row.
    dimension: int
    layers: int
    heads: int
    #: Added to the variance where rows are normalized.
    epsilon: float
    #: mean or cls.
    pooling: str
    #: Tokens of a text that count, special tokens included.
    max_tokens: int
    #: The model's own prompts.
    prompts: Prompts


def read_encoder(folder: Path) -> BertEncoder | None:
    """Return the encoder in ``folder``, or None if the model is of another kind and has to be compiled.

    Raises:
        EmbeddingError: a file of an encoder is damaged.
    """
    if not ((folder / WEIGHTS_NAME).is_file() and is_encoder(folder)):
        return None
    with _reading(folder):
        encoder = _read(folder)
    return encoder if _has_plain_weights(encoder) else None


def is_encoder(folder: Path) -> bool:
    """Whether the configuration in ``folder`` is that of an encoder; the weights need not be there yet.

    Raises:
        EmbeddingError: a file is damaged.
    """
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
    """Return the name and the shape of every tensor that the graph uses; 0 stands for any length."""
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
    """The content of a JSON file; an empty object if there is no such file."""
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
    """How the model makes one vector of many; "" for a way that the graph doesn't have."""
    config = _json(folder / modules[1]["path"] / "config.json")
    if not config.get("include_prompt", True):
        return ""
    chosen = config.get("pooling_mode")
    if chosen is None:
        switched_on = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
        chosen = next((name for name, former in _POOLINGS.items() if switched_on == [former]), "")
    return chosen if isinstance(chosen, str) and chosen in _POOLINGS else ""


def _has_plain_weights(encoder: BertEncoder) -> bool:
    """Whether every tensor of the graph is there, with its shape, as float32 or float16."""
    if "encoder.layer.0.intermediate.dense.bias" not in encoder.tensors:
        return False
    for name, shape in weight_shapes(encoder).items():
        tensor = encoder.tensors.get(name)
        if tensor is None or tensor.dtype not in ("F32", "F16") or len(tensor.shape) != len(shape):
            return False
        if any(wanted not in (0, length) for wanted, length in zip(shape, tensor.shape, strict=True)):
            return False
    return encoder.tensors["embeddings.position_embeddings.weight"].shape[0] >= encoder.max_tokens
