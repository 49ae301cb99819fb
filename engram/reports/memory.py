"""Everything that is known of one memory or quotation: what it rests on, its history, where it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engram.clock import iso_time
from engram.enums import Actor, Judgement
from engram.models import episode_history, episode_lists, episodes, injections
from engram.models.branches import unmerged_branch
from engram.models.episode_history import Change
from engram.models.episodes import Episode
from engram.models.evidence_places import EvidencePlace, places_of
from engram.models.injections import Injection
from engram.models.judgements import judgement_of, standing_judgements
from engram.models.passage_rows import Quotation, require_quotation
from engram.models.projects import project_by_id
from engram.models.store import Store
from engram.models.usefulness import Usefulness, usefulness_of
from engram.reports.episode_json import episode_to_json

#: Who made a change that an extractor made by fixed rules.
RULES = "rules"


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """One memory with its explanation."""

    episode: Episode
    #: Transcript, line and uuid of every entry that it rests on; empty for a memory saved by hand.
    evidence: tuple[EvidencePlace, ...]
    #: Oldest first.
    history: tuple[Change, ...]
    #: Latest first.
    injections: tuple[Injection, ...]
    related: tuple[Episode, ...]
    uses: Usefulness
    #: The branch that it was learned on, if it was not merged and the asker works elsewhere; else "".
    branch: str = ""

    def to_json(self, store: Store) -> dict[str, Any]:
        """The report for scripts."""
        return episode_to_json(store, self.episode) | {
            "evidence": [place.to_json() for place in self.evidence],
            "history": [_change_to_json(change, self.episode.extractor) for change in self.history],
            "injections": [
                {"session": injection.session_id, **injection_to_json(injection)} for injection in self.injections
            ],
            "uses": {
                "shown_sessions": self.uses.shown,
                "used_sessions": self.uses.used,
                "unused_in_a_row": self.uses.unused,
                "sunk": round(self.uses.sink, 4),
                "judgement": self.uses.judgement,
            },
            "unmerged_branch": self.branch,
            "related": [{"id": episode.episode_id, "summary": episode.summary} for episode in self.related],
        }


def report_memory(store: Store, episode: Episode, asked_on: str = "") -> MemoryReport:
    """Collect what is known of a memory. Nothing is hidden: this is for the user, not for another project.

    Args:
        store: the open memory.
        episode: the memory.
        asked_on: the branch that the asker works on, where what was learned on it holds; "" if it is not known.
    """
    return MemoryReport(
        episode=episode,
        evidence=tuple(evidence_places(store, episode)),
        history=tuple(episode_history.history_of(store, episode.episode_id)),
        injections=tuple(injections.injections_of_episode(store, episode.episode_id)),
        uses=usefulness_of(store, [episode.episode_id]).get(episode.episode_id, Usefulness()),
        branch=unmerged_branch(store, episode.id, asked_on),
        related=tuple(episode_lists.related_episodes(store, episode, episode.project_id)),
    )


def evidence_places(store: Store, episode: Episode) -> list[EvidencePlace]:
    """Transcript, line and uuid of every entry that a memory rests on."""
    return places_of(store, [entry.uuid for entry in episodes.evidence_of(store, episode.id) if entry.uuid])


def injection_to_json(injection: Injection) -> dict[str, Any]:
    """How and when Claude was shown a memory, for scripts."""
    return {
        "channel": injection.channel,
        "state": injection.state,
        "at": iso_time(injection.at_ms) if injection.at_ms else None,
        "score": injection.score,
        "tokens": injection.tokens,
        "used_at": iso_time(injection.used_at_ms) if injection.used_at_ms else None,
    }


def who_changed(change: Change, extractor: str) -> str:
    """Return who made a change, for readers: what rules did of what was said is not told as a model's.

    Args:
        change: a step of a memory's history.
        extractor: what made the memory, for a step that does not say so itself.
    """
    made_by = str(change.after.get("extractor") or extractor)
    return RULES if change.actor is Actor.MODEL and made_by.startswith("local") else change.actor.value


def _change_to_json(change: Change, extractor: str = "") -> dict[str, Any]:
    return {
        "at": iso_time(change.at_ms) if change.at_ms else None,
        "action": change.action,
        "actor": who_changed(change, extractor),
        "reason": change.reason,
        "run": change.run_id,
        "before": dict(change.before),
        "after": dict(change.after),
    }


@dataclass(frozen=True, slots=True)
class QuotationReport:
    """A quotation with its whole turn, and what is recorded of it."""

    quotation: Quotation
    #: Display name of the project; "" for none.
    project: str
    #: Where the entry that says it is.
    place: EvidencePlace
    history: tuple[Change, ...]
    injections: tuple[Injection, ...]

    @property
    def judgement(self) -> Judgement | None:
        """The judgement that counts; None for none."""
        standing = standing_judgements(self.history)
        return judgement_of(standing[-1]) if standing else None

    @property
    def said(self) -> list[tuple[str, str]]:
        """Who said it and the text, for everything that was said in the turn."""
        return [(block.role.value, block.text) for block in self.quotation.stored.turn.said]

    def to_json(self) -> dict[str, Any]:
        """The report for scripts."""
        quoted, turn = self.quotation, self.quotation.stored.turn
        return {
            "id": quoted.quotation_id,
            "kind": "quotation",
            "text": quoted.text,
            "role": quoted.role,
            "asked": quoted.asked,
            "created_at": iso_time(quoted.at_ms) if quoted.at_ms else None,
            "project": self.project,
            "session": turn.session_id,
            "branch": turn.branch,
            "evidence": [self.place.to_json()],
            "turn": [{"role": role, "text": text} for role, text in self.said],
            "judgement": self.judgement,
            "history": [_change_to_json(change) for change in self.history],
            "injections": [injection_to_json(injection) for injection in self.injections],
        }


def report_quotation(store: Store, text: str) -> QuotationReport:
    """Return everything that is known of a quotation. Raises NotFound if there is none."""
    quotation = require_quotation(store, text)
    stored = quotation.stored
    project = None if stored.project_id is None else project_by_id(store, stored.project_id)
    return QuotationReport(
        quotation=quotation,
        project=project.name if project else "",
        place=places_of(store, [quotation.source])[0],
        history=tuple(episode_history.history_of(store, text)),
        injections=tuple(injections.injections_of_episode(store, text)),
    )


def turn_text(said: Sequence[tuple[str, str]]) -> str:
    """Return everything that was said in a turn, each text under the name of who said it."""
    return "\n".join(f"{role}: {text.strip()}" for role, text in said)
