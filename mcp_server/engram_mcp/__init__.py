"""The MCP server: what the agent may ask, keep and forget."""
