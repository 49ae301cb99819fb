"""Follow the transcripts. Events are only hints; the sweep finds everything. Lightweight: no model, no numpy."""
