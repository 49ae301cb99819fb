"""Change memories on request by people and agents: save, edit, correct, judge, and propose as rules."""
