"""What the worker runs: one thin module for each task, the queue and the consumer."""
