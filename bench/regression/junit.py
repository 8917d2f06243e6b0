"""Results per test from pytest's report file, which the output of tests cannot change. Pure.

pytest writes the report outside the tree under a random name. Once it has ended, a line with this
name and the report are printed. Code in pytest's process could still find the file: see
docs/environments.md.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Sequence

from bench.regression.runners.base import PASSED, XFAIL, worst
from bench.regression.runners.documents import XML_STATUSES, cases_of

_SCRIPT = """{command} --junitxml=/tmp/{token}.xml
code=$?{show}
printf '\\n%s\\n' {token}
cat /tmp/{token}.xml 2>/dev/null
rm -f /tmp/{token}.xml
exit $code"""
# Reports of an earlier build may lie in the image.
_SCRIPT_OF_MANY = """: >/tmp/{token}
{command}
code=$?{show}
printf '\\n%s\\n' {token}
find . \\( -path '*/surefire-reports/TEST-*.xml' -o -path '*/failsafe-reports/TEST-*.xml' \
-o -path '*/build/test-results/*.xml' \\) -newer /tmp/{token} -exec cat {{}} + 2>/dev/null
rm -f /tmp/{token}
exit $code"""
_XFAIL = "pytest.xfail"
_OLD_XFAIL = "expected test failure"  # pytest before 4.1 gives no type, and this message


def with_report(command: str, token: str, show: Sequence[str] = ()) -> str:
    """Return shell lines that run a pytest ``command``, print its report and exit with its code.

    The lines ``show`` run in between.
    """
    return _SCRIPT.format(command=command, token=token, show=_lines(show))


def _lines(show: Sequence[str]) -> str:
    return "".join(f"\n{line}" for line in show)


def with_reports(command: str, token: str, show: Sequence[str] = ()) -> str:
    """Return shell lines that run ``command`` and print the reports that Maven or Gradle wrote.

    They are read with ``split_report`` as well.
    """
    return _SCRIPT_OF_MANY.format(command=command, token=token, show=_lines(show))


def split_report(output: str, token: str) -> tuple[str, str]:
    """Split the output of ``with_report`` into pytest's output and the report, empty if missing.

    The line in which pytest names the report is removed, because it differs in each run.
    """
    before, found, after = output.rpartition(f"\n{token}\n")
    log, report = (before, after.strip()) if found else (output, "")
    return "".join(line for line in log.splitlines(keepends=True) if token not in line), report


def report_results(report: str, files: Collection[str]) -> dict[str, str]:
    """Return swebench's status per node id; empty for an incomplete report.

    ``files`` are those of the tree: the report does not say where the name of a file ends.
    """
    # Files by their names in the report: ``tests.test_a``, and ``docs.a.txt`` for doctests.
    modules = {path.replace("/", "."): path for path in files}
    modules |= {p.removesuffix(".py").replace("/", "."): p for p in files if p.endswith(".py")}
    found: list[tuple[str, str]] = []
    for case in cases_of(report):
        name = _node_id(case.get("classname", ""), case.get("name", ""), modules)
        if name:  # the test that pytest.exit or an interrupt ended has none
            statuses = [_status(child) for child in case if child.tag in XML_STATUSES]
            found += [(name, status) for status in statuses or [PASSED]]
    return worst(found)


def _status(child: ElementTree.Element) -> str:
    kind = child.get("type")
    expected = kind == _XFAIL or (kind is None and child.get("message") == _OLD_XFAIL)
    return XFAIL if child.tag == "skipped" and expected else XML_STATUSES[child.tag]


def _node_id(classname: str, name: str, modules: dict[str, str]) -> str:
    """Return ``tests/test_a.py::TestX::test_b[1]`` for ``tests.test_a.TestX`` and ``test_b[1]``."""
    if not classname:
        return modules.get(name, name)  # a file that cannot be imported
    module, classes = classname, list[str]()
    while module and module not in modules:
        module, _, last = module.rpartition(".")
        if last != "()":  # pytest before 4.0 counts the instance of a nested class
            classes.insert(0, last)
    return "::".join([modules[module], *classes, name] if module else [classname, name])
