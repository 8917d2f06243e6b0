from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swe_retry.core.git import git
from swe_retry.demo.setup import commit_all
from swe_retry.environments.docker.engine import connect
from tests.support import add_files, write_files

BASE = "a" * 40
GOLD = "c0ffee" * 6 + "dead"
STATEMENT = "Adding is wrong\nIt subtracts."
FILE = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old\n+{1}\n"
PATCH = FILE.format("core.py", "ZQHIDDEN_GOLD")
TESTS = FILE.format("tests/ZQHIDDEN_TESTS.py", "ZQHIDDEN_TEST")
COMMON = {
    "instance_id": "own__thing-1",
    "repo": "own/thing",
    "base_commit": BASE,
    "problem_statement": STATEMENT,
    "patch": PATCH,
    "test_patch": TESTS,
    "hints_text": "ZQHIDDEN_HINT",
    "FAIL_TO_PASS": ["tests/ZQHIDDEN_TESTS.py::test_f2p"],
    "PASS_TO_PASS": ["tests/test_core.py::ZQHIDDEN_P2P"],
    "created_at": "2024-05-23T12:00:00Z",
}
SCRIPT = f"""cd /testbed
git checkout 123 tests/ZQHIDDEN_TESTS.py
git apply - <<'EOF_1'
{TESTS}EOF_1
: '>>>>> Start Test Output'
python -m pytest -rA tests/ZQHIDDEN_TESTS.py
: '>>>>> End Test Output'
"""
CLASSIC = {
    **COMMON,
    "version": "1.0",
    "eval_script": SCRIPT,
    "image": "own/thing:latest",
}
MULTIMODAL = {
    **CLASSIC,
    "image_assets": {
        "problem_statement": ["https://example.org/a.png"],
        "patch": [
            {"path": "ZQHIDDEN_ASSET", "url": "https://example.org/ZQHIDDEN.png"}
        ],
        "test_patch": None,
    },
}
_LIVE = {
    **COMMON,
    "pull_number": "ZQHIDDEN_PULL",
    "issue_numbers": ["ZQHIDDEN_ISSUE"],
    "all_hints_text": "ZQHIDDEN_HINTS",
    "commit_urls": ["https://github.com/own/thing/commit/ZQHIDDEN"],
    "commit_url": "https://github.com/own/thing/tree/ZQHIDDEN",
    "test_cmds": ["pytest -rA"],
    "log_parser": "pytest",
}
MULTILANG = {
    **_LIVE,
    "rebuild_cmds": ["cargo build"],
    "test_cmds": ["cd sub", "cargo test > out.log"],
    "print_cmds": ["cat out.log"],
    "log_parser": "def parser(log):\n    return {'a': 'pass'}\n",
    "docker_image": "starryzhang/sweb.eval.x86_64.own_1776_thing-1",
}
REBENCH = {
    **COMMON,
    "version": "1.0",
    "install_config": {
        "python": "3.9",
        "install": "pip install -e .[dev]",
        "pre_install": None,
        "test_cmd": "pytest --no-header -rA",
        "log_parser": "parse_log_pytest",
    },
    "docker_image": "swerebench/sweb.eval.x86_64.own_1776_thing-1",
}
REBENCH_V2 = {
    **COMMON,
    "instance_id": "own__thing-c-1",
    "repo": "Own/Thing-C",
    "created_at": 1609298073000,
    "pr_description": "ZQHIDDEN_PR",
    "interface": "ZQHIDDEN_INTERFACE",
    "language": "c",
    "meta": {"llm_metadata": [{"reasoning": "ZQHIDDEN_META"}]},
    "install_config": {
        "base_image_name": "c:latest",
        "docker_specs": None,
        "install": ["apt-get update", "./bootstrap"],
        "test_cmd": ["make", "make check"],
        "log_parser": "parse_log_ctest",
    },
    "image_name": "docker.io/swerebenchv2/own-thing-c:1-aaaaaaa",
}
GYM = {
    **COMMON,
    "instance_id": "Project-MONAI__MONAI-1",
    "repo": "Project-MONAI/MONAI",
    "version": "1.0",
}
SMITH = {
    "instance_id": "own__thing.1fd52536.func_basic__abc",
    "repo": "swesmith/own__thing.1fd52536",
    "base_commit": BASE,
    # The reverse is the fix: what the bug removed is gold.
    "patch": FILE.format("core.py", "the bug").replace("-old", "-ZQHIDDEN_GOLD"),
    "FAIL_TO_PASS": ["tests/test_core.py::ZQHIDDEN_F2P"],
    "PASS_TO_PASS": ["tests/test_core.py::ZQHIDDEN_P2P"],
    "created_at": "2025-01-01",
    "image_name": "jyangballin/swesmith.x86_64.own_1776_thing.1fd52536",
    "problem_statement": STATEMENT,
}
PRO = {
    "instance_id": f"instance_Own__Thing-{GOLD}-vnan",
    "repo": "Own/Thing",
    "base_commit": BASE,
    "problem_statement": STATEMENT,
    "requirements": "- Add.",
    "interface": "None.",
    "patch": PATCH,
    "test_patch": TESTS,
    "fail_to_pass": "['tests/ZQHIDDEN_TESTS.py | it\\'s f2p']",
    "pass_to_pass": "['ZQHIDDEN_P2P']",
    "selected_test_files_to_run": "['tests/ZQHIDDEN_TESTS.py']",
    "before_repo_set_cmd": f"git reset --hard {BASE}\ngit checkout {GOLD} -- tests/ZQHIDDEN.py",
    "dockerhub_tag": f"own.thing-Own__Thing-{GOLD}",
    "repo_language": "python",
    "issue_categories": "ZQHIDDEN_CATEGORY",
}
MULTI = {
    "org": "Own",
    "repo": "thing",
    "number": 12,
    "state": "closed",
    "title": "ZQHIDDEN_TITLE",
    "body": "ZQHIDDEN_BODY",
    "base": {"label": "own:main", "ref": "main", "sha": BASE},
    "resolved_issues": [
        {"number": 11, "title": "Adding is wrong", "body": "It subtracts."},
        {"number": 10, "title": "second", "body": "second"},
    ],
    "fix_patch": PATCH,
    "test_patch": TESTS,
    "lang": "golang",
    "hints": "ZQHIDDEN_HINT",
    "f2p_tests": {"ZQHIDDEN_F2P": {"run": "FAIL", "test": "FAIL", "fix": "PASS"}},
    "n2p_tests": {"ZQHIDDEN_N2P": {}},
    "p2p_tests": {"ZQHIDDEN_P2P": {}},
    "fixed_tests": {"ZQHIDDEN_F2P": {}},
    "run_result": {"passed_tests": ["ZQHIDDEN_RUN"]},
}
ROWS: dict[str, dict[str, Any]] = {
    "classic": CLASSIC,
    "multimodal": MULTIMODAL,
    "live": _LIVE,
    "multilang": MULTILANG,
    "rebench": REBENCH,
    "rebench-v2": REBENCH_V2,
    "gym": GYM,
    "smith": SMITH,
    "pro": PRO,
    "multi": MULTI,
    "own": {**COMMON, "version": "1.0", "own_repository": {"test": "pytest -rA"}},
}


