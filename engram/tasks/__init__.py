"""What the worker does: one thin module a task, the queue, the consumer and the recall server."""
