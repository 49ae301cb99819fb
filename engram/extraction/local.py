"""The local extractor: it proposes decisions, commits and the best passages, without a key or a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from engram.enums import Voice
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, Candidate
from engram.extraction.commits import commits
from engram.extraction.compose import candidate
from engram.extraction.decisions import decisions, without_dialogs
from engram.extraction.protocol import ExtractionContext
from engram.extraction.select import RULE_QUALITY, Chooser, session_room, users_texts
from engram.extraction.user_rules import takings_back
from engram.extraction.weights import WEIGHTS
from engram.extraction.write_filter import repeats
from engram.redaction.voice import typed_text
from engram.text.content_words import content_words
from engram.text.statements import as_said
from engram.transcripts.record import Role, TextBlock, Turn

#: Minimum quality, 0 to 1, of a candidate.
MIN_QUALITY = 0.1


class LocalExtractor:
    """Reads rules of the user, dialogs and commit messages, and chooses passages by a small logistic model.

    ``docs/extraction.md`` says what it was measured on.
    """

    name = "local-3"
    is_repeatable = True

    def __init__(self, weights: Mapping[str, float] | None = None, min_quality: float = MIN_QUALITY) -> None:
        """Prepare.

        Args:
            weights: Weights of the model by feature name; the shipped ones by default.
            min_quality: Minimum quality, 0 to 1, of a candidate.
        """
        self._chooser = Chooser(weights if weights is not None else WEIGHTS, min_quality)

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        """See ``Extractor.propose``."""
        decided = [decision for turn in turns for decision in decisions(turn)]
        turns = [without_dialogs(with_refusals(turn)) for turn in turns]
        committed = _unrepeated(commits(turns), context.known)
        taken = [content_words(bite) for bite in (*context.known, *(commit.summary for commit in committed))]
        chosen = self._chooser.of_session(
            turns,
            context.following,
            taken,
            taken_of_user=[content_words(bite) for bite in context.known_of_user],
            room=session_room(turns) - len(committed),
            project=context.project,
            said_before=context.said_before,
        )
        composed = [candidate(option, is_global=context.is_global) for option in chosen]
        candidates = [*decided, *committed, *composed, *retractions(turns, context)]
        candidates = _in_said_characters(candidates, turns)
        return _best(candidates, [turn.key for turn in turns], context.session_cap - context.kept_before)


def retractions(turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
    """Return a candidate for each rule of another session that the user takes back in one of the turns."""
    rules = [memory for memory in context.near if memory.is_users_rule and not memory.is_fixed]
    found = []
    for turn in turns:
        for said in users_texts(turn):
            for taking in takings_back(typed_text(said.text)):
                found += [
                    Candidate(
                        kind=rule.kind,
                        summary=taking.sentence[:MAX_CANDIDATE_SUMMARY_CHARACTERS],
                        content=taking.sentence,
                        evidence=(said.uuid,) if said.uuid else (),
                        turn_keys=(turn.key,),
                        voice=Voice.USER,
                        quality=RULE_QUALITY,
                        action="retracts",
                        target=rule.reference,
                        rests_on_user=True,
                        said_at_ms=said.at_ms or 0,
                    )
                    for rule in rules
                    if taking.is_about(rule.summary)
                ]
    return found


def _in_said_characters(candidates: Sequence[Candidate], turns: Sequence[Turn]) -> list[Candidate]:
    """Return the candidates with the apostrophes that were said."""
    texts = {turn.key: [block.text for block in turn.said if "’" in block.text] for turn in turns}
    said = []
    for proposed in candidates:
        sources = [text for key in proposed.turn_keys for text in texts.get(key, ())]
        if sources:
            proposed = replace(
                proposed,
                summary=as_said(proposed.summary, proposed.content, *sources),
                content=as_said(proposed.content, *sources),
            )
        said.append(proposed)
    return said


def _unrepeated(candidates: Iterable[Candidate], known: Sequence[str]) -> list[Candidate]:
    """Return the candidates without those that repeat a later one (an amended commit) or what is known."""
    kept: list[Candidate] = []
    taken = [content_words(bite) for bite in known]
    for proposed in reversed(list(candidates)):
        if not repeats(proposed.summary, taken):
            kept.append(proposed)
            taken.append(content_words(proposed.summary))
    return kept[::-1]


def _best(candidates: Sequence[Candidate], turn_keys: Sequence[str], room: int) -> list[Candidate]:
    """Return the best candidates in the order of their turns, at most ``room``."""
    best = sorted(candidates, key=lambda proposed: -proposed.quality)[: max(0, room)]
    place_of = {key: place for place, key in enumerate(turn_keys)}
    return sorted(best, key=lambda proposed: place_of[proposed.turn_keys[0]])


def with_refusals(turn: Turn) -> Turn:
    """Return the turn with comments on refused calls as words of the user; newer turns have them already."""
    words = tuple(
        TextBlock(uuid=a.result_uuid or a.uuid, role=Role.USER, text=a.refusal) for a in turn.actions if a.refusal
    )
    return replace(turn, said=(*turn.said, *words)) if words else turn
