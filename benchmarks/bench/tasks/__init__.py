"""Test whether memory helps an agent with its work: tasks, arms, fresh runs, hidden checks and figures."""
