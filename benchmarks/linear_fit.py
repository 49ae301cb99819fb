"""Fit the models of ``engram.text.linear_model``: logistic regression by AdaGrad, averaged over the last rounds."""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.text.linear_model import PART_BUCKETS, WORD_BUCKETS, Features, LinearModel, features

#: Number of rounds over all texts, step size of the first one, and seed for the order of the texts.
ROUNDS, STEP, SEED = 12, 0.5, 14


class Weights(NamedTuple):
    """The fitted values: a weight for each feature, and the bias."""

    values: NDArray[np.float64]
    bias: float

    def score(self, text: str) -> float:
        """Return the log-odds of a text."""
        buckets, values = _row(features(text))
        return float(self.values[buckets] @ values) + self.bias

    def model(self, **floors: float) -> LinearModel:
        """Return the model, with the minimum scores (floors) for a text to count."""
        values = self.values.tolist()
        return LinearModel(values[:WORD_BUCKETS], values[WORD_BUCKETS:], 1.0, self.bias, floors)


def fit(texts: Iterable[tuple[str, bool]]) -> Weights:
    """Return the weights fitted on texts, each with whether the model should find it."""
    return fit_features((features(text), is_found) for text, is_found in texts)


def fit_features(found: Iterable[tuple[Features, bool]], weight: float = 1.0) -> Weights:
    """Return the weights fitted on the features of texts, each with whether the model should find the text.

    Args:
        weight: how much more a text counts that the model should find than one that it should not.
    """
    lines = [(*_row(one), is_found) for one, is_found in found]
    size = WORD_BUCKETS + PART_BUCKETS
    weights, squares, bias, bias_squares = np.zeros(size), np.full(size, 1e-2), 0.0, 1e-2
    mean, mean_bias, averaged = np.zeros(size), 0.0, ROUNDS - ROUNDS // 2
    chance = np.random.default_rng(SEED)
    for number in range(ROUNDS):
        for place in chance.permutation(len(lines)):
            buckets, values, is_found = lines[place]
            odds = float(weights[buckets] @ values) + bias
            error = (1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))) - is_found) * (weight if is_found else 1.0)
            slope = error * values
            squares[buckets] += slope * slope
            weights[buckets] -= STEP * slope / np.sqrt(squares[buckets])
            bias_squares += error * error
            bias -= STEP * error / math.sqrt(bias_squares)
        if number >= ROUNDS // 2:
            mean += weights / averaged
            mean_bias += bias / averaged
    return Weights(mean, mean_bias)


def write(weights: Weights, path: Path, command: str, floors: Mapping[str, float]) -> None:
    """Write the weights as eight-bit integers, with the command that fitted them."""
    scale = float(np.abs(weights.values).max()) / 127
    packed = zlib.compress(np.round(weights.values / scale).astype(np.int8).tobytes(), 9)
    stored = {
        "fitted_by": command,
        "scale": round(scale, 6),
        "bias": round(weights.bias, 4),
        "floors": {name: round(floor, 2) for name, floor in floors.items()},
        "weights": b64encode(packed).decode(),
    }
    path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _row(found: Features) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    buckets = np.array([*found.words, *(WORD_BUCKETS + part for part in found.parts)], dtype=np.int64)
    return buckets, np.repeat(found.shares, [len(found.words), len(found.parts)])
