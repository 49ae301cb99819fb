"""Measure how well secrets are masked, how much ordinary text is masked, the time, and results on planted instructions.

    python benchmarks/redaction.py [--json] [--seed N]
    python benchmarks/redaction.py --growth

`--growth` repeats about two thousand texts made from the rules' own patterns, and prints how much longer 64 kB take
than 16 kB (best of five), with every text that takes more than five times as long. It takes about ten minutes.

Made-up secrets come from `tests/redaction/`; the shared set and the corpus of real sessions are used if they are next
to the checkout (or where ENGRAM_SHARED says). A secret counts as masked if no ten characters of it are left.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from engram.redaction import redact  # noqa: E402
from engram.redaction.values import MARK  # noqa: E402
from engram.trust.suspicion import why_suspect  # noqa: E402
from engram.trust.voice import split_typed, typed_text  # noqa: E402

#: Number of characters in one timed piece.
PIECE = 2_048
#: Four times the text may take at most this many times as long.
LINEAR = 5.0
#: Maximum number of pieces that are timed.
PIECES = 600


def load(path: Path) -> ModuleType:
    """Load a Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recall(cases: Iterable[tuple[str, str, str]], survives: Any) -> dict[str, Any]:
    """Return the share of masked secrets, in all and for the kinds of which some were missed."""
    seen: dict[str, int] = defaultdict(int)
    missed: dict[str, int] = defaultdict(int)
    for kind, text, secret in cases:
        seen[kind] += 1
        missed[kind] += survives(secret, redact(text))
    total = sum(seen.values())
    return {
        "kinds": len(seen),
        "secrets": total,
        "gone_percent": round(100 * (1 - sum(missed.values()) / total), 2),
        "missed": {kind: f"{count} of {seen[kind]}" for kind, count in missed.items() if count},
    }


def masked_percent(texts: list[str]) -> dict[str, Any]:
    """Return the share of characters that were replaced by placeholders, in percent."""
    total = sum(map(len, texts))
    masked = 0
    for text in texts:
        result = redact(text)
        if result != text:
            masked += max(0, len(text) - len(MARK.sub("", result)))
    return {"characters": total, "masked_percent": round(100 * masked / max(total, 1), 4)}


def timing(texts: list[str]) -> dict[str, Any]:
    """Return the milliseconds for 2 KB pieces of ordinary text, and the seconds for a hostile line of one megabyte."""
    joined = "\n".join(texts)
    pieces = [joined[at : at + PIECE] for at in range(0, len(joined), PIECE)]
    pieces = pieces[:: max(1, len(pieces) // PIECES)]
    taken = []
    for piece in pieces:
        begun = time.perf_counter()
        redact(piece)
        taken.append((time.perf_counter() - begun) * 1000)
    begun = time.perf_counter()
    redact('password="' * 100_000)
    return {
        "median_ms": round(statistics.median(taken), 3),
        "p99_ms": round(sorted(taken)[int(len(taken) * 0.99)], 3),
        "hostile_megabyte_seconds": round(time.perf_counter() - begun, 2),
    }


def growth(units: dict[str, str]) -> dict[str, Any]:
    """Return the ratio of the processor times for 64 kB and 16 kB of each repeated text, best of five."""
    ratios: dict[str, float] = {}
    slowest, slowest_unit = 0.0, ""
    for unit in units:
        small, large = (_best(unit, size) for size in (16_384, 65_536))
        ratios[unit] = large / small
        if large > slowest:
            slowest, slowest_unit = large, unit
    return {
        "texts": len(ratios),
        "median_ratio": round(statistics.median(ratios.values()), 2),
        "worst_ratio": round(max(ratios.values()), 2),
        "slowest_64_kB_seconds": round(slowest, 2),
        "slowest_text": slowest_unit,
        "more_than_five_times": {
            f"{units[unit]} {unit!r}": round(ratio, 2) for unit, ratio in ratios.items() if ratio > LINEAR
        },
    }


def _best(unit: str, size: int) -> float:
    text = (unit * (size // len(unit) + 1))[:size]
    times = []
    for _ in range(5):
        begun = time.process_time()
        redact(text)
        times.append(time.process_time() - begun)
    return min(times)


def poisoning(red_team: ModuleType, prompts: list[str]) -> dict[str, Any]:
    """Return the share of flagged payloads, of pastes that counted as typed, and of false alarms for typed prompts."""
    payloads = red_team.PAYLOADS
    leaks = 0
    for payload in payloads:
        for wrap in red_team.WRAPPERS.values():
            typed = "\n".join(segment for segment, is_typed in split_typed(wrap(payload)) if is_typed)
            leaks += any(line in typed for line in payload.splitlines() if len(line) > 8)
    typed_prompts = [t for t in map(typed_text, prompts) if t.strip()]
    alarms = sum(1 for t in typed_prompts if why_suspect(t, is_typed=True))
    return {
        "payloads": len(payloads),
        "flagged_percent": round(100 * sum(bool(why_suspect(p, is_typed=False)) for p in payloads) / len(payloads), 1),
        "pastes": len(payloads) * len(red_team.WRAPPERS),
        "pastes_taken_for_typed": leaks,
        "typed_prompts": len(typed_prompts),
        "false_alarms_percent": round(100 * alarms / len(typed_prompts), 2) if typed_prompts else None,
    }


def measure(seed: int) -> dict[str, Any]:
    """Return all figures; those that need the shared data are left out if it is absent."""
    tests = REPO / "tests" / "redaction"
    shared = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
    others, late, fixtures = (load(tests / f"{n}.py") for n in ("other_kinds", "late_kinds", "conftest"))
    figures: dict[str, Any] = {
        "other kinds": recall(others.cases(seed), others.survives),
        "late kinds": recall(late.cases(seed), others.survives),
    }
    stdlib = [p.read_text("utf-8", errors="replace") for p in sorted(Path(os.__file__).parent.glob("*.py"))[:120]]
    figures["standard library"] = masked_percent(stdlib)
    said: list[str] = []
    if (shared / "redaction" / "cases.py").is_file():
        cases = load(shared / "redaction" / "cases.py")
        figures["development set"] = recall(((k, t, s) for k, _, t, s in cases.positives()), others.survives)
        hard = cases.negatives_hard()
        figures["look-alikes"] = {"texts": len(hard), "changed": sum(redact(text) != text for text in hard)}
    if (shared / "corpus").is_dir():
        said = list(dict.fromkeys(fixtures.said_texts(shared / "corpus")))
        figures["corpus"] = masked_percent(said)
    figures["time for 2 KB"] = timing(said or stdlib)
    prompts = fixtures.prompts_of(shared / "corpus") if said else []
    figures["poisoning"] = poisoning(load(tests / "red_team.py"), prompts)
    return figures


def main() -> None:
    """Print the figures, as a list or as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object (default: a list)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the made-up secrets (default: 7)")
    parser.add_argument("--growth", action="store_true", help="measure only how the time grows with the length")
    options = parser.parse_args()
    rule_texts = load(REPO / "tests" / "redaction" / "rule_texts.py")
    figures = {"growth": growth(rule_texts.units())} if options.growth else measure(options.seed)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        print(name)
        for key, value in values.items():
            print(f"  {key:28} {value}")


if __name__ == "__main__":
    main()
