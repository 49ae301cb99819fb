"""memory.db: connection, migrations, and all SQL. Other packages call its functions and never see a statement."""

from engram.system.process_limits import import_without_drivers

import_without_drivers("peewee")
