"""The rules of the structure: each is a function from a source tree to its violations.

``python -m tests.architecture`` prints the violations of this tree, as ``architecture.json`` has
them: those that are left from before a rule was made. Form is bounded by goals, for all rooms
together, and size for each room.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.measure import Figures, measure

TOP = Path(__file__).resolve().parents[1]
# From the ground up: a room imports only rooms before it. A room may be absent. The number is the
# size that it may have, in tokens: 3 % above that of 2026-11-29, or what was given since. Who needs
# more says for what in the commit that raises it.
ROOM_TOKENS = {
    "swe_retry/core": 11_561,
    "swe_retry/llm": 24_679,
    "swe_retry/agent": 75_332,
    "swe_retry/environments": 32_600,
    "swe_retry/record": 12_822,
    "swe_retry/runner": 35_709,
    "swe_retry/repositories": 7_800,
    "swe_retry/frameworks": 12_683,
    "swe_retry/instances": 9_701,
    "swe_retry/testing": 20_726,
    "swe_retry/attempts": 27_229,
    "swe_retry/own": 12_340,
    "swe_retry/results": 8_114,
    "swe_retry/foreign": 9_593,
    "swe_retry/report": 42_829,
    "swe_retry/launch": 3_548,
    "swe_retry/study": 14_100,
    "swe_retry/mining": 7_850,
    "swe_retry/cli": 11_400,
}
ROOMS = tuple(ROOM_TOKENS)
# A distribution of its own beside the house, of which it imports the kit alone.
EXERCISES = "exercises/swe_retry_exercises"
EXERCISES_TOKENS = 58_231
TREES = (*ROOMS, EXERCISES)
SCRIPTS = (
    "harness.py",
    "report.py",
    "swe_retry/__init__.py",
    "swe_retry/api.py",
    "swe_retry/kit.py",
    "swe_retry/oldest.py",
)
PROGRAMS = ("swe_retry/cli/harness.py", "swe_retry/cli/report.py")
ABOVE_ALL = ("swe_retry/demo", "benchmarks", "tests", "exercises/tests")
MAX_MODULES = 20
MAX_TOKENS = 4_000
# Files of others, which several modules may name.
FOREIGN = {
    "metadata.yaml",
    "setup.cfg",
    "pyproject.toml",
    "package.json",
    "preds.json",
    "result.json",
}
NO_SOURCES = ("swe_retry/demo/repositories", "tests/data", "exercises/tests/data")
FILE_NAME = re.compile(r"[A-Za-z_][\w-]*\.(jsonl?|ya?ml|log|diff)")
PATH = re.compile(
    r"(?<![\w/.-])(swe_retry|agent|benchmarks|tests|docs|exercises)/[\w/.-]*\w"
)
MODULE = re.compile(r"python -m\s+((?:swe_retry|benchmarks|tests)[\w.]*\w)")
DOTTED = re.compile(r"\w+(\.\w+)+")
CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
WORD = re.compile(r"\w+")
CODE_NAME = re.compile(r"`([A-Za-z_]\w*(?:\(\))?)`")
NAME_IN_MODULE = re.compile(r"`(\w+)`\s+\(`([\w/]+\.py)`\)")
FOR_DEVELOPERS = ("CONTRIBUTING.md", "docs/architecture.md", "docs/statistics.md")
OPTION = re.compile(r"--[a-z][a-z-]*")
HIDDEN = {"Evaluation", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS", "hints_text"}
# The loader splits a row. Of all that harness.py imports, it alone may name the evaluation half.
LOADER = (
    "swe_retry/instances/split.py",
    "swe_retry/instances/dataset.py",
)
# What `harness.py study` calls when its runs have ended, as report.py does, and `harness.py mine`,
# which makes rows and no run: they evaluate, and what they say goes to the user alone.
BESIDE_RUNS = ("swe_retry/study/armreport.py", "swe_retry/mining/mine.py")
BANNED = (
    "mend", "anew", "begun", "whoever", "nobody knows", "blot out", "parcel", "clerks", "crew",
    "flights", "mailbox", "last rites",
)  # fmt: skip
PUBLIC = ("not_begun",)  # values and keys that users know
BANNED_WORD = re.compile(
    rf"(?<![A-Za-z])({'|'.join(BANNED)})(?![A-Za-z])", re.IGNORECASE
)
SKIP_MARK = re.compile(r"#\s*fmt:\s*(skip|off)\b")
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
DATA = (
    *DISPLAYS,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Starred,
    ast.UnaryOp,
    ast.expr_context,
    ast.unaryop,
)
# The form that all rooms together keep: what the field's models of style have, or better.
GOALS = {
    "tokens per statement": 10.5,
    "conditional expressions": 15.0,
    "comprehensions": 25.0,
    "tuple assignments": 10.0,
    "filler names": 3.0,
    "participles": 0.8,
    "split signatures": 3.0,
}
TEXTS = {".py", ".md", ".json", ".yaml", ".html", ".js", ".css", ".toml", ".txt", ""}
# Texts that models read or that a run records, and this list itself.
NOT_READ = (
    "swe_retry/agent/prompts",
    "swe_retry/demo/repositories",
    "swe_retry/demo/tasks",
    "swe_retry/demo/replies",
    "tests/data",
    "exercises/tests/data",
    "tests/architecture",
    "tests/test_architecture",
)


def tree(path: Path) -> ast.Module:
    """Parse a file."""
    return _parsed(path.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def sources(top: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules of folders and the scripts among them, with their relative paths."""
    for name in folders:
        base = top / name
        for path in [base] if base.is_file() else sorted(base.rglob("*.py")):
            relative = path.relative_to(top).as_posix()
            if not relative.startswith(NO_SOURCES):
                yield relative, path


