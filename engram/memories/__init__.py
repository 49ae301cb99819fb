"""What people and agents do to a memory: save, edit, correct, forget, purge."""
