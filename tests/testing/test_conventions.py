"""Related tests of other languages than Python, by the conventions of their ecosystems."""

from __future__ import annotations

from pathlib import PurePosixPath

from swe_retry.testing.related import RelatedTests, has_convention

# Edited file, files of the checkout with their texts, and the related tests in order.
CASES: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "go": (
        "pkg/store/cache.go",
        {
            "pkg/store/cache_test.go": "package store",
            "pkg/store/disk_test.go": "package store",
            "pkg/other/other_test.go": "package other",
            "cmd/main_test.go": 'import (\n\t"example.org/x/pkg/store"\n)',
        },
        ["pkg/store/cache_test.go", "pkg/store/disk_test.go", "cmd/main_test.go"],
    ),
    "rust module with tests inside": (
        "src/shapes/area.rs",
        {
            "src/shapes/area.rs": "fn f() {}\n#[cfg(test)]\nmod tests {}\n",
            "tests/area.rs": "",
            "tests/whole.rs": "use thing::shapes::{area, line};\n",
            "tests/other.rs": "use thing::colours;\n",
        },
        ["src/shapes/area.rs", "tests/area.rs", "tests/whole.rs", "tests/other.rs"],
    ),
    "rust module with tests beside": (
        "crates/a/src/parse/mod.rs",
        {
            "crates/a/src/parse/mod.rs": "mod tests;\n",
            "crates/a/src/parse/tests.rs": "",
            "crates/b/src/lex/tests.rs": "",
        },
        ["crates/a/src/parse/tests.rs"],
    ),
    "java": (
        "core/src/main/java/org/ex/Calc.java",
        {
            "core/src/test/java/org/ex/CalcTest.java": "class CalcTest { Calc c; }",
            "core/src/test/java/org/ex/TestCalc.java": "class TestCalc {}",
            "core/src/test/java/org/ex/AllTests.java": "new Calc();",
            "core/src/test/java/org/ex/WordTest.java": "class WordTest {}",
        },
        [
            "core/src/test/java/org/ex/CalcTest.java",
            "core/src/test/java/org/ex/TestCalc.java",
            "core/src/test/java/org/ex/AllTests.java",
        ],
    ),
    "kotlin": (
        "src/main/kotlin/Calc.kt",
        {"src/test/kotlin/CalcTest.kt": "", "src/test/kotlin/WordTest.kt": ""},
        ["src/test/kotlin/CalcTest.kt"],
    ),
    "javascript": (
        "packages/a/src/sum.js",
        {
            "packages/a/src/__tests__/sum.js": "",
            "packages/a/test/sum.test.js": "require('../src/sum')",
            "packages/a/test/all.test.js": "import sum from '../src/sum.js'",
            "packages/a/test/fixtures/sum.js": "",
            "packages/b/test/words.test.js": "require('../src/words')",
        },
        [
            "packages/a/test/sum.test.js",
            "packages/a/src/__tests__/sum.js",
            "packages/a/test/all.test.js",
        ],
    ),
    "typescript": (
        "src/list/index.tsx",
        {
            "src/list/index.spec.tsx": "",
            "src/tree/index.spec.tsx": "",
            "src/list.test.ts": "",
            "src/list/index.d.ts": "",
        },
        ["src/list/index.spec.tsx", "src/list.test.ts"],
    ),
    "c": (
        "src/zset.c",
        {
            "tests/zset_test.c": "",
            "tests/test_zset.c": "",
            "tests/list.c": '#include "../src/zset.h"\n',
            "tests/words.c": '#include "words.h"\n',
        },
        ["tests/test_zset.c", "tests/zset_test.c", "tests/list.c"],
    ),
    "c++": (
        "include/lib/format.hpp",
        {
            "test/format-test.cc": "",
            "test/FormatTests.cpp": "",
            "test/chrono-test.cc": "",
        },
        ["test/format-test.cc", "test/FormatTests.cpp"],
    ),
    "php": (
        "src/Http/Request.php",
        {
            "tests/Http/RequestTest.php": "",
            "tests/KernelTest.php": "use App\\Http\\Request;",
            "tests/Request/HeadersTest.php": "",
            "tests/WordTest.php": "",
        },
        [
            "tests/Http/RequestTest.php",
            "tests/Request/HeadersTest.php",
            "tests/KernelTest.php",
        ],
    ),
    "ruby": (
        "lib/thing/word_list.rb",
        {
            "spec/thing/word_list_spec.rb": "",
            "test/thing/test_word_list.rb": "",
            "test/all_test.rb": "Thing::WordList.new",
            "test/other_test.rb": "",
        },
        [
            "spec/thing/word_list_spec.rb",
            "test/thing/test_word_list.rb",
            "test/all_test.rb",
        ],
    ),
}


def test_tests_belong_to_a_file_by_name_place_and_use() -> None:
    for name, (edited, files, expected) in CASES.items():
        related = RelatedTests(list(files), files.get).of([edited])
        assert list(related) == expected, name
        assert has_convention([edited])


def test_an_edited_test_selects_nothing() -> None:
    files = {"a_test.go": "", "a.go": ""}
    assert RelatedTests(list(files), files.get).of(["a_test.go"]) == ()
    assert not has_convention(["a_test.go", "README.md", "data.json"])


def test_tests_that_are_only_near_count_where_no_other_does() -> None:
    files = {
        "a/src/test/java/x/OneTest.java": "",
        "a/src/test/java/y/TwoTest.java": "",
    }
    tests = RelatedTests(list(files), files.get)
    related = tests.of(["a/src/main/java/x/Codec.java"])
    assert related == ("a/src/test/java/x/OneTest.java",)


def test_python_and_another_language_are_selected_together() -> None:
    files = {"web/a.test.js": "", "tests/test_b.py": ""}
    related = RelatedTests(list(files), files.get).of(["web/a.js", "pkg/b.py"])
    assert set(related) == set(files)


def test_what_tests_use_is_no_test() -> None:
    for path in (
        "a/node_modules/x/y.test.js",
        "test/fixtures/a.test.js",
        "a.go",
        "src/Testing.php",
    ):
        source = f"x{PurePosixPath(path).suffix}"
        related = RelatedTests([path], {path: "require('x')"}.get).of([source])
        assert related == (), path
