"""What one extraction has proposed so far, part by part: later parts are told of it, and may change it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engram.extraction.candidate import ENDING_ACTIONS, Candidate
from engram.extraction.protocol import PROPOSAL, ExtractionContext, NearMemory


@dataclass(slots=True)
class Proposals:
    """The proposals of the parts of one session."""

    #: None where a later part took a proposal back.
    _all: list[Candidate | None] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """What is left of them, in order."""
        return [candidate for candidate in self._all if candidate is not None]

    def told_in(self, context: ExtractionContext, rolling_summary: str) -> ExtractionContext:
        """The context of the next part: with what was just proposed, and what the session is about so far."""
        if not self._all:
            return context
        own = tuple(
            NearMemory(candidate.summary, f"{PROPOSAL}{number}", candidate.kind, at_ms=candidate.said_at_ms)
            for number, candidate in enumerate(self._all)
            if candidate is not None and candidate.action not in ("same", "retracts")
        )
        return replace(
            context,
            rolling_summary=rolling_summary,
            known=(*context.known, *(memory.summary for memory in own)),
            own=(*context.own, *own),
        )

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Take up what the next part proposes; what it says of earlier proposals is applied to them at once."""
        for candidate in candidates:
            number = _number(candidate.target)
            earlier = self._all[number] if number is not None and number < len(self._all) else None
            if number is None:
                self._all.append(candidate)
            elif earlier is None:
                if candidate.action not in ("same", "retracts"):
                    self._all.append(replace(candidate, action="new", target=""))
            elif candidate.action == "same":
                self._all[number] = replace(
                    earlier,
                    evidence=tuple(dict.fromkeys([*earlier.evidence, *candidate.evidence])),
                    turn_keys=tuple(dict.fromkeys([*earlier.turn_keys, *candidate.turn_keys])),
                )
            elif candidate.action in ENDING_ACTIONS:
                self._all[number] = None
                if candidate.action != "retracts":
                    # What the earlier proposal did to a memory that is kept, the final one does.
                    self._all.append(replace(candidate, action=earlier.action, target=earlier.target))
                elif earlier.action != "new" and earlier.action != "same":
                    self._all.append(replace(candidate, target=earlier.target))


def _number(target: str) -> int | None:
    """The place of a proposal that a target names; None for a memory that is stored."""
    return int(target[len(PROPOSAL) :]) if target.startswith(PROPOSAL) else None
