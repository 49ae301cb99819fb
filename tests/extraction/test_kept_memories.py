"""The local extractor against the gold memories of real sessions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from engram.extraction.local import LocalExtractor

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "extraction.py"


@pytest.mark.corpus
def test_what_is_kept_of_real_sessions_stays_above_the_floors(corpus: Path, shared: Path) -> None:
    spec = importlib.util.spec_from_file_location("extraction_benchmark", BENCHMARK)
    assert spec
    assert spec.loader
    bench = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = bench
    spec.loader.exec_module(bench)
    gold = bench.Gold(shared / "bench/code/memories.jsonl", bench._load(shared / "bench/match.py"))

    extractor = LocalExtractor()
    table = gold.table(bench.keep(bench.read_sessions(corpus), gold.complete(), lambda project: extractor))

    assert table["coverage"] >= 73
    assert table["coverage of high"] >= 79
    assert table["precision"] >= 80
    assert table["coverage by the bite alone"] >= 50
    assert table["kept per session"] <= 8
