"""Forget and purge memories: first show what will be deleted, then delete it everywhere."""
