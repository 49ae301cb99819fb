"""The embedder without a model is the same in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engram.embedding.hashed import HashedEmbedder

PROGRAM = """
from engram.embedding.hashed import HashedEmbedder
print(HashedEmbedder().embed(["the queue is a doorbell"]).tobytes().hex())
"""


def test_another_process_gets_the_same_row() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert answer.stdout.strip() == HashedEmbedder().embed(["the queue is a doorbell"]).tobytes().hex()


@pytest.mark.parametrize("dimension", [16, 384])
def test_the_id_names_the_dimension(dimension: int) -> None:
    embedder = HashedEmbedder(dimension)

    assert str(dimension) in embedder.model_id
    assert embedder.embed(["x"]).shape == (1, dimension)


def test_inflected_words_are_near_each_other() -> None:
    embedder = HashedEmbedder()

    query = embedder.embed_query("deployments")

    near, far = embedder.embed(["deployment", "watermelon"])
    assert float(query @ near) > float(query @ far) + 0.2
