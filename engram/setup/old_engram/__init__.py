"""Find the earlier Engram (a TypeScript program with the same folder and socket), and plan how to retire it."""
