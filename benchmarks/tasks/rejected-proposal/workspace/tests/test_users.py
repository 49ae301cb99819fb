import unittest

from konto.users import add_user, find_user, open_database


class UsersTest(unittest.TestCase):
    def test_a_user_is_found(self):
        database = open_database(":memory:")
        user_id = add_user(database, "Ann", "ann@example.org")
        self.assertEqual(find_user(database, user_id), (user_id, "Ann", "ann@example.org"))
