"""Fit the model that finds secrets in sentences, and measure masking on writers who were held out.

    python benchmarks/told_secrets.py [--write] [--misses] [--sessions]

``answers/secrets`` has one file per writer, with texts that contain secrets, and look-alikes. Each writer's texts are
masked with the rules and a model that was fitted on the other writers' texts. A text counts as masked if no ten
characters of any of its secrets are left. ``--misses`` prints the texts that are not masked and the look-alikes that
change. ``--sessions`` also fits without each project of the real sessions, and prints what the model masks there.
``--write`` fits on everything and writes ``engram/redaction/told_weights.json``.

Real sessions are next to the checkout (or where ENGRAM_SHARED says). Everything in them counts as harmless, as do the
documentation, the samples, the tasks' histories, and the sentences in ``answers/trust`` and ``answers/rules``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linear_fit import Weights, fit_features, write

from engram.redaction import redact, redactor, told_secrets
from engram.redaction.told_candidates import Candidate
from engram.text.linear_model import Features, LinearModel

REPO = Path(__file__).resolve().parents[1]
ANSWERS = REPO / "benchmarks" / "answers"
SHARED = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
#: Sets by the author of the rules and features: the model is fitted on them, but their figures prove nothing.
NOT_MEASURED = ("early", "author")
#: A template that puts other lines around a text.
BETWEEN_LINES = "Some notes, as of today.\n\n{}\n\nThat is all for now."
#: How much more a secret counts than other candidates, and the minimum score of a candidate that is masked.
WEIGHT, FLOOR = 4.0, -0.5
#: Maximum share of secrets that may be rejected by their form alone, without the surrounding text.
MISSED_BY_FORM = 0.003
#: A secret counts as left if this many of its characters are.
LEFT = 10


class Text(NamedTuple):
    """A text, who wrote it, and the secrets in it."""

    writer: str
    text: str
    secrets: tuple[str, ...]
    kind: str


class Judged(NamedTuple):
    """A candidate in a text, its features, and whether it is a secret; None for part of a secret."""

    writer: str
    found: Features
    is_secret: bool | None


def read_texts() -> list[Text]:
    """Return the texts of all writers."""
    return [
        Text(path.stem, record["text"], tuple(record["secrets"]), record["kind"])
        for path in sorted((ANSWERS / "secrets").glob("*.jsonl"))
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    ]


def harmless() -> Iterator[tuple[str, str]]:
    """Yield the texts that count as harmless, each once and with its project, if it has one."""
    for path in (*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            yield "docs", paragraph
    for path in (*REPO.glob("benchmarks/tasks/*/history/**/*.jsonl"), *REPO.glob("engram/samples/**/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from (("tasks", text) for text in _strings(_parsed(line)))
    for name, field in (("trust", "text"), ("rules", "prompt")):
        for path in sorted((ANSWERS / name).glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield "", json.loads(line)[field]
    seen: set[str] = set()
    for folder in (SHARED / "corpus", SHARED / "corpus-codex"):
        for path in sorted(folder.rglob("*.jsonl")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                for text in _strings(_parsed(line)):
                    if text not in seen:
                        seen.add(text)
                        yield path.relative_to(folder).parts[0], text


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in an entry that are long enough for a sentence."""
    if isinstance(value, str):
        if len(value) >= 12 and " " in value:
            yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def candidates(text: str) -> Iterator[tuple[Candidate, Features, bool]]:
    """Yield the candidates in a text as ``redact`` finds them, with their features."""
    low = redactor.lowered(text)
    opening = redactor.places(text, low)[2]
    for region in told_secrets.regions(text, redactor.places_of(text, opening)):
        yield from told_secrets.features_in(text, low, region)


def labelled(texts: Iterable[Text]) -> list[Judged]:
    """Return the candidates in texts, with and without other lines around them, and whether each is a secret."""
    return [
        Judged(one.writer, found, _is_secret(one, candidate))
        for text in texts
        for one in (text, text._replace(text=BETWEEN_LINES.format(text.text)))
        for candidate, found, _ in candidates(one.text)
    ]


def _is_secret(one: Text, candidate: Candidate) -> bool | None:
    """Return whether a candidate is a secret, except for a few characters; None if it is part of one or little more."""
    answer: bool | None = False
    for secret in one.secrets:
        at = one.text.find(secret)
        while at >= 0:
            shared = min(at + len(secret), candidate.end) - max(at, candidate.start)
            size = candidate.end - candidate.start
            if shared == len(secret) and size - shared <= 4:
                return True
            if shared == size and shared >= 0.6 * len(secret):
                return True
            if shared > 0 and (shared < len(secret) or size <= 1.4 * len(secret)):
                answer = None
            at = one.text.find(secret, at + 1)
    return answer


def weights_of(judged: Iterable[Judged], harmless_ones: Iterable[Judged]) -> Weights:
    """Return the weights fitted on candidates."""
    found = [(one.found, one.is_secret) for one in (*judged, *harmless_ones) if one.is_secret is not None]
    return fit_features(found, WEIGHT)


