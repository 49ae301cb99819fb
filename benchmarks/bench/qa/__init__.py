"""Can a reader answer from what Engram gives them? What each arm gives, readers' answers, a judge's verdicts."""
