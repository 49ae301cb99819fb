"""Where a language model is chosen, a consolidation lets it reword a few local memories; the verbatim text stays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pytest
from planting import plant

from engram.consolidation.rewording import REWRITTEN
from engram.consolidation.service import Report, consolidate, undo_run
from engram.enums import Actor, Importance, Source, Status
from engram.errors import BudgetReached
from engram.models import episode_changes, episode_history, episodes, runs
from engram.models.episodes import Episode
from engram.models.store import Store
from engram.settings import Settings

Keep = Callable[..., Episode]


@dataclasses.dataclass
class Words:
    summary: str
    kind: str = "fix"
    entities: tuple[str, ...] = ("new.py",)


class Model:
    """Knows better words for what it is told, and remembers what it was asked."""

    model_name = "test-model"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.words: dict[str, Words] = {}
        self.error: Exception | None = None

    def reword(self, memories: Sequence[Episode]) -> Mapping[str, Words]:
        self.asked.append([one.episode_id for one in memories])
        if self.error is not None:
            raise self.error
        return self.words


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def local(keep: Keep) -> Keep:
    """Keeps what the local extractor made."""

    def local(summary: str, **changes: object) -> Episode:
        return keep(summary, **{"source": "auto", "extractor": "local-1", "quality": 0.6, "kind": "fact", **changes})

    return local


@pytest.fixture
def tidy(store: Store, settings: Settings, model: Model) -> Callable[..., Report]:
    def tidy(**how: object) -> Report:
        return consolidate(store, settings, rewording=model, is_forced=True, **how)  # type: ignore[arg-type]

    return tidy


def now(store: Store, episode: Episode) -> Episode:
    found = episodes.find_episode(store, episode.episode_id)
    assert found is not None
    return found


def test_summary_kind_and_entities_change_and_the_verbatim_text_and_evidence_stay(
    store: Store, settings: Settings, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    episode = local("I fixed it", content="The lock was missing; I fixed it in new.py.")
    rests_on = episodes.evidence_of(store, episode.id)
    before = runs.content_digest(store)
    model.words = {episode.episode_id: Words("the missing lock, fixed in new.py")}

    report = tidy()

    after = now(store, episode)
    assert (after.summary, after.kind, after.entities) == ("the missing lock, fixed in new.py", "fix", ("new.py",))
    assert (after.content, episodes.evidence_of(store, after.id)) == (episode.content, rests_on)
    assert after.extractor.startswith("local-1")
    change = episode_history.history_of(store, episode.episode_id)[-1]
    assert (change.action, change.reason) == (REWRITTEN, "in the words of test-model")
    assert change.before["summary"] == "I fixed it"
    assert report.lines == (f"reword {episode.episode_id} (in the words of test-model)",)
    undo_run(store, settings, report.run_id, actor=Actor.USER)
    assert runs.content_digest(store) == before
    assert tidy().lines == ()
    assert len(model.asked) == 1


def test_a_memory_is_asked_about_once_also_where_there_are_no_better_words(
    store: Store, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    episode = local("good as it is")

    assert len(tidy().lines) == 1
    assert tidy().lines == ()

    assert model.asked == [[episode.episode_id]]
    assert now(store, episode).summary == "good as it is"


def test_the_used_come_first_and_a_few_a_run(
    store: Store, settings: Settings, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    some = [local(f"memory number {n}", quality=0.5 + n / 100) for n in range(settings.llm_rewrite_limit + 2)]
    used = local("used, though of little quality", quality=0.1)
    episode_changes.note_access(store, used.episode_id)
    high = local("highly important", importance=Importance.HIGH)

    tidy()

    (asked,) = model.asked
    assert asked[:3] == [used.episode_id, high.episode_id, some[-1].episode_id]
    assert len(asked) == settings.llm_rewrite_limit


def test_what_a_person_decided_or_another_extractor_made_is_left_alone(
    store: Store, model: Model, local: Keep, keep: Keep, tidy: Callable[..., Report]
) -> None:
    edited = local("edited by hand")
    with store.transaction() as tx:
        episode_changes.change_episode(tx, edited, "edit", "by hand", importance=Importance.HIGH, actor=Actor.USER)
    local("pinned", is_pinned=True)
    local("lowered", is_lowered=True)
    local("suspect", suspect="orders")
    local("graduated", graduated_at_ms=1)
    local("of little quality", quality=0.2)
    local("archived", status=Status.ARCHIVED)
    local("of the model", extractor="openai-1")
    keep("saved by hand", source=Source.MANUAL, extractor="manual", quality=1.0)

    tidy()

    assert model.asked == []


def test_memories_of_different_projects_are_not_sent_together(
    store: Store, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    plant(store, "INSERT INTO project (id, stable_id, identity, name, updated_at_ms) VALUES (7, 'a', 'a', 'a', 0)")
    first, other = local("of no project", quality=0.9), local("of a project", project_id=7)

    tidy()
    tidy()

    assert model.asked == [[first.episode_id], [other.episode_id]]


def test_at_a_cap_everything_stays_and_the_next_run_asks_again(
    store: Store, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    episode = local("waits for better words")
    model.error = BudgetReached()

    report = tidy()

    assert (report.lines, report.is_complete) == ((), True)
    model.error = None
    tidy()
    assert model.asked == [[episode.episode_id]] * 2


def test_a_dry_run_asks_nobody_and_a_limit_of_none_neither(
    store: Store, settings: Settings, model: Model, local: Keep, tidy: Callable[..., Report]
) -> None:
    episode = local("waits for better words")

    assert tidy(is_dry=True).lines == (f"ask test-model for a better wording of {episode.episode_id}",)
    none = dataclasses.replace(settings, llm_rewrite_limit=0)
    consolidate(store, none, rewording=model, is_forced=True)

    assert model.asked == []
