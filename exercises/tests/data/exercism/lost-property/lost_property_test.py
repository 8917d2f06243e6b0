import unittest

from lost_property import fetch
from test_utils import Office


class LostPropertyTest(unittest.TestCase):
    def test_found(self):
        office = Office("hat", "key")
        self.assertEqual(fetch(office, "key"), "key")
        self.assertEqual(office.log, ["open", "close"])

    def test_not_found(self):
        office = Office("hat")
        self.assertIsNone(fetch(office, "key"))
        self.assertEqual(office.log, ["open", "close"])
