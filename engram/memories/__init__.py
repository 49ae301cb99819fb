"""What people and agents do to a memory: save, edit, correct, judge, and propose it as a rule."""
