"""Run queries on memory.db: connections, transactions, migrations, records, packed values."""
