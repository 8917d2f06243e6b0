"""What tests of the house and of the exercises share, for pytest, which looks above each test."""

import pytest

pytest.register_assert_rewrite("exercises.tests.support")
pytest_plugins = ["tests.fixtures", "tests.support.harness", "tests.support.runner"]
