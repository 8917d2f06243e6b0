"""Issues from texts, files and a real server on loopback that may be hostile."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.own import issues
from swe_retry.own.issues import Issue, read_issue

TOKEN = "ghp_of-the-test"
GITEA = "/api/v1/repos/o/r/issues/5"
GITHUB = "/repos/o/r/issues/5"
GITLAB = "/api/v4/projects/group%2Fsub%2Fproject/issues/5"
ANN = {"login": "ann"}
BOB = {"login": "bob"}
POST = {"title": "It fails", "body": "How:\r\n\r\n    f(1)", "user": ANN}
TEXT = "It fails\n\nHow:\n\n    f(1)"
# A status, headers and content.
Answer = tuple[int, dict[str, str], Any]


def comment(user: dict[str, str], body: str | None) -> dict[str, Any]:
    return {"user": {**user, "id": 1}, "body": body}


def status_only(code: int) -> Answer:
    return code, {}, {}


def moved_to(url: str) -> Answer:
    return 301, {"Location": url}, {}


class Server:
    """Answers by path with a value as JSON, bytes, a status with headers, or what a call says."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.issue = f"{self.url}/o/r/issues/5"
        thread = Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        thread.start()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *args: Any) -> None:
        self.table = server
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.table.requests.append((self.path, dict(self.headers)))
        path, _, query = self.path.partition("?")
        answers = self.table.answers
        answer: Any = (404, {}, {"message": "no"})
        for address in (path, f"{path}?{query}"):
            answer = answers.get(address, answer)
        if callable(answer):
            answer(self)
            return
        if not isinstance(answer, tuple):
            answer = (200, {}, answer)
        status, headers, data = answer
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def make_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Server]]:
    for name in ("SERVER_URL", "API_URL", "TOKEN", "ACTIONS"):
        monkeypatch.delenv(f"GITHUB_{name}", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    servers: list[Server] = []

    def make() -> Server:
        server = Server()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.server.shutdown()
        server.server.server_close()


@pytest.fixture
def server(make_server: Callable[[], Server]) -> Server:
    served = make_server()
    served.answers = {GITEA: POST, f"{GITEA}/comments": []}
    return served


@pytest.fixture
def github(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("GITHUB_SERVER_URL", server.url)
    monkeypatch.setenv("GITHUB_API_URL", f"{server.url}/")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    server.answers = {GITHUB: POST, f"{GITHUB}/comments": []}
    return server


def read(text: str, stdin: str = "") -> Issue:
    return read_issue(text, io.StringIO(stdin))


def error_of(text: str, kind: type[Exception] = UserError) -> str:
    """Return the one line of the error that ``text`` causes."""
    with pytest.raises(kind) as caught:
        read(text)
    line = str(caught.value)
    assert line.startswith("--issue"), line
    assert "\n" not in line
    return line


def test_a_text_is_an_issue() -> None:
    issue = read("# f fails for 1.5\r\n\r\nSee https://host/o/r/issues/5 and a/b.py.\n")
    text = "# f fails for 1.5\n\nSee https://host/o/r/issues/5 and a/b.py."
    assert issue == Issue(text=text, title="f fails for 1.5")
    assert issue.number is None
    assert issue.url == ""
    assert issue.note == ""
    assert read("crash").text == "crash"
    assert read("x " * 5000).title.endswith("…")
    assert read("a\0b \udcff c").text == "ab ? c"


def test_standard_input_and_files_are_read(tmp_path: Path) -> None:
    assert read("-", "\ufeffIt fails\nbadly\n").text == "It fails\nbadly"
    path = tmp_path / "some issue.md"
    path.write_bytes("\ufeffÄ fails\n".encode())
    assert read(str(path)).text == "Ä fails"


BY_ANN = {"title": "It fails", "body": "How:\r\n\r\n    f(1)"}
OF_SERVERS: list[tuple[dict[str, Any], str, int | None]] = [
    # gh issue view 5 --json title,body
    (BY_ANN, TEXT, None),
    (
        {
            **BY_ANN,
            "number": 5,
            "author": ANN,
            "comments": [
                {"author": ANN, "body": "Also f(2)."},
                {"author": BOB, "body": "Fix: return 3"},
            ],
        },
        f"{TEXT}\n\nAlso f(2).",
        5,
    ),
    # The answers of GitHub, Gitea and GitLab.
    ({**POST, "number": 5, "comments": 2}, TEXT, 5),
    (
        {
            "iid": 7,
            "title": "T",
            "description": None,
            "author": {"username": "x"},
        },
        "T",
        7,
    ),
]


def test_the_json_of_servers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "issue.json"
    for content, text, number in OF_SERVERS:
        line = json.dumps(content)
        lines = json.dumps(content, indent=1)
        for data in (line, f"\ufeff{lines}"):
            path.write_text(data, encoding="utf-8")
            for issue in (
                read(str(path)),
                read("-", data),
                read(data.lstrip("\ufeff")),
            ):
                assert issue.text == text
                assert issue.number == number
                assert issue.title == text.partition("\n")[0]


def test_other_json_is_a_text() -> None:
    for text in (
        '{"body": "x"}',
        '{"title": 7}',
        '{"title": ""}',
        "{broken",
        "[1, 2]",
    ):
        issue = read("-", text)
        assert issue == Issue(text=text, title=text)


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "[::1]", "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "localhost",
    "2130706433", "0x7f.1", "127.1",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
def test_an_address_that_is_not_public_is_refused_in_the_action(
    host: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.url.rpartition(":")[2]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for path in ("/o/r/issues/5", "/o/r/-/issues/5"):
        line = error_of(f"http://{host}:{port}{path}")
        assert line.endswith("its server is not public; give the text of the issue")
    assert not server.requests


def test_the_server_of_the_action_itself_may_be_private(
    github: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert read(github.issue).title == "It fails"


def test_a_name_is_not_resolved_twice(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name could lead to a public address when it is checked, and to another one later."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setattr(issues, "_is_public", lambda _: True)
    port = server.url.rpartition(":")[2]
    issue = read(f"http://localhost:{port}/o/r/issues/5")
    assert issue.title == "It fails"
    hosts = {headers["Host"] for _, headers in server.requests}
    assert hosts == {f"localhost:{port}"}


NO_ISSUES = {
    "": "--issue: is empty",
    "-": "--issue -: is empty",
    "gone.md": "--issue gone.md: there is no such file",
    "docs/gone": "there is no such file",
    "ssh://u:secret@h/x": "--issue ssh://***@h/x: there is no such file",
    ".": "cannot be read as UTF-8 of at most 1 MiB: [Errno 21]",
    "https://github.com/o/r": (
        "give an address as https://github.com/OWNER/NAME/issues/5"
    ),
    "https://github.com/o/r/pull/5/files": "give an address as",
    "https://github.com/../r/issues/5": "give an address as",
    "https://u:sec'ret@github.com/o/r/issues/5": "without login",
    "https://u:sec/ret@github.com/o/r/issues/5": "give an address",
    "http://[::1/o/r/issues/5": "give an address",
    "x" * (1 << 20) + " y": "is larger than 1 MiB",
}


def test_what_is_no_issue_is_named() -> None:
    for text, message in NO_ISSUES.items():
        line = error_of(text)
        assert message in line, text[:80]
        assert "sec" not in line


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    for data, message in (
        (b"", "is empty"),
        (b"\xff\xfe\0", "cannot be read as UTF-8"),
        (b"a" * (2 << 20), "larger than 1 MiB"),
    ):
        path = tmp_path / "issue"
        path.write_bytes(data)
        assert message in error_of(str(path))
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as UTF-8"):
        read_issue("-", stdin)


def test_gitea_gives_the_issue_with_the_comments_of_its_author(server: Server) -> None:
    comments = [
        comment(ANN, "Also f(2)."),
        comment(BOB, "Fix: return 3"),
        comment(ANN, None),
    ]
    server.answers[f"{GITEA}/comments"] = comments
    for suffix in ("", "/", "?x=1#issuecomment-7"):
        issue = read(server.issue + suffix)
        assert issue.text == f"{TEXT}\n\nAlso f(2)."
        assert issue.title == "It fails"
        assert issue.number == 5
        assert issue.url == server.issue
    server.answers[GITEA] = {**POST, "body": None, "user": None}
    server.answers[f"{GITEA}/comments"] = [
        {"user": None, "body": "of another deleted account"}
    ]
    assert read(server.issue).text == "It fails"


def test_gitlab_gives_the_issue_with_the_notes_of_its_author(server: Server) -> None:
    ann = {"username": "ann"}
    bob = {"username": "bob"}
    server.answers[GITLAB] = {"title": "T", "description": "D", "author": ann}
    server.answers[f"{GITLAB}/notes"] = [
        {"body": "more", "author": ann, "system": False},
        {"body": "closed", "author": ann, "system": True},
        {"body": "fix", "author": bob, "system": False},
    ]
    issue = read(f"{server.url}/group/sub/project/-/work_items/5")
    assert issue.text == "T\n\nD\n\nmore"
    assert issue.note == ""
    assert "sort=asc" in server.paths[-1]
    server.answers[f"{GITLAB}/notes"] = status_only(401)
    issue = read(f"{server.url}/group/sub/project/-/issues/5")
    assert issue.text == "T\n\nD"
    assert "comments were not read: the server wants a login" in issue.note


def test_all_pages_are_read_and_only_the_query_of_the_next_counts(
    server: Server, make_server: Callable[[], Server]
) -> None:
    other = make_server()
    base = f"{GITEA}/comments"
    link = {"Link": f'<{other.url}{base}?page=2>; rel="next", <x>; rel="last"'}
    server.answers[base] = (200, link, [comment(ANN, "one")])
    server.answers[f"{base}?page=2"] = [comment(ANN, "two")]
    issue = read(server.issue)
    assert issue.text.endswith("one\n\ntwo")
    assert issue.note == ""
    assert not other.requests


def test_pages_without_end_are_left(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issues, "_MAX_PAGES", 4)
    link = {"Link": '<?page=2>; rel="next"'}
    server.answers[f"{GITEA}/comments"] = (200, link, [])
    issue = read(server.issue)
    assert "only 4 pages of comments were read" in issue.note
    assert len(server.requests) == 5


def test_the_token_goes_to_the_api_of_github_alone(
    github: Server,
    make_server: Callable[[], Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(github.issue).title == "It fails"
    tokens = [headers["Authorization"] for _, headers in github.requests]
    assert tokens == [f"Bearer {TOKEN}"] * 2
    other = make_server()
    other.answers = {
        GITEA: POST,
        f"{GITEA}/comments": [],
        GITLAB: POST,
        f"{GITLAB}/notes": [],
    }
    read(other.issue)
    read(f"{other.url}/group/sub/project/-/issues/5")
    github.answers[GITHUB] = moved_to(f"{other.url}{GITEA}")
    assert "it has moved to another address (HTTP 301)" in error_of(github.issue)
    assert len(other.requests) == 4
    for _, headers in other.requests:
        assert TOKEN not in str(headers)
    # A server of GitHub without an address of its API.
    monkeypatch.delenv("GITHUB_API_URL")
    github.answers = {f"/api/v3{GITHUB}": POST, f"/api/v3{GITHUB}/comments": []}
    assert read(github.issue).number == 5
    # What no header can hold is neither sent nor shown.
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\nX: y")
    read(github.issue)
    assert TOKEN not in str(github.requests[-1])


USER_ERRORS: list[tuple[Any, str]] = [
    (status_only(404), "there is no such issue, or it is not public (HTTP 404)"),
    (status_only(401), "(HTTP 401); set GITHUB_TOKEN, or give the text"),
    (status_only(403), "or fewer requests (HTTP 403); set GITHUB_TOKEN"),
    (moved_to("http://[x"), "it has moved"),
    ({"message": "hello"}, "a pull request or another thing"),
    ({**POST, "title": " ", "body": ""}, "is empty"),
    ({**POST, "body": "x" * (2 << 20)}, "is larger than 1 MiB"),
    ({**POST, "pull_request": {"url": "x"}}, "it is a pull request"),
]
SERVER_ERRORS: list[tuple[Any, str]] = [
    (status_only(500), "the server answers HTTP 500"),
    (status_only(204), "the server answers HTTP 204"),
    (b"<html>", "line 1, column 1: Expecting value"),
    (b"\xff", "it is not UTF-8"),
    (b"[" * 10_000, "nested more than"),
    ([], "should be a valid dictionary"),
    ({**POST, "title": 7}, "'title': Input should be a valid string"),
    ({**POST, "body": "x" * (5 << 20)}, "more than 4 MiB"),
    (lambda handler: None, "cannot be read"),
    (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), "cannot be"),
]


def test_a_server_that_does_not_help_is_one_line(server: Server) -> None:
    for kind, answers in (
        (UserError, USER_ERRORS),
        (InfrastructureError, SERVER_ERRORS),
    ):
        for answer, message in answers:
            server.answers[GITEA] = answer
            line = error_of(server.issue, kind)
            assert line.startswith(f"--issue {server.issue}: ")
            assert message in line


def test_comments_of_another_shape_are_one_line(server: Server) -> None:
    without_user = [{"body": 1}]
    for comments in (None, {"message": "x"}, without_user):
        server.answers[f"{GITEA}/comments"] = comments
        assert "cannot be read" in error_of(server.issue, InfrastructureError)


def test_a_slow_server_and_a_missing_one_are_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issues, "_TIMEOUT", 0.2)
    server.answers[GITEA] = lambda _: time.sleep(1)
    assert "cannot be read: timed out" in error_of(server.issue, InfrastructureError)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        with suppress(OSError):
            for _ in range(40):
                handler.wfile.write(b" ")
                time.sleep(0.05)

    server.answers[GITEA] = drip
    monkeypatch.setattr(issues, "_MAX_SECONDS", 0.3)
    assert "takes more than 60 s" in error_of(server.issue, InfrastructureError)
    server.server.shutdown()
    server.server.server_close()
    assert "cannot be read" in error_of(server.issue, InfrastructureError)