FILES = {
    "core.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "tests/test_core.py": (
        "import os\n\nfrom core import double\n\n\n"
        "def test_double():\n    assert double(2) == 4\n\n\n"
        "def test_environment():\n"
        "    assert os.environ['HOME'] == os.environ.get('WANTED_HOME', '/harness/home')\n"
        "    assert os.environ.get('CONDA_DEFAULT_ENV', '') == os.environ.get('WANTED_ENV', '')\n"
    ),
    "tool.sh": "#!/bin/sh\n",
    "conftest.py": "",
}
FIXED = FILES["core.py"].replace("a - b", "a + b  # ZQHIDDEN_GOLD")
BROKEN = FILES["core.py"].replace("2 * a", "3 * a")
CORRECT = FILES["core.py"].replace("a - b", "a + b")
# What the sets' images have under this name, as far as it matters here.
_CONDA = "conda() { export CONDA_DEFAULT_ENV=$2; }\nexport WANTED_ENV=testbed\n"
_ACTIVATE = "opt/miniconda3/bin/activate"


def history(folder: Path) -> tuple[str, str]:
    """Make a repository with the base commit and the later fix; return both hashes.

    Its work tree is that of the fix.
    """
    write_files(folder, FILES)
    (folder / "link").symlink_to("core.py")
    base = commit_all(folder, "Begin")
    git("tag", "v1", cwd=folder)
    write_files(folder, {"core.py": FIXED, "ZQHIDDEN_NEW": "ZQHIDDEN"})
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "-m", "Fix ZQHIDDEN", cwd=folder)
    return base, git("rev-parse", "HEAD", cwd=folder).decode().strip()


@contextmanager
def built(
    name: str,
    folder: str,
    repository: Path,
    files: Mapping[str, str],
    *,
    keeps_home: bool,
) -> Iterator[None]:
    """Build the image ``name`` with ``repository`` at ``folder`` and other ``files``; remove it.

    Its entry point fails, so that nothing runs where it is used.
    """
    client: Any = connect()
    variables = "ENV PLAIN=1"
    if keeps_home:
        variables = "ENV WANTED_HOME=/root"
    dockerfile = (
        f"FROM python:3.11-slim\nCOPY root /\n{variables}\nRUN true >/root/.tool\n"
        'ENTRYPOINT ["/bin/false"]\n'
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(repository, f"root{folder}")
        add_files(
            archive,
            {
                "Dockerfile": dockerfile,
                f"root/{_ACTIVATE}": _CONDA,
                **{f"root/{path}": text for path, text in files.items()},
            },
            mode=0o755,
        )
    context.seek(0)
    client.images.build(
        fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True
    )
    try:
        yield
    finally:
        client.images.remove(name, force=True)
        client.close()


def mirror_of(repository: Path, target: Path) -> None:
    """Make a bare mirror of ``repository``."""
    target.parent.mkdir(parents=True, exist_ok=True)
    git("clone", "--quiet", "--bare", repository, target, cwd=target.parent)
    os.utime(target)
