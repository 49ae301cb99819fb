"""Judge and fit what is shown unasked for a prompt, on the real prompts of coding sessions.

    python benchmarks/gate.py collect --corpus DIR [DIR …] --bench DIR --answers DIR --out FILE [--homes DIR]
    python benchmarks/gate.py sheets --candidates FILE --out DIR [--size N]
    python benchmarks/gate.py fit --candidates FILE --verdicts DIR [--write]

``collect`` queries the memory of each project with every distinct prompt that a person typed there and that passes the
prompt filter. It does so with memories that a model wrote (recorded answers: with their questions, without them, and
saved by hand), with memories of the local extractor, and for quotations. What was said in the prompt's own session is
left out, so that every other session counts as earlier. Each project is also queried with the prompts of the others,
for which nothing in it is right. Prompts that were written for gold memories are used as well; the scorer's own rule
determines what is right for them.

``sheets`` writes the texts that readers judge as ``helps``, ``harmless`` or ``in the way``. ``fit`` reads their
verdicts and prints what the gate achieves on each project with weights that were fitted on the others; ``--write``
writes the weights that are fitted on all projects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench.answers import AnsweredMemories, copy_of_turns, ready_searcher
from bench.homes import NO_LIMIT, BenchHomes, extract_all, load_settings_embedder
from bench.memories import embed_all
from bench.prompts import as_one_project
from bench.recorded_provider import RecordedProvider
from engram.enums import Actor, Verdict
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.recollection import choose_bites, quotation_bites
from engram.recollection.choose_bites import (
    AGAINST,
    EITHER,
    FEATURES,
    FeatureContext,
    InjectionRequest,
    RatedHit,
    Thresholds,
    Weights,
    features,
    rate_hits,
)
from engram.recollection.prompts import filter_prompt
from engram.recollection.quotation_bites import CANDIDATES, query_for
from engram.redaction import redact
from engram.search.hits import Hit
from engram.search.searcher import Searcher
from engram.settings import Settings, load
from engram.transcripts.turns import Role

#: Number of texts of each kind that are judged for a prompt, and number of hits from which they are taken.
JUDGED, ASKED = 4, 60
#: Number of other projects' prompts with which each project is queried.
FOREIGN = 30
#: Kinds of texts: memories by a model with and without questions, saved by hand, by the local extractor; quotations.
MODEL, PLAIN, SAVED, LOCAL, QUOTED = "model", "plain", "saved", "local", "quoted"
#: Verdicts on texts that may be shown.
ELIGIBLE = (Verdict.SHOWN, Verdict.BELOW_FLOOR, Verdict.NO_ROOM, Verdict.FAR_BELOW_BEST, Verdict.REPEATS)
#: Possible verdicts of a reader on a text.
HELPS, HARMLESS, IN_THE_WAY = "helps", "harmless", "in the way"
#: Weight, in the fit, of a text for another project's prompt.
FOREIGN_WEIGHT = 0.4
#: Floors that are reported, including the shipped one.
FLOORS = (0.2, Thresholds().relevance, 0.4, 0.5)
#: Maximum number of bites for a prompt, and the share of the best one's relevance that further bites need.
BITES = Settings().bites
BELOW_BEST = Thresholds().below_best


class WithoutQuestions(RecordedProvider):
    """The recorded answers without the questions of each memory."""

    def reply(self, key: str, request: Any) -> Any:
        """See ``RecordedProvider.reply``."""
        reply = super().reply(key, request)
        answer = json.loads(reply.text)
        for memory in answer.get("memories", ()):
            memory.pop("questions", None)
        return replace(reply, text=json.dumps(answer))


# -- collect


def collect(options: argparse.Namespace) -> None:
    """Write every text that may be shown for a prompt, with its features, as one JSON line each."""
    settings = load().settings
    sys.path.insert(0, str(options.bench))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.homes or Path(temporary)).absolute()
        homes = BenchHomes(folder, replace(settings, home=folder), load_settings_embedder(settings))
        prompts = {name: list(read_prompts(homes, corpus, name)) for corpus, name in projects_in(options.corpus)}
        for prompt in written_prompts(options.bench):
            prompts[prompt["project"]].append(prompt)
        with options.out.open("w", encoding="utf-8") as out:
            for corpus, name in projects_in(options.corpus):
                others = [one for other, of_other in prompts.items() if other != name for one in of_other]
                foreign = random.Random(name).sample(others, min(FOREIGN, len(others)))
                if not prompts[name]:
                    continue
                for maker, store, searcher, sessions in memories_of(homes, corpus, name, options.answers):
                    count = 0
                    searchers = {"known": searcher}
                    if maker == MODEL:
                        searchers["unknown"] = Searcher(store, homes.settings)
                    for vectors, each_searcher in searchers.items():
                        for prompt in (*prompts[name], *foreign):
                            for line in told_for(store, each_searcher, maker, prompt, name, sessions):
                                out.write(json.dumps(line | {"vectors": vectors}, ensure_ascii=False) + "\n")
                                count += 1
                    print(f"{name}: {maker}, {count} texts for {len(prompts[name])} prompts", file=sys.stderr)


def projects_in(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each project's corpus and name."""
    for folder in folders:
        for project in sorted(folder.iterdir()):
            if project.is_dir():
                yield folder, project.name


