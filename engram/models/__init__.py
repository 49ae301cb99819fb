"""memory.db: connection, migrations, and all SQL. Other packages call functions here and never see a statement."""

from engram.postgres_drivers import import_without_drivers

import_without_drivers("peewee")
