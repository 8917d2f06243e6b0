"""Coding agents are installed by the real npm and uv, from small registries of the tests."""

from __future__ import annotations

import io
import json
import platform
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from swe_retry.agent.named import named_agent
from swe_retry.agent.named.description import NamedAgent
from swe_retry.agent.named.installed import (
    NODE,
    cached_agent,
    find_agent,
    install_agent,
)
from swe_retry.cli.listing import list_agents
from swe_retry.core.errors import InfrastructureError, UserError

REAL_NODE = shutil.which("node")
needs_npm = pytest.mark.skipif(
    not (shutil.which("npm") and REAL_NODE), reason="npm is not installed"
)
ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
NODE_PACKAGE = f"node-{platform.system().lower()}-{ARCHITECTURE}"
pytestmark = pytest.mark.system
SCRIPT = "#!/usr/bin/env node\nconsole.log(process.env.NODE_NAME)\n"
# A node that is the real one, and says its package's version in a variable.
FAKE_NODE = f'#!/bin/sh\nNODE_NAME={{}} exec {REAL_NODE} "$@"\n'


def agent(name: str) -> NamedAgent:
    known = named_agent(name)
    assert known
    return known


def tarball(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.mode = 0o755
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


def npm_package(
    name: str, version: str, file: str, text: str, engines: str = "*"
) -> tuple[dict[str, Any], bytes]:
    program = name.rpartition("/")[2]
    manifest = {
        "name": name,
        "version": version,
        "engines": {"node": engines},
        "bin": {program: file},
    }
    return manifest, tarball({"package.json": json.dumps(manifest), file: text})


PACKAGES = [
    npm_package(NODE_PACKAGE, NODE, "bin/node", FAKE_NODE.format("tested")),
    npm_package(NODE_PACKAGE, "99.0.0", "bin/node", FAKE_NODE.format("newest")),
    npm_package("@openai/codex", agent("codex").tested, "bin/codex.js", SCRIPT),
    npm_package("@openai/codex", "0.2.0", "bin/codex.js", SCRIPT),
    npm_package("@openai/codex", "0.99.0", "bin/codex.js", SCRIPT, ">=900"),
    npm_package(
        "@aaif/goose-binary-linux-x64",
        "1.0.0",
        "bin/goose",
        "#!/bin/sh\necho goose 1.0.0\n",
    ),
]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    files: dict[str, bytes] = {}
    documents: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path).strip("/")
            body = files.get(path)
            if path in documents:
                body = json.dumps(documents[path]).encode()
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    for manifest, archive in PACKAGES:
        name = manifest["name"]
        version = manifest["version"]
        path = f"files/{name}-{version}.tgz"
        files[path] = archive
        document = documents.setdefault(
            name, {"name": name, "dist-tags": {}, "versions": {}}
        )
        document["versions"][version] = {
            **manifest,
            "dist": {"tarball": f"{url}/{path}"},
        }
        document["dist-tags"]["latest"] = version
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("npm_config_registry", url)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    yield
    server.shutdown()
    server.server_close()


def output(program: Path) -> str:
    # As in a project whose PATH has no node.
    return subprocess.check_output(
        [str(program)], text=True, env={"PATH": "/nowhere"}
    ).strip()


@needs_npm
def test_npm_installs_the_tested_version_beside_its_node(
    registry: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = agent("codex")
    cache = tmp_path / "cache"
    made = install_agent(codex, "", cache)
    assert made.version == codex.tested
    assert output(made.program) == "tested"
    assert find_agent(codex, cache) == made
    older = install_agent(codex, "0.2.0", cache)
    assert find_agent(codex, cache).version == "0.2.0"
    with monkeypatch.context() as patch:
        patch.setenv("npm_config_registry", "http://127.0.0.1:9")
        assert install_agent(codex, "", cache) == made, "nothing is fetched twice"
    assert output(older.program) == "tested", "and the other version is left"
    with pytest.raises(InfrastructureError, match="EBADENGINE"):
        install_agent(codex, "0.99.0", cache)
    assert find_agent(codex, cache) == made
    newest = cache / "agents/codex/0.99.0/node_modules" / NODE_PACKAGE
    assert json.loads((newest / "package.json").read_text())["version"] == "99.0.0"
    with pytest.raises(InfrastructureError, match=r"codex@7\.0"):
        install_agent(codex, "7.0", cache)
    with pytest.raises(UserError, match=r"give a version, as codex@\d"):
        install_agent(codex, "../x", cache)


@needs_npm
def test_a_program_may_have_another_name_in_its_package(
    registry: None, tmp_path: Path
) -> None:
    goose = install_agent(agent("goose"), "1.0.0", tmp_path)
    assert goose.program.name == "goose"
    assert output(goose.program) == "goose 1.0.0"


def wheel(folder: Path, name: str, version: str, code: str = "") -> None:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(
        folder / f"{module}-{version}-py3-none-any.whl", "w"
    ) as archive:
        archive.writestr(f"{module}.py", code)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        if code:
            archive.writestr(
                f"{info}/entry_points.txt",
                f"[console_scripts]\nmini = {module}:main\n",
            )
        archive.writestr(f"{info}/RECORD", "")


def test_uv_installs_an_agent_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    mini = agent("mini-swe-agent")
    code = "def main():\n    import mcp\n    print('mini', mcp.__name__)\n"
    wheel(wheels, "mini-swe-agent", mini.tested, code)
    wheel(wheels, "mcp", "1.0")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    made = install_agent(mini, "", tmp_path)
    # A sandbox shows it read-only, so that no start could keep what it compiles.
    assert list(tmp_path.rglob("__pycache__/mini_swe_agent.*.pyc"))
    assert (made.version, output(made.program)) == (mini.tested, "mini mcp")


def test_an_agent_that_gave_up_says_why_in_words() -> None:
    # The end of the output of mini-swe-agent 2.4.6 after three replies without a command.
    output = "Exit:\n{}\nSaved trajectory to '/dev/null'\n"
    mini = agent("mini-swe-agent")
    end = mini.own_end("User:\n" + output.format("RepeatedFormatError"))
    assert end == (
        "the agent gave up: three replies in a row had no command that it could run"
    )
    assert "limit of steps" in mini.own_end(output.format("LimitsExceeded"))
    assert mini.own_end(output.format("the text of its submission")) == ""
    assert agent("codex").own_end(output.format("RepeatedFormatError")) == ""


def test_an_agent_in_path_is_used_where_it_is_asked_for_or_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = agent("codex")
    cache = tmp_path / "cache"
    program = tmp_path / "bin/codex"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$OPENAI_API_KEY" ] || echo "codex-cli 0.1.0"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    in_path = find_agent(codex, cache)
    assert (in_path.version, in_path.program) == ("0.1.0", program)
    folder = cache / "agents/codex/0.3.0"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/codex").symlink_to(program)
    assert cached_agent(codex, cache) is None, "it was not finished"
    (folder.parent / "current").symlink_to("0.3.0")
    assert find_agent(codex, cache).version == "0.3.0"
    assert find_agent(codex, cache, from_path=True) == in_path
    lines: list[str] = []
    list_agents(["codex"], lines.append, cache)
    assert lines[-1].split()[:3] == ["codex", "0.3.0", "0.1.0"]
    program.unlink()
    with pytest.raises(UserError, match=r"run `harness\.py install codex`"):
        find_agent(codex, cache)
