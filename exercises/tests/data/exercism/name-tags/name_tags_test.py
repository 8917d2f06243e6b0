import unittest

from name_tags import Tag


class NameTagsTest(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(Tag("Ada"), Tag("Ada"))

    def test_equal_lists(self):
        self.assertEqual([Tag("Ada"), Tag("Bo")], [Tag("Ada"), Tag("Bo")])

    def test_not_equal(self):
        self.assertNotEqual(Tag("Ada"), Tag("Bo"))

    def test_sorted(self):
        found = sorted([Tag("Bo"), Tag("Ada")])
        self.assertEqual([tag.name for tag in found], ["Ada", "Bo"])

    def test_set(self):
        self.assertEqual(len({Tag("Ada"), Tag("Ada")}), 1)
