"""What each coding agent gets: the plugin, hooks, the MCP server."""
