"""Read the chats of Gemini CLI.

The format is that of google-gemini/gemini-cli: ``packages/core/src/services/chatRecordingTypes.ts`` and
``chatRecordingService.ts`` (chats), ``packages/core/src/config/projectRegistry.ts`` (folders of projects), and
``docs/cli/session-management.md``.
"""

#: The agent's name as stored with every session.
AGENT = "gemini"
