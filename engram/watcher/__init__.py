"""Follow the transcripts.

Events are only hints; the sweep finds every change. The process stays small: no model, no numpy.
"""
