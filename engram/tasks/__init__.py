"""What the worker runs: one thin module for each task, the queue and the consumer."""

from engram.postgres_drivers import import_without_drivers

import_without_drivers("huey")
