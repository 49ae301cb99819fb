"""Forgetting and purging by people: what goes is first shown, and then deleted everywhere."""