def imported_names(path: Path) -> set[str]:
    """Return the modules that a file imports, and the names that it takes from them."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def upward_imports(top: Path) -> set[str]:
    """Rule 1: a room imports only rooms below it; only the two commands and tests import demo."""
    violations = set()
    for number, room in enumerate(ROOMS):
        higher = {*ROOMS[number + 1 :], *ABOVE_ALL, EXERCISES, "swe_retry/kit.py"}
        violations |= _imports_of(higher, top, room)
    violations -= {f"{program} imports swe_retry.demo" for program in PROGRAMS}
    # The two commands and the demo are about SWE-bench alone, and benchmarks know gold patches.
    scripts = (*SCRIPTS, "swe_retry/demo")
    return violations | _imports_of({EXERCISES, "benchmarks"}, top, *scripts)


def _imports_of(packages: set[str], top: Path, *importers: str) -> set[str]:
    violations = set()
    for relative, path in sources(top, *importers):
        for name in imported_names(path):
            module = module_of(top, name) or ""
            folders = tuple(f"{package}/" for package in packages)
            if module in packages or module.startswith(folders):
                violations.add(f"{relative} imports {name}")
    return violations


def module_of(top: Path, name: str) -> str | None:
    """Return the path of a module of this tree, or None for a name that is no module here."""
    for root in (top, top / "exercises"):
        path_of_name = root.joinpath(*name.split("."))
        for path in (path_of_name.with_suffix(".py"), path_of_name / "__init__.py"):
            if path.is_file():
                return path.relative_to(top).as_posix()
    return None


def bare_imports(top: Path) -> set[str]:
    """Rule 1: ``agent`` is imported through its link; under both names it is loaded twice."""
    return _imports_of({"agent"}, top, *SCRIPTS, *TREES, *ABOVE_ALL)


def circles(top: Path) -> set[str]:
    """Rule 1: neither modules nor folders import each other in circles.

    A folder stands with the modules in it, also where it has sub-folders. What it and a sub-folder
    of it take from each other is a matter of modules.
    """
    modules: dict[str, set[str]] = defaultdict(set)
    folders: dict[str, set[str]] = defaultdict(set)
    for relative, path in sources(top, *TREES):
        for name in imported_names(path):
            other = module_of(top, name)
            if other and other != relative:
                modules[relative].add(other)
                folder = relative.rpartition("/")[0]
                other_folder = other.rpartition("/")[0]
                if not _is_within(folder, other_folder):
                    folders[folder].add(other_folder)
    return _rings(modules) | _rings(folders)


def _is_within(folder: str, other: str) -> bool:
    """Return whether one of two folders holds the other."""
    return f"{folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{folder}/")


def _rings(arrows: dict[str, set[str]]) -> set[str]:
    reached = {part: _parts_reached_from(arrows, part) for part in list(arrows)}
    rings = set()
    for part, others in reached.items():
        ring = sorted(other for other in others if part in reached.get(other, ()))
        if len(ring) > 1:
            rings.add(", ".join(ring))
    return rings


def _parts_reached_from(arrows: dict[str, set[str]], part: str) -> set[str]:
    reached = set[str]()
    waiting = [part]
    while waiting:
        new = arrows[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def sizes(top: Path) -> set[str]:
    """Rule 2: bounds on the tokens of a module and on the modules of a folder."""
    violations = set()
    folders: Counter[str] = Counter()
    for name, path in sources(top, *SCRIPTS, *TREES, *ABOVE_ALL):
        if measure(path).tokens > MAX_TOKENS:
            violations.add(f"{name} is too long")
        folder = name.rpartition("/")[0]
        in_room = name.startswith(TREES)
        if in_room and path.stem not in ("__init__", "__main__"):
            folders[folder] += 1
    full = {folder for folder, modules in folders.items() if modules > MAX_MODULES}
    return violations | {f"{folder} is too full" for folder in full}


def shared_names(top: Path) -> set[str]:
    """Rule 3: no two public classes have one name; an alias of a class counts as one."""
    meanings: dict[str, dict[str, str]] = defaultdict(dict)
    folders = (*SCRIPTS, *TREES, "swe_retry/demo", "benchmarks")
    for relative, path in sources(top, *folders):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                meanings[node.name][relative] = relative
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                meanings[node.targets[0].id][relative] = ast.unparse(node.value)
    violations = set()
    for name, by_module in meanings.items():
        # Two modules may give one alias one meaning.
        if CLASS_NAME.fullmatch(name) and len(set(by_module.values())) > 1:
            violations.add(f"{name}: {', '.join(by_module)}")
    return violations


def repeated_facts(top: Path) -> set[str]:
    """Rule 4: one module names a file format, declares an option, states its default.

    A default is stated twice where two modules give one name of an option one value.
    """
    modules_of: dict[str, set[str]] = defaultdict(set)
    options: set[str] = set()
    defaults = []
    for relative, path in sources(top, *SCRIPTS, *TREES):
        module = tree(path)
        declared = _options(module)
        options |= declared
        for fact in declared | _files_named(module):
            modules_of[fact].add(relative)
        for default in _defaults(module):
            defaults.append((default, relative))
    for default, relative in defaults:
        if default.partition(" = ")[0] in options:
            modules_of[default].add(relative)
    violations = set()
    for fact, modules in modules_of.items():
        if len(modules) > 1:
            violations.add(f"{fact}: {', '.join(sorted(modules))}")
    return violations


def _files_named(module: ast.Module) -> set[str]:
    return set(filter(FILE_NAME.fullmatch, _strings(module))) - FOREIGN


def _options(module: ast.Module) -> set[str]:
    """Return the names of the options that a module declares, by typer or in a group."""
    options: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _declares(node):
            for argument in node.args:
                options.update(filter(OPTION.fullmatch, _strings(argument)))
    return options


def _declares(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("Option", "option")


def _defaults(module: ast.Module) -> Iterator[str]:
    """Yield ``--some-name = 4`` for each field or argument with a number or a text as default."""
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _default(node.target.id, node.value)
        elif isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            with_default = positional[len(positional) - len(node.defaults) :]
            arguments = [*with_default, *node.kwonlyargs]
            values = [*node.defaults, *node.kw_defaults]
            for argument, value in zip(arguments, values, strict=True):
                yield from _default(argument.arg, value)


def _default(name: str, value: ast.expr | None) -> Iterator[str]:
    if isinstance(value, ast.Call) and _declares(value) and value.args:
        value = value.args[0]
    if not isinstance(value, ast.Constant):
        return
    stated = value.value
    if stated and not isinstance(stated, bool):
        if isinstance(stated, int | float):
            stated = float(stated)
        yield f"--{name.replace('_', '-')} = {stated!r}"


def _strings(node: ast.AST) -> set[str]:
    strings = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            strings.add(part.value)
    return strings


def hidden_names(top: Path) -> set[str]:
    """Rule 5: nothing that harness.py imports names the evaluation half, except the loader.

    ``tests/test_leaks.py`` runs the harness and looks for the values; this looks for the names.
    """
    violations = set()
    for relative in closure(top, "harness.py"):
        if not relative.startswith(LOADER):
            for name in HIDDEN & _words(tree(top / relative)):
                violations.add(f"{relative} names {name}")
    return violations


def closure(top: Path, script: str) -> set[str]:
    """Return the modules of this tree that a script imports, directly or not, at any time.

    What is done beside all runs is left out.
    """
    modules = set[str]()
    waiting = [script]
    while waiting:
        relative = waiting.pop()
        if relative not in modules and relative not in BESIDE_RUNS:
            modules.add(relative)
            names = imported_names(top / relative)
            # harness.py names the module that it starts, and a string may do so elsewhere.
            names.update(filter(DOTTED.fullmatch, _strings(tree(top / relative))))
            waiting += filter(None, (module_of(top, name) for name in names))
    return modules


def _words(module: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(module):
        for field in ("id", "attr", "value", "arg", "name"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                names.add(word)
    return names


def banned_words(top: Path) -> set[str]:
    """Rule 8: words that the project does not use, in texts, names and file names."""
    violations = set()
    for path in texts(top):
        relative = path.relative_to(top).as_posix()
        text = f"{relative}\n{join_text(path.read_text(encoding='utf-8'))}"
        text = re.sub("|".join(PUBLIC), "", text)
        for word in BANNED_WORD.findall(text):
            violations.add(f"{relative}: {word.lower()}")
    return violations


def texts(top: Path) -> Iterator[Path]:
    """Yield the texts of source, tests and documents."""
    paths = sorted(top.glob("*"))
    for folder in (*TREES, *ABOVE_ALL, "docs", "exercises/docs"):
        paths += sorted((top / folder).rglob("*"))
    for path in paths:
        relative = path.relative_to(top).as_posix()
        is_text = path.suffix in TEXTS and path.is_file()
        if is_text and not relative.startswith((".", *NOT_READ)):
            yield path


def join_text(text: str) -> str:
    """Join what lines, comments and adjacent strings break, and split names of classes."""
    text = re.sub(r"""["']\s*\n\s*(#\s*)?f?["']|\n\s*(#\s*)?""", " ", text)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[ \t]+", " ", text))


def stale_paths(top: Path) -> set[str]:
    """Documents name files that exist; the changelog names those of its time."""
    violations = set()
    for path in _documents(top):
        text = path.read_text(encoding="utf-8")
        names = [match.group() for match in PATH.finditer(text)]
        for name in names + MODULE.findall(text):
            if not (top / name).exists() and not module_of(top, name):
                violations.add(f"{path.relative_to(top).as_posix()} names {name}")
    return violations


def skipped_formatting(top: Path) -> set[str]:
    """Rule 7: only tables of data are formatted by hand."""
    violations = set()
    for name, path in sources(top, *SCRIPTS, *TREES, *ABOVE_ALL):
        tables = {node.end_lineno for node in _tables(tree(path))}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if SKIP_MARK.search(line) and number not in tables:
                violations.add(f"{name}:{number}")
    return violations


def _tables(module: ast.Module) -> Iterator[ast.expr]:
    """Yield the tables of a module: displays of constants and names.

    They are values of names of a module or a class, and arguments of a test's decorators.
    """
    for node in ast.walk(module):
        values: list[ast.expr] = []
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    values += filter(None, [statement.value])
        if isinstance(node, ast.FunctionDef):
            values += node.decorator_list
        for value in values:
            arguments = value.args if isinstance(value, ast.Call) else [value]
            parts: list[ast.AST] = []
            for argument in arguments:
                parts += ast.walk(argument)
            has_display = any(isinstance(argument, DISPLAYS) for argument in arguments)
            if has_display and all(isinstance(part, DATA) for part in parts):
                yield value


def unmet_goals(top: Path) -> set[str]:
    """Rule 6: the form of all rooms together keeps its goals, and that of the exercises."""
    total = Figures()
    for room in ROOMS:
        total.add(measure(top / room))
    violations = _unmet_by(total)
    for name in _unmet_by(measure(top / EXERCISES)):
        violations.add(f"exercises: {name}")
    return violations


def _unmet_by(total: Figures) -> set[str]:
    reached = {
        "tokens per statement": total.per_statement,
        "conditional expressions": total.per_1000_statements("conditionals"),
        "comprehensions": total.per_1000_statements("comprehensions"),
        "tuple assignments": total.per_1000_statements("tuples"),
        "filler names": total.per_1000_lines("filler"),
        "participles": total.participles,
        "split signatures": total.split,
    }
    return {name for name, goal in GOALS.items() if reached[name] > goal}


def crowded_rooms(top: Path) -> set[str]:
    """Rule 6: a room has at most the tokens that it is given."""
    violations = set()
    for room, bound in {**ROOM_TOKENS, EXERCISES: EXERCISES_TOKENS}.items():
        tokens = measure(top / room).tokens
        if tokens > bound:
            violations.add(f"{room} has {tokens} tokens, at most {bound} are allowed")
    return violations


def unknown_names(top: Path) -> set[str]:
    """Documents name classes, functions and fields that the code has.

    A name before the path of a module in parentheses is a word of that module. Other names of
    documents for developers are words of the code, and so are names of classes everywhere.
    """
    words: set[str] = set()
    for path in [*texts(top), *(top / "tests").glob("architecture*")]:
        if path.suffix != ".md":
            words.update(WORD.findall(path.read_text(encoding="utf-8")))
    violations = set()
    for path in _documents(top):
        relative = path.relative_to(top).as_posix()
        text = path.read_text(encoding="utf-8")
        for name in {span.removesuffix("()") for span in CODE_NAME.findall(text)}:
            is_ours = relative in FOR_DEVELOPERS or CLASS_NAME.fullmatch(name)
            if is_ours and name not in words and not hasattr(builtins, name):
                violations.add(f"{relative} names {name}")
        for name, module in NAME_IN_MODULE.findall(text):
            if name not in WORD.findall((top / module).read_text(encoding="utf-8")):
                violations.add(f"{relative} names {name} of {module}")
    return violations


def _documents(top: Path) -> list[Path]:
    documents = [top / "README.md", top / "CONTRIBUTING.md"]
    documents += sorted((top / "docs").rglob("*.md"))
    documents += sorted((top / "exercises/docs").rglob("*.md"))
    return [path for path in documents if path.is_file()]


RULES: dict[str, Callable[[Path], set[str]]] = {
    "1 imports": upward_imports,
    "1 one package": bare_imports,
    "1 circles": circles,
    "2 sizes": sizes,
    "3 class names": shared_names,
    "4 one place": repeated_facts,
    "5 evaluation half": hidden_names,
    "6 form": unmet_goals,
    "6 size": crowded_rooms,
    "7 formatting": skipped_formatting,
    "8 words": banned_words,
    "documents": stale_paths,
    "names in documents": unknown_names,
}


def main() -> None:
    """Print the violations, as architecture.json has them."""
    content: dict[str, object] = {}
    for name, rule in RULES.items():
        violations = rule(TOP)
        if violations:
            content[name] = sorted(violations)
    print(json.dumps(content, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
