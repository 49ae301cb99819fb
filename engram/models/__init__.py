"""memory.db: connection, migrations, and all SQL. Other packages call functions here and never see a statement."""

import sys

if "peewee" not in sys.modules:
    # peewee loads every PostgreSQL driver that is installed, which costs each process 0.3 s and 15 MB for nothing here.
    # None makes an import fail; who needs a driver imports it afterwards.
    _drivers = {"psycopg2cffi", "psycopg2", "psycopg"} - sys.modules.keys()
    sys.modules.update(dict.fromkeys(_drivers))  # type: ignore[arg-type]
    try:
        import peewee as _peewee  # noqa: F401
    finally:
        for _name in _drivers:
            del sys.modules[_name]
