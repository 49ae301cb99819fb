"""memory.db: connection, migrations, and all SQL. Other packages call functions here and never see a statement."""
