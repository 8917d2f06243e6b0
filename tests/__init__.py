"""The tests; a failed assertion of their shared modules is explained like one of a test."""

import pytest

pytest.register_assert_rewrite("tests.support")
