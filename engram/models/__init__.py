"""memory.db: connection, migrations, and all SQL. Other packages call functions here and never see a statement."""

from engram.system.process_limits import import_without_drivers

import_without_drivers("peewee")
