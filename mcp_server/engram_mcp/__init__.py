"""The MCP server: the agent's tools to search, save, correct and forget memories."""

#: The environment variable with the agent's handshake, which the next server also needs.
HELLO = "ENGRAM_MCP_HELLO"

#: Tools that only read.
READING = frozenset(f"memory_{name}" for name in ("recall", "search", "expand", "get", "status", "timeline", "context"))


def is_asked_again(asked: dict[str, object], *, has_hung: bool) -> bool:
    """Return True if the next server gets an unanswered request: any but a call that changes data or has hung."""
    named = asked.get("params")
    is_reading = isinstance(named, dict) and named.get("name") in READING
    return asked["method"] != "tools/call" or (is_reading and not has_hung)
