"""What forgetting a memory would take: the memory, its words, and what stays because another memory needs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engram.enums import Source, Status
from engram.errors import NotFound
from engram.memories.merging import CONTENT_JOINT, SUMMARY_JOINT, plain
from engram.models import episode_history, episodes, forgetting
from engram.models.episode_changes import predecessors_of
from engram.models.episodes import Episode
from engram.models.erasing import episodes_resting_on_source, source_texts, sources_of
from engram.models.store import Store
from engram.models.tombstones import CutMemory, Forgotten
from engram.text.summary_words import words_of

#: Share of the words of the shorter of two summaries from which a memory out of force is an earlier version.
MIN_SAME_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class NeededEntry:
    """An entry that stays, since another memory rests on it too."""

    #: Uuid of the entry; the key of its turn for a queued prompt.
    entry: str
    #: The memories that need it.
    needed_by: tuple[Episode, ...]


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What a forget would do."""

    #: The memory that is named, its earlier and merged versions, and with the source all that rests on its turns.
    memories: tuple[Episode, ...]
    #: Turns that go whole; only with the source.
    turn_ids: tuple[int, ...]
    #: Entries whose words go while their turns stay.
    erased: tuple[str, ...]
    #: Entries that the memories rested on: never evidence for a new automatic memory again.
    barred: tuple[str, ...]
    #: Entries that stay, with the memories that need them.
    needed: tuple[NeededEntry, ...]
    #: Memories that come back into force, since the one that replaced them goes.
    restored: tuple[Episode, ...]
    #: The memory that took up the words of the named one, as it is without them.
    cut: CutMemory | None = None

    def forgotten(self, store: Store) -> Forgotten:
        """The same, named so that it holds in every copy of the database."""
        return Forgotten(
            episode_ids=tuple(episode.episode_id for episode in self.memories),
            turn_keys=tuple(forgetting.turn_keys(store, self.turn_ids)),
            erased=self.erased,
            barred=self.barred,
            cut=self.cut,
        )


def plan_forget(store: Store, episode_id: str, *, also_source: bool = False) -> ForgetPlan:
    """Plan to forget one memory.

    Args:
        store: the open memory.
        episode_id: the memory.
        also_source: take the turns that it rests on whole, and every memory that rests on them.

    Raises:
        NotFound: there is no such memory.
    """
    target = episodes.find_episode(store, episode_id)
    if target is None:
        raise NotFound(f"there is no memory {episode_id[:40]!r}")
    host = _host_of(store, target)
    cut = None if host is None else _without(host, target)
    cluster = {target.id: target}
    if host is not None and cut is None:
        cluster[host.id] = host
        host = None
    turn_ids: list[int] = []
    if also_source:
        turn_ids = forgetting.turn_ids_of(store, target)
        cluster |= {episode.id: episode for episode in forgetting.episodes_resting_on(store, turn_ids)}
    for episode in list(cluster.values()):
        cluster |= {version.id: version for version in _versions_of(store, episode)}
    restored = _restored(store, list(cluster.values()))
    barred = list(dict.fromkeys(source for episode in cluster.values() for source in sources_of(store, episode)))
    needed = _needed(store, barred, cluster, {episode.id for episode in restored}, host, target)
    stays = {one.entry for one in needed}
    return ForgetPlan(
        memories=tuple(cluster.values()),
        turn_ids=tuple(turn_ids),
        erased=tuple(source for source in barred if source not in stays),
        barred=tuple(barred),
        needed=tuple(needed),
        restored=tuple(restored),
        cut=cut,
    )


def forgotten_texts(store: Store, plan: ForgetPlan) -> list[str]:
    """Every text that must not be found afterwards."""
    memories = [text for one in plan.memories for text in (one.summary, one.content, *one.facts)]
    return [*memories, *source_texts(store, plan.erased), *forgetting.turn_texts(store, plan.turn_ids)]


def _versions_of(store: Store, episode: Episode) -> list[Episode]:
    """Memories out of force that tell the same: merged into this one, or made earlier of the same entries."""
    found: dict[int, Episode] = {}
    todo = [episode]
    while todo:
        merged = [
            one
            for one in episodes.episodes_superseded_by(store, todo.pop().episode_id)
            if one.status == Status.ARCHIVED and one.id not in found
        ]
        found |= {one.id: one for one in merged}
        todo += merged
    for source in sources_of(store, episode):
        for one in episodes_resting_on_source(store, source):
            if one.status == Status.ARCHIVED and one.source == Source.AUTO and _says_same(one.summary, episode.summary):
                found[one.id] = one
    found.pop(episode.id, None)
    return list(found.values())


def _says_same(one: str, other: str) -> bool:
    words, others = words_of(one), words_of(other)
    return len(words & others) >= MIN_SAME_SHARE * max(1, min(len(words), len(others)))


def _restored(store: Store, cluster: Sequence[Episode]) -> list[Episode]:
    """What comes back into force: replaced by one of the memories that go, and by no other."""
    going = {episode.episode_id for episode in cluster}
    found: dict[int, Episode] = {}
    for episode in cluster:
        last = episode
        while last.superseded_by and (following := episodes.find_episode(store, last.superseded_by)) is not None:
            last = following
            if last.episode_id not in going:
                break
        if last.episode_id in going:
            found |= {one.id: one for one in predecessors_of(store, episode) if one.episode_id not in going}
    return list(found.values())


def _needed(
    store: Store,
    sources: Iterable[str],
    going: dict[int, Episode],
    restored: set[int],
    host: Episode | None,
    target: Episode,
) -> list[NeededEntry]:
    """The entries that memories rest on which stay in force."""
    from_target = set() if host is None else _given_to_host(store, host, target)
    needed = []
    for source in sources:
        needed_by = [
            one
            for one in episodes_resting_on_source(store, source)
            if one.id not in going
            and (one.is_current or one.id in restored)
            and not (host is not None and one.id == host.id and source in from_target)
        ]
        if needed_by:
            needed.append(NeededEntry(source, tuple(needed_by)))
    return needed


# -- a memory that was merged into another


def _host_of(store: Store, target: Episode) -> Episode | None:
    """The memory in force that took up the words of ``target``."""
    host = episodes.find_episode(store, target.superseded_by) if target.superseded_by else None
    return None if host is None or target.status != Status.ARCHIVED or not host.is_current else host


def _without(host: Episode, target: Episode) -> CutMemory | None:
    """What the host says without the words of ``target``; None where nothing is left, since both said the same."""
    own = [part for part in host.summary.split(SUMMARY_JOINT) if plain(part) not in plain(target.summary)]
    content = [part for part in host.content.split(CONTENT_JOINT) if part.strip() not in target.content]
    left = CutMemory(host.episode_id, SUMMARY_JOINT.join(own), CONTENT_JOINT.join(content), ())
    words = f"{left.summary}\n{left.content}".lower()
    entities = tuple(name for name in host.entities if name not in target.entities or name.lower() in words)
    return dataclasses.replace(left, entities=entities) if left.summary else None


def _given_to_host(store: Store, host: Episode, target: Episode) -> set[str]:
    """The entries that the host rests on only since it took up ``target``."""
    evidence = [one.uuid for one in episodes.evidence_of(store, host.id)]
    own: set[str] = set()
    for change in episode_history.history_of(store, host.episode_id):
        if change.action == "evidence" and target.episode_id in change.reason:
            own = set(evidence[: int(change.before["count"])])
            return set(sources_of(store, target)) - own
    return set()
