"""The proposals of an extraction so far: later parts of the session see them and may change them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engram.enums import Voice
from engram.extraction.candidate import ENDING_ACTIONS, Candidate
from engram.extraction.protocol import PROPOSAL, ExtractionContext, NearMemory


@dataclass(slots=True)
class Proposals:
    """The proposals of the parts of a session."""

    #: None in the place of a proposal that a later part withdrew.
    _all: list[Candidate | None] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """The proposals that were not withdrawn, in order."""
        return [candidate for candidate in self._all if candidate is not None]

    def added_to(self, context: ExtractionContext, rolling_summary: str) -> ExtractionContext:
        """Return the context of the next part, with the proposals and the summary so far."""
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
            known_of_user=(
                *context.known_of_user,
                *(made.summary for made in self._all if made is not None and made.voice is Voice.USER),
            ),
            own=(*context.own, *own),
        )

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add the proposals of the next part, and apply what they say of earlier proposals."""
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
                    # The final proposal takes over what the earlier one did to an existing memory.
                    self._all.append(replace(candidate, action=earlier.action, target=earlier.target))
                elif earlier.action != "new" and earlier.action != "same":
                    self._all.append(replace(candidate, target=earlier.target))


def _number(target: str) -> int | None:
    """Return the index of the proposal that a target names; None for a stored memory."""
    return int(target[len(PROPOSAL) :]) if target.startswith(PROPOSAL) else None
