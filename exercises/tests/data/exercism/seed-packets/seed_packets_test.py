import unittest

from seed_packets import packets


class SeedPacketsTest(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(packets(0), [])

    def test_one_of_each(self):
        self.assertEqual(packets(95), [50, 40, 5])

    def test_fewest(self):
        self.assertEqual(packets(80), [40, 40])

    def test_not_packable(self):
        with self.assertRaises(ValueError) as error:
            packets(7)
        self.assertEqual(error.exception.args[0], "no packets for this number")

    def test_negative(self):
        with self.assertRaises(ValueError):
            packets(-5)
