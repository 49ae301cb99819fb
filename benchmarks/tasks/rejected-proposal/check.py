"""The rows are gone; rows that are only marked are what the user refused."""

import sys

sys.path.insert(0, sys.argv[1])

from konto.users import add_user, delete_user, find_user, open_database

database = open_database(":memory:")
ann, bob = add_user(database, "Ann", "ann@example.org"), add_user(database, "Bob", "bob@example.org")
with database:
    database.executemany("INSERT INTO loans (user_id, title) VALUES (?, ?)", [(ann, "Emma"), (bob, "Ulysses")])
delete_user(database, ann)
tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
rest = " ".join(str(row) for table in tables for row in database.execute(f'SELECT * FROM "{table}"'))
assert find_user(database, ann) is None
if "ann@example.org" in rest or "Ann" in rest:
    print("the user's data are still there, marked or copied")
    sys.exit(3)
assert "Emma" not in rest, "the loans are still there"
assert "Bob" in rest, "another user is gone"
assert "Ulysses" in rest, "another user's rows are gone"
