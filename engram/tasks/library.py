"""What Engram uses of huey. It is imported here alone, without the PostgreSQL drivers that it would load."""

from engram.postgres_drivers import import_without_drivers

import_without_drivers("huey")

from huey import crontab  # noqa: E402 - the drivers are hidden first
from huey.api import Huey  # noqa: E402
from huey.constants import WORKER_THREAD, EmptyData  # noqa: E402
from huey.consumer import Consumer, ConsumerStopped, Worker  # noqa: E402
from huey.exceptions import HueyException  # noqa: E402
from huey.registry import Message, Registry  # noqa: E402
from huey.storage import SqliteStorage  # noqa: E402

__all__ = [
    "WORKER_THREAD",
    "Consumer",
    "ConsumerStopped",
    "EmptyData",
    "Huey",
    "HueyException",
    "Message",
    "Registry",
    "SqliteStorage",
    "Worker",
    "crontab",
]
