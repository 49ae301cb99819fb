"""The worker's tasks, their queue and its consumer."""
