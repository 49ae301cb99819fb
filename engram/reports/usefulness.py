"""What is said to people and agents about the use of a memory and the judgement on it."""

from __future__ import annotations

from engram.enums import Judgement
from engram.models.usefulness import HELPFUL_LIFT, Usefulness


def describe_uses(uses: Usefulness, episode_id: str) -> str:
    """Return in how many sessions a memory was shown and used, and what that does to it; "" if it never was shown."""
    parts = []
    if uses.shown or uses.used:
        parts.append(f"shown in {_sessions(uses.shown)}, used in {uses.used or 'none'}")
    if uses.judgement is Judgement.HELPFUL:
        parts.append(f"judged helpful, which makes it {HELPFUL_LIFT:.0%} more relevant")
    elif uses.judgement is not None:
        parts.append(f"judged {uses.judgement}")
    if uses.sink:
        parts.append(
            f"{uses.sink:.0%} less relevant, since {_sessions(uses.unused)} in a row did not use it "
            f"(engram bad {episode_id} --off counts anew)"
        )
    return "; ".join(parts)


def _sessions(number: int) -> str:
    return f"{number} session" + ("" if number == 1 else "s")
