#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 0e36ba2336f417eb0561720e224885e3aec85e02 tests/test_parse.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_parse.py b/tests/test_parse.py
index eaf425a..63ddc3d 100644
--- a/tests/test_parse.py
+++ b/tests/test_parse.py
@@ -7,6 +7,10 @@ def test_length_with_space():
     assert parse_length("12 m") == 12
 
 
+def test_length_without_space():
+    assert parse_length("250cm") == 2.5
+
+
 def test_unknown_unit():
     with pytest.raises(KeyError):
         parse_length("12 parsec")
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_parse.py
: '>>>>> End Test Output'
git checkout 0e36ba2336f417eb0561720e224885e3aec85e02 tests/test_parse.py