def read_prompts(homes: BenchHomes, corpus: Path, project: str) -> Iterator[dict[str, Any]]:
    """Yield the distinct prompts that a person typed in a project and that pass the prompt filter."""
    seen: set[str] = set()
    with homes.memory(f"{project}-turns", as_one_project(corpus / project)) as (store, _):
        for session in sorted(list_sessions(store), key=lambda session: (session.first_at_ms, session.session_id)):
            for stored in turns_of_session(store, session.id):
                typed = "\n\n".join(
                    block.text for block in stored.turn.said if block.role is Role.USER and not block.message_id
                )
                text = filter_prompt(typed).text
                if text and text not in seen:
                    seen.add(text)
                    yield {"project": project, "session": session.session_id, "text": text}


def written_prompts(bench: Path) -> Iterator[dict[str, Any]]:
    """Yield the prompts that were written for gold memories, with those memories."""
    gold = {memory["id"]: memory for memory in read_lines(bench / "code" / "memories.jsonl") if "id" in memory}
    for prompt in read_lines(bench / "code" / "prompts.jsonl"):
        if text := filter_prompt(prompt["prompt"]).text:
            relevant = [gold[name] for name in prompt["relevant"] if name in gold]
            yield {"project": prompt["project"], "session": "", "text": text, "gold": relevant}


def memories_of(
    homes: BenchHomes, corpus: Path, project: str, answers: Path
) -> Iterator[tuple[str, Store, Searcher, dict[str, str]]]:
    """Yield each kind of memory of a project: its name, the store, and the session of memories that have none."""
    made: list[tuple[str, str]] = []
    for maker, provider in ((MODEL, RecordedProvider(answers)), (PLAIN, WithoutQuestions(answers))):
        answered = AnsweredMemories(homes, corpus, provider)
        with answered.memory(project) as (store, searcher):
            if answered.waiting:
                print(f"{project}: {len(answered.waiting)} sessions without an answer", file=sys.stderr)
            yield maker, store, searcher, {}
            if maker == MODEL:
                made = store.rows(
                    "SELECT e.summary, s.session_id FROM episode e JOIN session s ON s.id = e.session_ref "
                    "WHERE e.status != 'archived' AND e.superseded_by = ''"
                )
    with own_memory(homes, corpus, project, SAVED) as (store, searcher):
        project_id = usual_project(store)
        sessions = {
            save_memory(store, summary, redact, actor=Actor.USER, project_id=project_id).episode_id: session
            for summary, session in made
        }
        embed_all(store, homes.embedder)
        searcher.refresh()
        yield SAVED, store, searcher, sessions
    with own_memory(homes, corpus, project, LOCAL) as (store, searcher):
        extract_all(store, replace(homes.settings, hourly_memories=NO_LIMIT), homes.embedder)
        searcher.refresh()
        yield LOCAL, store, searcher, {}


