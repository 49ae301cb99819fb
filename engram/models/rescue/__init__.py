"""Copies of memory.db: backups, restores, recovery, vaults, other programs' files."""
