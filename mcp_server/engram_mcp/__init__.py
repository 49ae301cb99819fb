"""The MCP server: the agent's tools to search, save, correct and forget memories."""

#: The variable with the agent's handshake, which the next server needs as well.
HELLO = "ENGRAM_MCP_HELLO"

#: Tools that change nothing.
READING = frozenset(f"memory_{name}" for name in ("recall", "search", "expand", "get", "status", "timeline", "context"))


def is_asked_again(asked: dict[str, object], *, has_hung: bool) -> bool:
    """Return whether the next server is asked what a worker owed: all but calls that change something or hung it."""
    named = asked.get("params")
    is_reading = isinstance(named, dict) and named.get("name") in READING
    return asked["method"] != "tools/call" or (is_reading and not has_hung)
