import unittest

from compass import vector
from garden_path import walk


class GardenPathTest(unittest.TestCase):
    def test_stay(self):
        self.assertEqual(walk(""), (0, 0))

    def test_there_and_back(self):
        self.assertEqual(walk("nesw"), (0, 0))

    def test_far(self):
        self.assertEqual(walk("nnnw"), (-1, 3))

    def test_south(self):
        self.assertEqual(vector("s"), (0, -1))
