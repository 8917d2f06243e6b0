from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.agent.repomap.scanning.scan import scan
from swe_retry.agent.repomap.scanning.spans import MAX_PARSED
from swe_retry.agent.repomap.scanning.tags import FileTags

SOURCES = {
    "python": ("class A(B):\n  def f(self): pass\nasync def g(): ...\n", ["A", "A.f", "g"]),
    "c": ("struct s { int x; };\nstatic int *f(int a) { return 0; }\n", ["s", "f"]),
    "cpp": ("namespace n { class A { int f() { return 1; } }; }\n", ["n", "n.A", "n.A.f"]),
    "java": ("class A { A() {} int f(int x) { return x; } }", ["A", "A.A", "A.f"]),
    "javascript": ("class A { f() {} }\nconst g = () => 1\nfunction h(){}", ["A", "A.f", "g", "h"]),
    "typescript": ("interface A { f(): void }\nexport class B<T> {}", ["A", "A.f", "B"]),
    "tsx": ("export function A() { return <b/>; }", ["A"]),
    "go": ("package p\ntype T struct{}\nfunc (t *T) M() {}\nfunc F() {}\n", ["T", "M", "F"]),
    "rust": ("struct S;\nimpl S { fn f(&self) {} }\npub trait T {}\n", ["S", "S", "S.f", "T"]),
    "ruby": ("module M\n class A\n  def self.f; end\n  def g; end\n end\nend\n",
             ["M", "M.A", "M.A.f", "M.A.g"]),
    "php": ("<?php class A { function f() {} }\nfunction g() {}", ["A", "A.f", "g"]),
}  # fmt: skip


DECLARATIONS = {
    "c": (
        "#ifndef A_H\nint f(int a);\nchar *g(void);\nint x;\n"
        "int h(void) { int y(1); return y; }\n#endif\n",
        ["f", "g", "h"],
    ),
    "cpp": (
        "class A {\n A();\n ~A();\n int f(int a) const;\n virtual A &g() = 0;\n int x;\n};\n"
        "namespace n { int z(int); }\ntemplate <class T> T w(T);\n",
        ["A", "A.A", "A.A", "A.f", "A.g", "n", "n.z", "w"],
    ),
    "python": (
        "LIMIT = 1\nNAMES: list[str] = []\nx = 1\ndef f():\n    LOCAL = 2\n",
        ["LIMIT", "NAMES", "f"],
    ),
    "go": (
        "package p\nconst K = 1\nconst (\n A = 1\n B = 2\n)\nfunc f() { const x = 1 }\n",
        ["K", "A", "B", "f"],
    ),
    "rust": (
        "const K: i32 = 1;\nstatic S: i32 = 2;\nfn f() { const X: i32 = 1; }\n",
        ["K", "S", "f"],
    ),
    "php": (
        "<?php\nconst K = 1;\nclass A { const C = 1; public $x; }\n",
        ["K", "A", "A.C"],
    ),
    "ruby": ("K = 1\nmodule M\n  C = 2\nend\nx = 3\n", ["K", "M", "M.C"]),
    "javascript": (
        "exports.a = 1\nmodule.exports.b = () => 1\nother.c = 2\n"
        "function f() { exports.d = 1 }\n",
        ["a", "b", "f", "f.d"],
    ),
}


def qualified_names(tags: FileTags) -> list[str]:
    names: list[str] = []
    for definition in tags.definitions:
        around = ""
        if definition.parent >= 0:
            around = f"{names[definition.parent]}."
        names.append(around + definition.name)
    return names


@pytest.mark.parametrize("language", sorted(SOURCES))
def test_each_language_has_its_definitions(language: str) -> None:
    source, expected = SOURCES[language]
    assert qualified_names(scan(source.encode(), language)) == expected


@pytest.mark.parametrize("language", sorted(DECLARATIONS))
def test_declarations_and_constants_are_symbols(language: str) -> None:
    source, expected = DECLARATIONS[language]
    assert qualified_names(scan(source.encode(), language)) == expected


