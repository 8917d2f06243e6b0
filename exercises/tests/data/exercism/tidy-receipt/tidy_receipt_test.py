import unittest

from tidy_receipt import receipt


class TidyReceiptTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(receipt([]), "total 0.00")

    def test_two(self):
        self.assertEqual(receipt([("tea", 205), ("jam", 99)]), "tea 2.05\njam 0.99\ntotal 3.04")