def model_of(weights: Weights, judged: Iterable[Judged]) -> LinearModel:
    """Return the model with its floors."""
    model = weights.model(secret=FLOOR)
    by_form = sorted(model.part_score(one.found.parts) for one in judged if one.is_secret)
    return model._replace(floors={"secret": FLOOR, "form": round(by_form[int(MISSED_BY_FORM * len(by_form))], 2)})


def use(model: LinearModel) -> None:
    """Make ``redact`` use this model."""
    told_secrets.shipped_model.cache_clear()
    told_secrets._by_form.cache_clear()
    told_secrets.shipped_model = lambda: model  # type: ignore[assignment]
    told_secrets.shipped_model.cache_clear = lambda: None  # type: ignore[method-assign]


def is_left(secret: str, masked: str) -> bool:
    """Return whether a secret, or any ten characters of it, are left."""
    parts = (secret[at : at + LEFT] for at in range(max(1, len(secret) - LEFT + 1)))
    return any(part in masked for part in parts)


def measure(texts: Sequence[Text], models: dict[str, LinearModel], *, shows_misses: bool) -> None:
    """Print how many texts are masked completely and how many look-alikes change, by writer."""
    counts: dict[str, Counter[str]] = {}
    for writer, model in models.items():
        use(model)
        for one in (text for text in texts if text.writer == writer):
            masked = redact(one.text)
            left = [secret for secret in one.secrets if is_left(secret, masked)]
            for name in (writer, "all"):
                count = counts.setdefault(name, Counter())
                count["secrets"] += bool(one.secrets)
                count["masked"] += bool(one.secrets) and not left
                count["others"] += not one.secrets
                count["changed"] += not one.secrets and masked != one.text
            if shows_misses and left:
                print(f"left     {one.kind}: {one.text!r} {left}")
            if shows_misses and not one.secrets and masked != one.text:
                print(f"changed  {one.kind}: {masked!r}")
    print(f"{'':20}{'secrets':>9}{'masked':>10}{'others':>9}{'changed':>10}")
    for name, count in sorted(counts.items(), key=lambda item: item[0] == "all"):
        shares = (100 * count["masked"] / count["secrets"], 100 * count["changed"] / count["others"])
        print(f"{name:20}{count['secrets']:9}{shares[0]:8.1f} %{count['others']:9}{shares[1]:8.1f} %")


def measure_sessions(judged: Sequence[Judged], harmless_ones: Sequence[Judged], texts: dict[str, list[str]]) -> None:
    """Print what models mask in the sessions of the project that they were not fitted on."""
    total = 0
    for project in sorted(texts):
        weights = weights_of(judged, (one for one in harmless_ones if one.writer != project))
        model = model_of(weights, judged)
        for text in texts[project]:
            for at in range(0, len(text), redactor.WINDOW - redactor.OVERLAP):
                for candidate, found, may in candidates(text[at : at + redactor.WINDOW]):
                    if may and model.score(found) >= FLOOR:
                        total += 1
                        start, end = at + candidate.start, at + candidate.end
                        shown = f"{text[max(0, start - 60) : start]}[[{text[start:end]}]]{text[end : end + 40]}"
                        print(f"{project}: {shown!r}")
    print(f"{total} candidates masked in {sum(map(len, texts.values()))} texts of {len(texts)} projects")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fit on everything and write the weights")
    parser.add_argument("--misses", action="store_true", help="print what is left and what changes wrongly")
    parser.add_argument("--sessions", action="store_true", help="print what is masked in held-out real sessions")
    given = parser.parse_args()
    texts = read_texts()
    judged = labelled(texts)
    sessions: dict[str, list[str]] = {}
    harmless_ones: list[Judged] = []
    seen: set[tuple[object, ...]] = set()
    for project, text in harmless():
        if project:
            sessions.setdefault(project, []).append(text)
        for at in range(0, len(text), redactor.WINDOW - redactor.OVERLAP):
            for _, found, _ in candidates(text[at : at + redactor.WINDOW]):
                key = (*found.words, *found.parts)
                if key not in seen:
                    seen.add(key)
                    harmless_ones.append(Judged(project, found, is_secret=False))
    if not sessions:
        print("no real sessions found: fitted without them", file=sys.stderr)
    writers = [writer for writer in dict.fromkeys(one.writer for one in texts) if writer not in NOT_MEASURED]
    models = {}
    for writer in writers:
        others = [one for one in judged if one.writer != writer]
        models[writer] = model_of(weights_of(others, harmless_ones), others)
    measure(texts, models, shows_misses=given.misses)
    if given.sessions:
        measure_sessions(judged, harmless_ones, sessions)
    if given.write:
        weights = weights_of(judged, harmless_ones)
        floors = model_of(weights, judged).floors
        write(weights, told_secrets.WEIGHTS, "python benchmarks/told_secrets.py --write", floors)


if __name__ == "__main__":
    main()
