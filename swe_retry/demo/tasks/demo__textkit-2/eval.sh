#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 7e45367bef8a8c0107260a6d169f3ed4da1ab20a tests/test_wrap.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_wrap.py b/tests/test_wrap.py
index f203635..5c60b8c 100644
--- a/tests/test_wrap.py
+++ b/tests/test_wrap.py
@@ -11,3 +11,7 @@ def test_breaks_between_words():
 
 def test_empty_text_has_no_lines():
     assert wrap("", 10) == []
+
+
+def test_space_counts():
+    assert wrap("one two three", 6) == ["one", "two", "three"]
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_wrap.py
: '>>>>> End Test Output'
git checkout 7e45367bef8a8c0107260a6d169f3ed4da1ab20a tests/test_wrap.py
