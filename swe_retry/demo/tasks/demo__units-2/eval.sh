#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 0e36ba2336f417eb0561720e224885e3aec85e02 tests/test_convert.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_convert.py b/tests/test_convert.py
index 5cc3735..10d9757 100644
--- a/tests/test_convert.py
+++ b/tests/test_convert.py
@@ -11,3 +11,7 @@ def test_zero_metres():
 
 def test_conversion_is_a_number():
     assert isinstance(celsius_to_fahrenheit(20), float)
+
+
+def test_boiling_water():
+    assert celsius_to_fahrenheit(100) == 212
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_convert.py
: '>>>>> End Test Output'
git checkout 0e36ba2336f417eb0561720e224885e3aec85e02 tests/test_convert.py