@contextmanager
def own_memory(homes: BenchHomes, corpus: Path, project: str, maker: str) -> Iterator[tuple[Store, Searcher]]:
    """Open a new memory with a project's turns."""
    with copy_of_turns(homes, corpus, project, maker) as (store, settings):
        yield store, ready_searcher(homes, store, settings)


def usual_project(store: Store) -> int:
    """Return the row id of the project to which most sessions belong."""
    counted = Counter(session.project_id for session in list_sessions(store) if session.project_id is not None)
    return counted.most_common(1)[0][0]


def told_for(
    store: Store, searcher: Searcher, maker: str, prompt: dict[str, Any], project: str, sessions: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the memories that may be shown for a prompt: those that rank highest by the current gate or by meaning."""
    request = InjectionRequest(prompt["text"], project_id=usual_project(store))
    query = replace(query_for(request), limit=ASKED)
    hits = [hit for hit in searcher.recall(query) if (hit.session_id or sessions.get(hit.id)) != prompt["session"]][
        :CANDIDATES
    ]
    yield from quoted_for(store, searcher, request, prompt, project, maker)
    if not hits:
        return
    support = searcher.support(query, hits)
    context = FeatureContext.of(request.text, support)
    rated = [one for one in rate_hits(hits, request, support, Thresholds(relevance=0.0)) if one.verdict in ELIGIBLE]
    by_meaning = sorted(rated, key=lambda one: -(one.hit.cosine or 0.0))
    for one in {one.hit.id: one for one in (*rated[:JUDGED], *by_meaning[:JUDGED])}.values():
        yield line_for(one, features(one.hit, context), prompt, project, maker)


def quoted_for(
    store: Store, searcher: Searcher, request: InjectionRequest, prompt: dict[str, Any], project: str, maker: str
) -> Iterator[dict[str, Any]]:
    """Yield the quotations that may be shown for a prompt, from the memory with the local extractor's memories."""
    if maker != LOCAL:
        return
    found, support = searcher.quotable(replace(query_for(request), limit=ASKED, thorough=False))
    hits = [hit for hit in found if hit.session_id != prompt["session"]]
    context = FeatureContext.of(request.text, support)
    rated = sorted(
        (quotation_bites._rate(hit, place, context) for place, hit in enumerate(hits)), key=lambda one: -one.score
    )
    count = 0
    for one in rated[:CANDIDATES]:
        judged = quotation_bites._judge_passage(store, one, request, context, [])
        if judged.verdict is Verdict.SHOWN:
            count += 1
            yield line_for(judged, features(one.hit, context), prompt, project, QUOTED)
        if count >= JUDGED:
            return


def line_for(
    one: RatedHit, values: Mapping[str, float], prompt: dict[str, Any], project: str, maker: str
) -> dict[str, Any]:
    """Return the line that is written for a text that may be shown for a prompt."""
    asked = f"asked “{one.hit.asked}”: " if one.hit.asked else ""
    kind, more = ("own" if prompt["project"] == project else "foreign"), {}
    if "gold" in prompt and kind == "own":
        kind, more = "written", {"right": is_right(one.hit, prompt["gold"]), "fits": bool(prompt["gold"])}
    return more | {
        "project": project,
        "kind": kind,
        "maker": maker,
        "prompt": prompt["text"],
        "session": prompt["session"],
        "text": f"{asked}“{one.hit.text}”" if maker == QUOTED else one.hit.text,
        "id": one.hit.id,
        "day": day_of(one.hit.created_at_ms),
        "importance": one.hit.importance.value,
        "score": round(one.score, 4),
        "floor": round(one.floor, 4),
        "features": {name: round(value, 4) for name, value in values.items()},
    }


def is_right(hit: Hit, gold: Sequence[dict[str, Any]]) -> bool:
    """Return whether a text states one of the gold memories, by its evidence and a quarter of its words."""
    says, evidence = words_of(hit.text), {place.uuid for place in hit.evidence}
    return any(
        evidence & set(memory["evidence"])
        and len(words_of(memory["summary"]) & says) >= 0.25 * len(words_of(memory["summary"]))
        for memory in gold
    )


def words_of(text: str) -> set[str]:
    """Return the words of a text as the scorer of the gold memories counts them; ``--bench`` must be on the path."""
    words: set[str] = __import__("match").words(text)
    return words


def day_of(at_ms: int) -> str:
    """Return a date as a bite shows it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


# -- sheets


def sheets(options: argparse.Namespace) -> None:
    """Write the sheets for readers: prompts with the texts that may be shown, without a hint of who made them."""
    lines: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in read_lines(options.candidates):
        if line["kind"] == "own":
            lines[line["project"], line["prompt"]].append(line)
    of_prompt = {prompt: {line["text"]: line for line in to_judge(given)} for prompt, given in lines.items()}
    order = sorted(of_prompt)
    random.Random(36).shuffle(order)
    options.out.mkdir(parents=True, exist_ok=True)
    pages: list[list[str]] = [[]]
    count = 0
    for project, prompt in order:
        texts = sorted(of_prompt[project, prompt].values(), key=lambda line: digest(line["text"]))
        if count + len(texts) > options.size and pages[-1]:
            pages.append([])
            count = 0
        count += len(texts)
        pages[-1].append(f"## Repository {project.replace('__', '/')}\nPROMPT: {prompt[:1500]}")
        pages[-1] += [f"[{key_of(line)}] {line['day']}: {line['text']}" for line in texts]
        pages[-1].append("")
    for number, page in enumerate(pages, 1):
        (options.out / f"sheet-{number:02}.txt").write_text("\n".join(page), encoding="utf-8")
    print(f"{len(order)} prompts, {sum(map(len, of_prompt.values()))} texts on {len(pages)} sheets")


def to_judge(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the texts of a prompt to be judged: the most likely of each kind, by the current gate and by meaning."""
    for makers, by_score, by_meaning in (((MODEL, PLAIN, SAVED), 3, 1), ((LOCAL,), 2, 0), ((QUOTED,), 2, 0)):
        mine = [line for line in lines if line["maker"] in makers]
        for key, count in (
            (lambda line: line["score"], by_score),
            (lambda line: line["features"]["meaning"], by_meaning),
        ):
            best = {line["text"]: line for line in sorted(mine, key=key)}
            yield from list(best.values())[-count:] if count else ()


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def key_of(line: Mapping[str, Any]) -> str:
    """Return the key of a verdict: the prompt, in its project, and the text."""
    return digest(f"{line['project']}\n{line['prompt']}\n{line['text']}")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


# -- fit


def read_verdicts(folder: Path) -> dict[str, list[str]]:
    """Return the verdicts of all readers by key. A reader's file has ``{"key": …, "verdict": …}`` on each line."""
    verdicts: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        for line in read_lines(path):
            verdicts[line["key"]].append(line["verdict"])
    return verdicts


def agreement(verdicts: Mapping[str, Sequence[str]]) -> str:
    """Return how often two readers agree, and Cohen's kappa for "helps" against the other verdicts."""
    pairs = [(one[0], one[1]) for one in verdicts.values() if len(one) >= 2]
    same = sum(first == second for first, second in pairs)
    helps = [(first == HELPS, second == HELPS) for first, second in pairs]
    observed = sum(first == second for first, second in helps) / max(len(helps), 1)
    p, q = (sum(one[side] for one in helps) / max(len(helps), 1) for side in (0, 1))
    chance = p * q + (1 - p) * (1 - q)
    kappa = (observed - chance) / (1 - chance) if chance < 1 else 1.0
    return f"{len(pairs)} texts by two readers, the same {100 * same / max(len(pairs), 1):.0f} %, kappa {kappa:.2f}"


class Cases:
    """Every text with its prompt, its features and the readers' verdicts."""

    def __init__(self, lines: Sequence[dict[str, Any]], verdicts: Mapping[str, Sequence[str]]) -> None:
        """Keep the texts that were judged, and those of other projects, which are never right."""
        self.lines = [line for line in lines if line["kind"] != "own" or key_of(line) in verdicts]
        self.project = np.array([line["project"] for line in self.lines])
        self.x = np.array([[line["features"][name] for name in FEATURES] for line in self.lines])
        self.y = np.array([self._right(line, verdicts) for line in self.lines])
        self.is_bad = np.array([line["kind"] == "own" and IN_THE_WAY in verdicts[key_of(line)] for line in self.lines])
        self.weight = np.array([FOREIGN_WEIGHT if line["kind"] == "foreign" else 1.0 for line in self.lines])
        self.prompts: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, line in enumerate(self.lines):
            self.prompts[self._prompt(line)].append(place)

    @staticmethod
    def _right(line: Mapping[str, Any], verdicts: Mapping[str, Sequence[str]]) -> float:
        if line["kind"] != "own":
            return float(line.get("right", False))
        said = verdicts[key_of(line)]
        return sum(one == HELPS for one in said) / len(said)

    @staticmethod
    def _prompt(line: Mapping[str, Any]) -> tuple[str, ...]:
        return (line["kind"], line["project"], line["maker"], line["vectors"], line["prompt"])


def fit_weights(cases: Cases, rows: Any, ridge: float = 1.0, steps: int = 1500) -> Weights:
    """Fit a logistic regression by projected gradient descent, so that each weight keeps the sign that it must have."""
    x, y, weight = cases.x[rows], cases.y[rows], cases.weight[rows]
    spread = np.where(x.std(0) > 0, x.std(0), 1.0)
    z, signs = x / spread, np.array([sign_of(name) for name in FEATURES])
    w, intercept = np.zeros(x.shape[1]), 0.0
    rate = 4.0 / (weight.sum() * (1 + (z**2).sum(1).max()) + ridge) * 8
    velocity = np.zeros(len(w) + 1)
    for _ in range(steps):
        error = weight * (1 / (1 + np.exp(-(z @ w + intercept))) - y)
        velocity = 0.9 * velocity - rate * np.append(z.T @ error + ridge * w, error.sum())
        w, intercept = w + velocity[:-1], intercept + velocity[-1]
        wrong = signs * w < 0
        w[wrong], velocity[:-1][wrong] = 0.0, 0.0
    slopes = w / spread
    by_feature = {name: round(float(slope), 3) for name, slope in zip(FEATURES, slopes, strict=True)}
    return Weights(round(float(intercept), 3), by_feature)


def sign_of(name: str) -> int:
    """Return 1 for a feature that may only count for a text, -1 for one that may only count against it, else 0."""
    return 0 if name in EITHER else -1 if name in AGAINST else 1


def told(cases: Cases, places: Sequence[int], scores: Any, floor: float) -> list[int]:
    """Return which texts of a prompt are shown."""
    order = sorted((place for place in places if scores[place] >= floor), key=lambda place: -scores[place])
    chosen: list[int] = []
    for place in order[:BITES]:
        if not chosen or scores[place] >= scores[chosen[0]] * BELOW_BEST:
            chosen.append(place)
    return chosen


def figures(cases: Cases, prompts: Sequence[tuple[str, ...]], scores: Any, floor: float) -> dict[str, float]:
    """Return what is achieved for some prompts, as counts."""
    found: Counter[str] = Counter()
    for prompt in prompts:
        places = cases.prompts[prompt]
        chosen = told(cases, places, scores, floor)
        if prompt[0] == "foreign":
            found["foreign"] += 1
            found["foreign alarms"] += bool(chosen)
            continue
        is_written = prompt[0] == "written"
        fits = any(cases.lines[place]["fits"] if is_written else cases.y[place] >= 0.5 for place in places)
        found["bites"] += len(chosen)
        found["right"] += sum(cases.y[place] >= 0.5 for place in chosen)
        found["in the way"] += sum(bool(cases.is_bad[place]) for place in chosen)
        found["can be served" if fits else "nothing fits"] += 1
        if fits:
            found["served"] += any(cases.y[place] >= 0.5 for place in chosen)
        else:
            found["alarms"] += bool(chosen)
    return dict(found)


def rate(found: Mapping[str, float], part: str, whole: str) -> float:
    """Return a share; 0 if the whole is 0."""
    return found.get(part, 0) / found[whole] if found.get(whole) else 0.0


def score_all(cases: Cases, weights: Weights) -> Any:
    """Return the relevance of every text by the given weights."""
    w = np.array([weights.by_feature[name] for name in FEATURES])
    return 1 / (1 + np.exp(-(cases.x @ w + weights.intercept)))


def fit(options: argparse.Namespace) -> None:
    """Fit and report; write the weights with ``--write``."""
    verdicts = read_verdicts(options.verdicts)
    print(agreement(verdicts))
    cases = Cases(list(read_lines(options.candidates)), verdicts)
    projects = sorted(set(cases.project))
    scores = np.zeros(len(cases.lines))
    for project in projects:
        mine = cases.project == project
        scores[mine] = score_all(cases, fit_weights(cases, ~mine))[mine]
    print("each project with weights of the others:")
    for kind in ("written", "own"):
        for maker in sorted({(prompt[2], prompt[3]) for prompt in cases.prompts}):
            mine_and_foreign = [p for p in cases.prompts if p[0] in (kind, "foreign") and (p[2], p[3]) == maker]
            for floor in FLOORS:
                found = figures(cases, mine_and_foreign, scores, floor)
                print(f"  {kind:8} {maker[0]:10} {maker[1]:7} floor {floor} {line_of(found)}")
            for project in projects:
                prompts = [prompt for prompt in mine_and_foreign if prompt[1] == project and prompt[0] == kind]
                if prompts:
                    print(f"    {project[:40]:40} {line_of(figures(cases, prompts, scores, Thresholds().relevance))}")
    weights = fit_weights(cases, np.ones(len(cases.lines), dtype=bool))
    print(f"fitted on all: {weights}")
    if options.write:
        write_weights(weights, len({(line["project"], line["prompt"]) for line in cases.lines}), len(projects))


def line_of(found: Mapping[str, float]) -> str:
    """Return the figures as a line of text."""
    return (
        f"precision {100 * rate(found, 'right', 'bites'):.0f} % of {found.get('bites', 0):.0f}, "
        f"served {100 * rate(found, 'served', 'can be served'):.0f} % of {found.get('can be served', 0):.0f}, "
        f"alarms {found.get('alarms', 0):.0f} of {found.get('nothing fits', 0):.0f}, "
        f"foreign {found.get('foreign alarms', 0):.0f} of {found.get('foreign', 0):.0f}, "
        f"in the way {found.get('in the way', 0):.0f}"
    )


def write_weights(weights: Weights, prompts: int, projects: int) -> None:
    """Write the weights with their provenance."""
    content = {
        "provenance": {
            "fitted_by": "python benchmarks/gate.py fit --write",
            "on": f"{prompts} prompts in {projects} projects: typed and judged by readers, or written with gold",
            "method": f"logistic regression, L2 1, signs fixed, prompts of other projects count {FOREIGN_WEIGHT}",
        },
        **asdict(weights),
    }
    path = Path(choose_bites.__file__).with_name(choose_bites.WEIGHTS_FILE)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("collect")
    step.add_argument("--corpus", type=Path, nargs="+", required=True)
    step.add_argument("--bench", type=Path, required=True, help="folder with match.py and code/")
    step.add_argument("--answers", type=Path, required=True, help="recorded answers of a language model")
    step.add_argument("--out", type=Path, required=True)
    step.add_argument("--homes", type=Path, help="keep the memories here, and use those that are there")
    step.set_defaults(run=collect)
    step = steps.add_parser("sheets")
    step.add_argument("--candidates", type=Path, required=True)
    step.add_argument("--out", type=Path, required=True)
    step.add_argument("--size", type=int, default=200, help="texts on a sheet")
    step.set_defaults(run=sheets)
    step = steps.add_parser("fit")
    step.add_argument("--candidates", type=Path, required=True)
    step.add_argument("--verdicts", type=Path, required=True)
    step.add_argument("--write", action="store_true")
    step.set_defaults(run=fit)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
