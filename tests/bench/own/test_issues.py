"""Issues from texts, files and a real server on loopback that may be hostile."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench.own import issues
from bench.own.issues import Issue, read_issue
from core.errors import InfrastructureError, UserError

TOKEN = "ghp_of-the-test"
GITEA = "/api/v1/repos/o/r/issues/5"
GITHUB = "/repos/o/r/issues/5"
GITLAB = "/api/v4/projects/group%2Fsub%2Fproject/issues/5"
POST = {"title": "It fails", "body": "How:\r\n\r\n    f(1)", "user": {"login": "ann"}}


def comment(name: str, body: str | None) -> dict[str, Any]:
    return {"user": {"login": name, "id": 1}, "body": body}


class Server:
    """Answers by path with a value as JSON, bytes, a status with headers, or what a call says."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *args: Any) -> None:
        self.table = server
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.table.asked.append((self.path, dict(self.headers)))
        path, _, query = self.path.partition("?")
        known = self.table.answers
        found = known.get(f"{path}?{query}", known.get(path, (404, {}, {"message": "no"})))
        if callable(found):
            found(self)
            return
        status, headers, value = found if isinstance(found, tuple) else (200, {}, found)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def make_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Server]]:
    for name in ("GITHUB_SERVER_URL", "GITHUB_API_URL", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made: list[Server] = []

    def make() -> Server:
        made.append(Server())
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


@pytest.fixture
def server(make_server: Callable[[], Server]) -> Server:
    made = make_server()
    made.answers = {GITEA: POST, f"{GITEA}/comments": []}
    return made


@pytest.fixture
def github(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("GITHUB_SERVER_URL", server.url)
    monkeypatch.setenv("GITHUB_API_URL", f"{server.url}/")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    server.answers = {GITHUB: POST, f"{GITHUB}/comments": []}
    return server


def read(given: str, stdin: str = "") -> Issue:
    return read_issue(given, io.StringIO(stdin))


def error_of(given: str, stdin: str = "") -> str:
    """Return the one line of the error that ``given`` causes."""
    with pytest.raises((UserError, InfrastructureError)) as caught:
        read(given, stdin)
    line = str(caught.value)
    assert line.startswith("--issue"), line
    assert "\n" not in line
    return line


def test_a_text_is_an_issue() -> None:
    issue = read("# f fails for 1.5\r\n\r\nSee https://host/o/r/issues/5 and a/b.py.\n")
    assert issue == Issue(
        text="# f fails for 1.5\n\nSee https://host/o/r/issues/5 and a/b.py.",
        title="f fails for 1.5",
    )
    assert (issue.number, issue.repo, issue.url, issue.note) == (None, "", "", "")
    assert read("crash").text == "crash"
    assert read("x " * 5000).title.endswith("…")
    assert read("a\0b \udcff c").text == "ab ? c"


def test_standard_input_and_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("-", "\ufeffIt fails\nbadly\n").text == "It fails\nbadly"
    path = tmp_path / "some issue.md"
    path.write_bytes("\ufeffÄ fails\n".encode())
    assert read(str(path)).text == "Ä fails"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("from the file")
    assert read("plain").text == "from the file"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "--issue: the text is empty"),
        (" \n", "the text is empty"),
        ("-", "standard input is empty"),
        ("gone.md", "--issue gone.md: there is no such file"),
        ("docs/gone", "there is no such file"),
        ("ssh://u:secret@h/x", "--issue ssh://***@h/x: there is no such file"),
        (".", "cannot be read (Is a directory)"),
        ("https://github.com/o/r", "is no issue; give an issue, as https://github.com/"),
        ("https://github.com/o/r/pull/5/files", "is a pull request; give an issue"),
        ("https://gitlab.com/g/o/r/-/merge_requests/5", "is a pull request"),
        ("https://github.com/../r/issues/5", "is no issue"),
        ("https://u:secret@github.com/o/r", "--issue https://***@github.com/o/r: is no issue"),
        ("https://", "give an address"),
        ("http://[::1/o/r/issues/5", "give an address"),
        ("x" * (1 << 20) + " y", "is larger than 1 MiB"),
    ],
)
def test_what_is_no_issue_is_named(given: str, words: str) -> None:
    line = error_of(given)
    assert words in line
    assert "secret" not in line


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    for name, data in {"empty": b"", "bytes": b"\xff\xfe\0", "large": b"a" * (2 << 20)}.items():
        (tmp_path / name).write_bytes(data)
    assert "the file is empty" in error_of(str(tmp_path / "empty"))
    assert "is not UTF-8" in error_of(str(tmp_path / "bytes"))
    assert "larger than 1 MiB" in error_of(str(tmp_path / "large"))
    wrong = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    with pytest.raises(UserError, match="standard input is not text"):
        read_issue("-", wrong)


