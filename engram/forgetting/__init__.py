"""Forgetting and purging by people: what goes, shown before, and then gone everywhere."""
