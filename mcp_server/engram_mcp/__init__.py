"""The MCP server: the agent's tools to search, save, correct and forget memories."""