def test_constants_of_a_large_file_are_symbols() -> None:
    source = "LIMIT = 1\n" + "x = 2\n" * 8_000 + "def f():\n    pass\n"
    tags = scan(source.encode(), "python")
    assert qualified_names(tags) == ["LIMIT", "f"]
    assert tags.definitions[0].last == 1


def test_directives_and_attributes_are_not_documentation() -> None:
    for language, source, expected in (
        ("c", "#ifdef X\n#endif\nint f(void) { return 1; }\n", ""),
        ("c", "// Doc.\nint f(void) { return 1; }\n", "Doc."),
        ("rust", "#[derive(Debug)]\nstruct A {}\n", ""),
        ("rust", "/// Doc.\n#[derive(Debug)]\nstruct A {}\n", "Doc."),
        ("php", "<?php\n// Doc.\n#[Pure]\nfunction f() {}\n", "Doc."),
        ("ruby", "# Doc.\ndef f; end\n", "Doc."),
    ):
        (definition,) = scan(source.encode(), language).definitions
        assert definition.doc == expected, source


def test_a_definition_knows_its_lines_head_decorators_and_docstring() -> None:
    source = (
        "class A:\n"
        "    @property\n"
        "    @cached(\n        1)\n"
        "    def f(self,  # first\n          x=1):\n"
        "        '''Return nothing.\n\n        More.'''\n"
        "        return 1\n"
    )
    tags = scan(source.encode(), "python")
    method = tags.definitions[1]
    assert method.first == 5
    assert method.last == 10
    assert method.kind == "function"
    assert method.doc == "Return nothing."
    assert method.decorators == ("@property", "@cached( 1)")
    assert method.signature.startswith("def f(self,")


def test_words_belong_to_the_innermost_definition() -> None:
    source = b"import outer\nclass A:\n  x = within\n  def f(self): return deep(deep)\n"
    outside, in_a, in_f = scan(source, "python").word_counts
    assert outside == {"import": 1, "outer": 1}
    assert in_a["within"] == 1
    assert "deep" not in in_a
    assert in_f["deep"] == 2


def test_a_comment_above_stands_for_a_docstring() -> None:
    source = b"/**\n * Adds up.\n * More.\n */\nint f(int a) { return a; }\n"
    tags = scan(source, "c")
    assert tags.definitions[0].doc == "Adds up."


def test_a_very_large_file_is_scanned_by_lines() -> None:
    body = "class A:\n  @cached\n  def f(self): pass\n  def g(self):\n    def inner(): ...\n"
    body += "def h(): ...\n"
    filler = "x = 1  # filler\n" * (MAX_PARSED // 10)
    small = scan(body.encode(), "python")
    large = scan((body + filler).encode(), "python")
    names = ["A", "A.f", "A.g", "A.g.inner", "h"]
    assert qualified_names(small) == names
    assert qualified_names(large) == names
    decorators = [definition.decorators for definition in large.definitions]
    assert decorators == [(), ("@cached",), (), (), ()]
    for definition, other in zip(large.definitions, small.definitions, strict=True):
        assert definition.first == other.first


@pytest.mark.parametrize(
    "data",
    [
        b"print 'python 2'\ndef f(): pass\n",
        b"def f(:\n  (((\nclass",
        b"\xff\xfe\xe9 = 1\ndef f(): pass\n",
        b"\xef\xbb\xbfdef f(): pass\r\n",
        b"",
    ],
)
def test_strange_python_is_no_error(data: bytes) -> None:
    tags = scan(data, "python")
    assert len(tags.word_counts) == len(tags.definitions) + 1


def test_a_binary_file_has_no_tags() -> None:
    assert scan(b"def f(): ...\n\0", "python") == FileTags()


@settings(max_examples=60)
@given(st.sampled_from(sorted(SOURCES)), st.binary(max_size=60), st.integers(0, 60))
def test_a_damaged_source_is_no_error_and_packs_to_itself(
    language: str, noise: bytes, at: int
) -> None:
    source = SOURCES[language][0].encode()
    tags = scan(source[:at] + noise + source[at:], language)
    assert FileTags.unpack(tags.pack()) == tags


@pytest.mark.parametrize("packed", [b"", b"\0", b"x" * 99])
def test_what_is_no_tags_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not packed tags"):
        FileTags.unpack(packed)
