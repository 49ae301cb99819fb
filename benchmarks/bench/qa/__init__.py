"""Test whether a reader can answer from what Engram returns: texts of the arms, readers' answers, judge's verdicts."""
