"""The MCP server: the agent's tools to search, save, correct and forget memories."""

#: The variable with the agent's handshake, which the next server needs as well.
HELLO = "ENGRAM_MCP_HELLO"
