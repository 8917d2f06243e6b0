import unittest

from cuckoo_clock import strikes


class CuckooClockTest(unittest.TestCase):
    def test_morning(self):
        self.assertEqual(strikes(3, 0), 3)

    def test_afternoon(self):
        self.assertEqual(strikes(15, 0), 3)

    def test_noon_and_midnight(self):
        for hour in (0, 12):
            with self.subTest(hour=hour):
                self.assertEqual(strikes(hour, 0), 12)

    def test_half_past(self):
        self.assertEqual(strikes(7, 30), 1)

    def test_silence(self):
        self.assertEqual(strikes(7, 29), 0)
