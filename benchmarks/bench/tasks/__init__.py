"""Does memory help an agent with its work? Tasks, arms, fresh runs, hidden checks, figures."""
