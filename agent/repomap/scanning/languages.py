"""Tree-sitter queries for the definitions of each language."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from agent.grammars import grammar

if TYPE_CHECKING:
    from tree_sitter import Query

_SCRIPT = """
    (class_declaration) @type
    (function_declaration) @function
    (generator_function_declaration) @function
    (method_definition) @function
    (variable_declarator value: [(arrow_function) (function_expression) (class)]) @function
"""
_TYPED_SCRIPT = f"""
    {_SCRIPT}
    (abstract_class_declaration) @type
    (interface_declaration) @type
    (type_alias_declaration) @type
    (enum_declaration) @type
    (internal_module) @type
    (function_signature) @function
    (method_signature) @function
    (abstract_method_signature) @function
"""
_QUERIES = {
    "python": "(class_definition) @type (function_definition) @function",
    "c": """
        (struct_specifier name: (_) body: (_)) @type
        (union_specifier name: (_) body: (_)) @type
        (enum_specifier name: (_) body: (_)) @type
        (type_definition) @type
        (function_definition) @function
        (preproc_function_def) @function
    """,
    "cpp": """
        (class_specifier name: (_) body: (_)) @type
        (struct_specifier name: (_) body: (_)) @type
        (union_specifier name: (_) body: (_)) @type
        (enum_specifier name: (_) body: (_)) @type
        (namespace_definition name: (_)) @type
        (type_definition) @type
        (alias_declaration) @type
        (function_definition) @function
        (preproc_function_def) @function
    """,
    "java": """
        (class_declaration) @type
        (interface_declaration) @type
        (enum_declaration) @type
        (record_declaration) @type
        (annotation_type_declaration) @type
        (method_declaration) @function
        (constructor_declaration) @function
    """,
    "javascript": _SCRIPT,
    "typescript": _TYPED_SCRIPT,
    "tsx": _TYPED_SCRIPT,
    "go": """
        (type_spec) @type
        (function_declaration) @function
        (method_declaration) @function
    """,
    "rust": """
        (struct_item) @type
        (union_item) @type
        (enum_item) @type
        (trait_item) @type
        (impl_item) @type
        (mod_item body: (_)) @type
        (type_item) @type
        (function_item) @function
        (function_signature_item) @function
        (macro_definition) @function
    """,
    "ruby": """
        (module) @type
        (class) @type
        (method) @function
        (singleton_method) @function
    """,
    "php": """
        (class_declaration) @type
        (interface_declaration) @type
        (trait_declaration) @type
        (enum_declaration) @type
        (function_definition) @function
        (method_declaration) @function
    """,
}


@cache
def definitions_query(language: str) -> Query:
    """Return the query whose captures ``type`` and ``function`` are the definitions."""
    import tree_sitter

    query: Query = tree_sitter.Query(grammar(language), _QUERIES[language])
    return query