def test_gitea_gives_the_issue_with_the_comments_of_its_author(server: Server) -> None:
    said = [comment("ann", "Also f(2)."), comment("bob", "Fix: return 3"), comment("ann", None)]
    server.answers[f"{GITEA}/comments"] = said
    for more in ("", "/", "?x=1#issuecomment-7"):
        issue = read(f"{server.url}/o/r/issues/5{more}")
        assert issue.text == "It fails\n\nHow:\n\n    f(1)\n\nAlso f(2)."
        assert (issue.title, issue.number, issue.repo) == ("It fails", 5, "o/r")
        assert issue.url == f"{server.url}/o/r/issues/5"
    server.answers[GITEA] = {**POST, "body": None, "user": None}
    assert read(f"{server.url}/o/r/issues/5").text == "It fails"


def test_a_server_below_a_folder_and_one_of_github_enterprise(server: Server) -> None:
    server.answers = {f"/git{GITEA}": POST, f"/git{GITEA}/comments": []}
    assert read(f"{server.url}/git/o/r/issues/5").repo == "o/r"
    server.answers = {f"/api/v3{GITHUB}": POST, f"/api/v3{GITHUB}/comments": []}
    assert read(f"{server.url}/o/r/issues/5").title == "It fails"


def test_gitlab_gives_the_issue_with_the_notes_of_its_author(server: Server) -> None:
    server.answers[GITLAB] = {"title": "T", "description": "D", "author": {"username": "ann"}}
    notes = [
        {"body": "more", "author": {"username": "ann"}, "system": False},
        {"body": "closed", "author": {"username": "ann"}, "system": True},
        {"body": "fix", "author": {"username": "bob"}, "system": False},
    ]
    server.answers[f"{GITLAB}/notes"] = notes
    issue = read(f"{server.url}/group/sub/project/-/issues/5")
    assert (issue.text, issue.repo, issue.note) == ("T\n\nD\n\nmore", "group/sub/project", "")
    assert "sort=asc" in server.paths[-1]
    server.answers[f"{GITLAB}/notes"] = (401, {}, {})
    issue = read(f"{server.url}/group/sub/project/-/issues/5")
    assert issue.text == "T\n\nD"
    assert "its comments were not read: they need a login" in issue.note


def test_all_pages_are_read_and_only_the_query_of_the_next_counts(
    server: Server, make_server: Callable[[], Server]
) -> None:
    other, base = make_server(), f"{GITEA}/comments"
    link = {"Link": f'<{other.url}{base}?page=2>; rel="next", <x>; rel="last"'}
    server.answers[base] = (200, link, [comment("ann", "one")])
    server.answers[f"{base}?page=2"] = [comment("ann", "two")]
    assert read(f"{server.url}/o/r/issues/5").text.endswith("one\n\ntwo")
    assert not other.asked


def test_pages_without_end_are_left(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issues, "_MOST_PAGES", 4)
    server.answers[f"{GITEA}/comments"] = (200, {"Link": '<?page=2>; rel="next"'}, [])
    assert "only 4 pages of comments were read" in read(f"{server.url}/o/r/issues/5").note
    assert len(server.asked) == 5


