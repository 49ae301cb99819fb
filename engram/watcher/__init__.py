"""Follows the transcripts: events are hints, the sweep is the truth. Light: no model, no numpy."""
