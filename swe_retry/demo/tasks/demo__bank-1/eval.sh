#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 135cee4c1136452ac0955eba847dc630e9dc6873 tests/test_account.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_account.py b/tests/test_account.py
index 4ea8e3a..45952ca 100644
--- a/tests/test_account.py
+++ b/tests/test_account.py
@@ -23,3 +23,10 @@ def test_transfer():
 def test_transfer_too_much_is_an_error():
     with pytest.raises(ValueError):
         Account(10).transfer(20, Account())
+
+
+def test_failed_transfer_moves_nothing():
+    other = Account()
+    with pytest.raises(ValueError):
+        Account(10).transfer(20, other)
+    assert other.balance == 0
EOF_114329324912
: '>>>>> Start Test Output'
python -m pytest -rA -p no:cacheprovider tests/test_account.py
: '>>>>> End Test Output'
git checkout 135cee4c1136452ac0955eba847dc630e9dc6873 tests/test_account.py