def test_the_token_goes_to_the_api_of_github_alone(
    github: Server, make_server: Callable[[], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(f"{github.url}/o/r/issues/5").title == "It fails"
    assert [headers["Authorization"] for _, headers in github.asked] == [f"Bearer {TOKEN}"] * 2
    other = make_server()
    other.answers = {GITEA: POST, f"{GITEA}/comments": []}
    other.answers |= {GITLAB: POST, f"{GITLAB}/notes": []}
    read(f"{other.url}/o/r/issues/5")
    read(f"{other.url}/group/sub/project/-/issues/5")
    github.answers[GITHUB] = (301, {"Location": f"{other.url}{GITEA}"}, {})
    assert f"leads to {other.url.rpartition(':')[0]}" in error_of(f"{github.url}/o/r/issues/5")
    assert len(other.asked) == 4
    assert not [headers for _, headers in other.asked if TOKEN in str(headers)]
    # A server of GitHub without an address of its API.
    monkeypatch.delenv("GITHUB_API_URL")
    github.answers = {f"/api/v3{GITHUB}": POST, f"/api/v3{GITHUB}/comments": []}
    assert read(f"{github.url}/o/r/issues/5").number == 5


def test_a_login_in_the_address_is_sent_and_not_shown(server: Server) -> None:
    host = server.url.removeprefix("http://")
    issue = read(f"http://me:secret@{host}/o/r/issues/5")
    assert issue.url == f"{server.url}/o/r/issues/5"
    assert all(headers["Authorization"].startswith("Basic ") for _, headers in server.asked)
    server.answers[GITEA] = (401, {}, {})
    assert "secret" not in error_of(f"http://me:secret@{host}/o/r/issues/5")


def test_a_moved_issue_is_followed_on_its_server(github: Server) -> None:
    moved = "/repositories/7/issues/5"
    github.answers[GITHUB] = (301, {"Location": f"{github.url}{moved}"}, {})
    github.answers[moved] = POST
    assert read(f"{github.url}/o/r/issues/5").title == "It fails"
    github.answers[moved] = (302, {"Location": moved}, {})
    assert "too many redirects" in error_of(f"{github.url}/o/r/issues/5")


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ((404, {}, {}), UserError, "there is no such issue, or it is not public (HTTP 404)"),
        ((403, {}, {}), UserError, "(HTTP 403); give its text, or set GITHUB_TOKEN"),
        ((429, {}, {}), UserError, "or fewer requests (HTTP 429)"),
        ((500, {}, {}), InfrastructureError, "the server answers HTTP 500"),
        ((204, {}, {}), InfrastructureError, "the server answers HTTP 204"),
        (b"<html>", InfrastructureError, "not that of a known server of issues: line 1"),
        (b"\xff", InfrastructureError, "it is not UTF-8"),
        (b"[" * 10_000, InfrastructureError, "nested more than"),
        ([], InfrastructureError, "not that of a known server"),
        ({"message": "hello"}, InfrastructureError, "'title': Field required"),
        ({**POST, "title": 7}, InfrastructureError, "'title': Input should be a valid string"),
        ({**POST, "user": "ann"}, InfrastructureError, "'user': Input should be"),
        ({**POST, "title": " ", "body": ""}, UserError, "the issue is empty"),
        ({**POST, "body": "x" * (2 << 20)}, UserError, "the issue is larger than 1 MiB"),
        ({**POST, "body": "x" * (5 << 20)}, InfrastructureError, "is larger than 4 MiB"),
        ({**POST, "pull_request": {"url": "x"}}, UserError, "is a pull request"),
        (lambda handler: None, InfrastructureError, "cannot be read"),
        (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), InfrastructureError, "cannot be"),
        ((301, {"Location": "http://[x"}, {}), UserError, "leads to http://"),
    ],
)
def test_a_server_that_does_not_help_is_one_line(
    server: Server, answer: object, kind: type[Exception], words: str
) -> None:
    server.answers[GITEA] = answer
    with pytest.raises(kind):
        read(f"{server.url}/o/r/issues/5")
    line = error_of(f"{server.url}/o/r/issues/5")
    assert line.startswith(f"--issue {server.url}/o/r/issues/5: ")
    assert words in line


def test_a_slow_server_and_a_missing_one_are_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issues, "_TIMEOUT", 0.3)
    server.answers[GITEA] = lambda _: time.sleep(2)
    assert "cannot be read: timed out" in error_of(f"{server.url}/o/r/issues/5")

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(40):
            handler.wfile.write(b" ")
            time.sleep(0.1)

    server.answers[GITEA] = drip
    monkeypatch.setattr(issues, "_ALL_SECONDS", 0.5)
    assert "took longer than" in error_of(f"{server.url}/o/r/issues/5")
    server.server.shutdown()
    server.server.server_close()
    assert "cannot be read" in error_of(f"{server.url}/o/r/issues/5")


def test_a_token_that_no_header_can_hold_is_not_shown(
    github: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\nX: y")
    with pytest.raises(UserError, match="GITHUB_TOKEN: has characters") as caught:
        read(f"{github.url}/o/r/issues/5")
    assert TOKEN not in str(caught.value)
    assert not github.asked
