#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 135cee4c1136452ac0955eba847dc630e9dc6873 tests/test_ledger.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_ledger.py b/tests/test_ledger.py
index 6138c01..a114157 100644
--- a/tests/test_ledger.py
+++ b/tests/test_ledger.py
@@ -7,6 +7,13 @@ def test_total_of_one_entry():
     assert ledger.total("ann") == 250
 
 
+def test_total_of_two_entries():
+    ledger = Ledger()
+    ledger.add("ann", 100)
+    ledger.add("ann", 50)
+    assert ledger.total("ann") == 150
+
+
 def test_total_of_nobody():
     assert Ledger().total("bob") == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_ledger.py
: '>>>>> End Test Output'
git checkout 135cee4c1136452ac0955eba847dc630e9dc6873 tests/test_ledger.py
