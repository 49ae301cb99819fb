"""Runs the original model with sentence-transformers; the one home of sentence-transformers and torch.

Importing this module is cheap; using anything in it loads torch (about 8 s and 400 MB). It takes the extra ``models``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.embedding.embedder import MAX_TEXT_TOKENS, Prompts, model_id
from engram.embedding.hashed import Spans, cut, unit_rows, valid
from engram.embedding.source import ModelSource, find_folder, thresholds_of, weights_sha256
from engram.errors import EmbeddingError

#: Texts in one call of the original model.
_BATCH_ROWS = 4


class ReferenceEmbedder:
    """Runs the original model if it can't be compiled: more memory and three times slower, same vectors."""

    runtime = "reference"

    def __init__(self, source: ModelSource, prompts: Prompts, reason: str, *, threads: int = 1) -> None:
        """Load the model; ``reason`` says why it is not compiled. Raises EmbeddingError if it can't be loaded."""
        folder = source_folder(source)
        use_threads(threads)
        self.reason = reason
        self.model = load_original(folder)
        self.prompts = prompts.over(own_prompts(self.model, source))
        self.dimension: int = self.model.get_embedding_dimension()
        self.max_tokens: int = self.model.max_seq_length
        self.thresholds = thresholds_of(source.name)
        self.model_id = model_id(source.name, weights_sha256(folder), self.max_tokens, self.prompts.document)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text; see ``Embedder.embed``."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return unit_rows(encode(self.model, [self.prompts.document + text for text in texts]))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query; see ``Embedder.embed_query``."""
        row: NDArray[np.float32] = unit_rows(encode(self.model, [self.prompts.query + text]))[0]
        return row

    def pieces(self, text: str) -> list[str]:
        """Cut ``text`` into pieces that fit beside the document prompt; see ``Embedder.pieces``."""
        special = self.model.tokenizer.num_special_tokens_to_add(False)
        return cut(text, self.max_tokens - special - len(self._spans(self.prompts.document)), self._spans)

    def _spans(self, text: str) -> Spans:
        shown = self.model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        spans: Spans = shown["offset_mapping"]
        return spans


def use_threads(threads: int) -> None:
    """Let torch use so many threads for one call, in the whole process."""
    import torch

    torch.set_num_threads(threads)


def source_folder(source: ModelSource) -> Path:
    """Return the folder of the original model; uses no network.

    Raises:
        EmbeddingError: the model is not on this machine, or its weights are not the pinned ones.
    """
    folder = find_folder(source)
    if source.pinned_sha256 and weights_sha256(folder) != source.pinned_sha256:
        raise EmbeddingError("the bundled model's weights are not the ones Engram was made for; install it again")
    return folder


def load_original(folder: Path) -> Any:
    """Return the SentenceTransformer in ``folder``: safetensors only, none of its code, on the CPU, in float32.

    Raises:
        EmbeddingError: the weights are in another form, or sentence-transformers can't load the model.
    """
    weights_sha256(folder)
    # The libraries read these when they are imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    try:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(
            str(folder),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            # The plain form of attention compiles to the smaller graph, which needs half the memory.
            model_kwargs={"use_safetensors": True, "attn_implementation": "eager", "dtype": "float32"},
        )
    except Exception as error:  # whatever a foreign model raises, the answer is the same
        raise EmbeddingError(f"sentence-transformers cannot load {folder.name}: {_first_line(error)}") from error
    model.eval()
    model.max_seq_length = min(model.max_seq_length or MAX_TEXT_TOKENS, MAX_TEXT_TOKENS)
    return model


def own_prompts(model: Any, source: ModelSource) -> Prompts:
    """Return the prompts that the model's configuration names, or those known for its name."""
    return Prompts(model.prompts.get("document") or "", model.prompts.get("query") or "").over(source.prompts)


def encode(model: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the rows that sentence-transformers computes, without any prompt."""
    rows: NDArray[np.float32] = model.encode(
        [valid(text) for text in texts],
        batch_size=_BATCH_ROWS,
        prompt="",
        show_progress_bar=False,
        convert_to_numpy=True,
    )
    return rows


def pooling_of(model: Any) -> str:
    """Say how the model makes one vector of many, for people to read."""
    modes = [str(getattr(module, "pooling_mode", "")) for module in model]
    return "+".join(mode for mode in modes if mode) or "none"


def versions() -> dict[str, str]:
    """Return the versions of the libraries that compile."""
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "sentence-transformers", "onnxscript")}


def export(model: Any, target: Path) -> None:
    """Write ``model`` with all its modules as ONNX to ``target``, weights in a file beside it.

    Inputs are ``input_ids`` and ``attention_mask`` (batch, length), the output is ``sentence_vector``.
    Uses torch's exporter over torch.export; the older one over TorchScript is on its way out.
    """
    import torch

    class Whole(torch.nn.Module):  # type: ignore[misc]
        """All modules in a row: transformer, pooling, whatever follows."""

        def __init__(self) -> None:
            super().__init__()
            self.modules_in_a_row = torch.nn.ModuleList(list(model))

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            for module in self.modules_in_a_row:
                features = module(features)
            return features["sentence_embedding"]

    example = model.tokenizer(
        ["a short text", "a text of some more words, so that one of them is padded"], padding=True
    )
    inputs = tuple(torch.tensor(example[name]) for name in ("input_ids", "attention_mask"))
    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("length", min=2, max=MAX_TEXT_TOKENS)
    shape = {0: batch, 1: length}
    with torch.no_grad():
        torch.onnx.export(
            Whole().eval(),
            inputs,
            str(target),
            input_names=["input_ids", "attention_mask"],
            output_names=["sentence_vector"],
            dynamic_shapes={"input_ids": shape, "attention_mask": shape},
            dynamo=True,
            external_data=True,
            optimize=True,
            verbose=False,
        )


def save_tokenizer(model: Any, target: Path) -> None:
    """Write the model's fast tokenizer to ``target``; raises EmbeddingError if it has none."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise EmbeddingError("the model has no tokenizer that can be used without transformers")
    backend.save(str(target))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
