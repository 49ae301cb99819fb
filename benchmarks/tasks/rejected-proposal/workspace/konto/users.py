"""Users, in SQLite."""

import sqlite3

SCHEMA = """
CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, mail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS loans (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, title TEXT NOT NULL);
"""


def open_database(path):
    """Open the database and make its tables."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    return database


def add_user(database, name, mail):
    """Add a user and return the id."""
    with database:
        return database.execute("INSERT INTO users (name, mail) VALUES (?, ?)", (name, mail)).lastrowid


def find_user(database, user_id):
    """Return (id, name, mail) of a user; None if there is none."""
    return database.execute("SELECT id, name, mail FROM users WHERE id = ?", (user_id,)).fetchone()
