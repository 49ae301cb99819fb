"""The MCP server: the agent's tools to search, save, correct and forget memories."""

from collections.abc import Iterable

#: The environment variable with the agent's handshake, which the next server also needs.
HELLO = "ENGRAM_MCP_HELLO"

#: Tools that only read.
READING = frozenset(f"memory_{name}" for name in ("recall", "search", "expand", "get", "status", "timeline", "context"))


def is_asked_again(asked: dict[str, object], *, has_hung: bool) -> bool:
    """Return True if the next server gets an unanswered request: any but a call that changes data or has hung."""
    named = asked.get("params")
    is_reading = isinstance(named, dict) and named.get("name") in READING
    return asked["method"] != "tools/call" or (is_reading and not has_hung)


def note_requests(waiting: dict[str, dict[str, object]], messages: Iterable[dict[str, object]]) -> None:
    """Add an agent's requests to those that are unanswered, by ``repr`` of the id; drop those that it cancels."""
    for message in messages:
        named = message.get("params")
        if {"id", "method"} <= message.keys():
            waiting[repr(message["id"])] = message
        elif message.get("method") == "notifications/cancelled" and isinstance(named, dict):
            # No server answers a cancelled request.
            waiting.pop(repr(named.get("requestId")), None)
