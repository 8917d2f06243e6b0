#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7e45367bef8a8c0107260a6d169f3ed4da1ab20a tests/test_slug.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_slug.py b/tests/test_slug.py
index 7565c91..2aba5c0 100644
--- a/tests/test_slug.py
+++ b/tests/test_slug.py
@@ -7,3 +7,7 @@ def test_lower_case():
 
 def test_space_becomes_dash():
     assert slugify("a b") == "a-b"
+
+
+def test_runs_become_one_dash():
+    assert slugify("Hello,  World!") == "hello-world"
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_slug.py
: '>>>>> End Test Output'
git checkout 7e45367bef8a8c0107260a6d169f3ed4da1ab20a tests/test_slug.py
