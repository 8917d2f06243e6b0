"""Read the issue that ``--issue`` names: an address, a file, standard input or the text itself.

Servers are not trusted. Only the server of the address is asked, sizes and numbers of answers are
limited, and GITHUB_TOKEN goes to the API of GitHub alone.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from core.address import basic_auth, parse_address, without_logins
from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import MIB, DamagedError, fault_of, json_of
from core.plaintext import shortened

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = MIB
_MOST_ANSWER = 4 * MIB
_MOST_PAGES = 30
_MOST_REDIRECTS = 5
_TIMEOUT, _ALL_SECONDS = 10.0, 60.0
_LONGEST_TITLE = 200
_GITHUB, _GITHUB_API = "https://github.com", "https://api.github.com"
_NAME = r"(?!\.+/)[\w.~-]+"
# GitLab has groups in groups; its work items are issues in another view.
_GITLAB_PATH = re.compile(
    rf"/(?P<repo>(?:{_NAME}/)+{_NAME})/-/(?:issues|work_items)/(?P<number>\d{{1,18}})"
)
# Gitea may live below a folder of its host.
_PATH = re.compile(
    rf"(?P<base>(?:/{_NAME})*)/(?P<repo>{_NAME}/{_NAME})/issues/(?P<number>\d{{1,18}})"
)
_CHANGE_PATH = re.compile(r".*/(?:pulls?|merge_requests)/\d+(?:/.*)?")
_Read = TypeVar("_Read")


class Issue(BaseModel, frozen=True):
    """What an agent is asked to solve.

    Attributes:
        text: the problem statement: title, body, and what its author wrote below.
        number: None where the issue was not read from a server.
        repo: ``OWNER/NAME`` on its server; empty where that is unknown.
        url: its address without a login, query and fragment; empty where it has none.
        note: what could not be read, for the user; empty where nothing is missing.
    """

    text: str
    title: str
    number: int | None = None
    repo: str = ""
    url: str = ""
    note: str = ""


class _Login(BaseModel):
    name: str = Field(validation_alias=AliasChoices("login", "username"))


class _Comment(BaseModel):
    """A comment of any of the servers; GitLab also lists its own remarks as comments."""

    body: str | None = Field(None, validation_alias=AliasChoices("body", "description"))
    user: _Login | None = Field(None, validation_alias=AliasChoices("user", "author"))
    system: bool = False


class _FirstPost(_Comment):
    title: str
    pull_request: Any = None


class _Answer(NamedTuple):
    status: int
    content: bytes
    following: str  # the address of the next page, or empty


_POST, _COMMENTS = TypeAdapter(_FirstPost), TypeAdapter(list[_Comment])


def read_issue(given: str, stdin: TextIO) -> Issue:
    """Return the issue that the value of ``--issue`` means.

    Raises:
        UserError: the value, the file or the address is of no use, with the fix.
        InfrastructureError: the server or the way to it failed.
    """
    if given == "-":
        return _of_text(_read_stdin(stdin), "--issue -: standard input")
    shown = f"--issue {without_logins(shortened(given, 300))}"
    alone = not re.search(r"\s", given.strip())
    path = Path(os.path.expanduser(given))  # noqa: PTH111 - pathlib raises for unknown users
    if given and _exists(path):
        return _of_text(_read_file(path, shown), f"{shown}: the file")
    if alone and re.match(r"https?://", given.strip(), re.IGNORECASE):
        return _fetch(given.strip(), shown)
    if alone and (re.search(r"[/\\]", given) or re.search(r"\w\.\w+$", given)):
        raise UserError(f"{shown}: there is no such file; give a file, -, an address or a text")
    return _of_text(given, "--issue: the text")


def _of_text(text: str, where: str, **more: Any) -> Issue:  # noqa: ANN401 - fields of Issue
    # Neither JSON files nor arguments of commands can hold the rest.
    clean = text.encode("utf-8", "replace").decode().removeprefix("\ufeff").replace("\0", "")
    clean = clean.replace("\r\n", "\n").strip()
    if not clean:
        raise UserError(f"{where} is empty; describe the problem there")
    if len(clean.encode()) > _MOST_BYTES:
        raise UserError(f"{where} is larger than 1 MiB; give the part that matters")
    first = shortened(clean.partition("\n")[0].lstrip("# "), _LONGEST_TITLE)
    return Issue(**{"text": clean, "title": first, **more})


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long text is no name of a file
        return False


def _read_file(path: Path, shown: str) -> str:
    try:
        with path.open("rb") as file:  # also the pipe of a shell's <(...)
            return file.read(_MOST_BYTES + 4).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{shown}: cannot be read ({error.strerror}); give a file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: the file is not UTF-8 or larger than 1 MiB") from error


def _read_stdin(stdin: TextIO) -> str:
    try:
        return stdin.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # also a wrong encoding
        raise UserError("--issue -: standard input is not text in UTF-8") from error


def _fetch(given: str, shown: str) -> Issue:
    address, login = basic_auth(parse_address("--issue", given).given)
    parts = urlsplit(address)
    origin, path = f"{parts.scheme}://{parts.netloc.lower()}", parts.path.rstrip("/")
    found = _GITLAB_PATH.fullmatch(path) or _PATH.fullmatch(path)
    if found is None:
        wrong = "a pull request" if _CHANGE_PATH.fullmatch(path) else "no issue"
        raise UserError(f"{shown}: is {wrong}; give an issue, as {_GITHUB}/OWNER/NAME/issues/5")
    apis, comments, headers = _source(origin, found, login)
    post, said, note = _Reader(shown, headers).read(apis, comments)
    blocks = (block.strip() for block in (post.title, post.body or "", *said))
    return _of_text(
        "\n\n".join(filter(None, blocks)),
        f"{shown}: the issue",
        number=int(found["number"]),
        repo=found["repo"],
        url=origin + path,
        note=note,
    )


def _source(
    origin: str, found: re.Match[str], login: Mapping[str, str]
) -> tuple[list[str], str, Mapping[str, str]]:
    """Return the addresses to try for an issue, what its comments have behind it, and headers."""
    repo, number = found["repo"], found["number"]
    if found.re is _GITLAB_PATH:
        api = f"{origin}/api/v4/projects/{quote(repo, safe='')}/issues/{number}"
        return [api], "/notes?sort=asc&order_by=created_at&per_page=100", login
    names, comments = f"/repos/{repo}/issues/{number}", "/comments?per_page=100"
    server = (os.environ.get("GITHUB_SERVER_URL") or _GITHUB).rstrip("/")
    host = origin.partition("://")[2].removeprefix("www.")
    if host == urlsplit(server).netloc.lower():
        usual = _GITHUB_API if server == _GITHUB else f"{server}/api/v3"
        api = os.environ.get("GITHUB_API_URL") or usual
        return [parse_address("GITHUB_API_URL", api).given.rstrip("/") + names], comments, _token()
    if host == urlsplit(_GITHUB).netloc:
        return [_GITHUB_API + names], comments, {}
    # Gitea and Forgejo, then GitHub Enterprise.
    base = origin + found["base"]
    return [f"{base}/api/{version}{names}" for version in ("v1", "v3")], comments, login


def _token() -> dict[str, str]:
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    if not re.fullmatch(r"[!-~]*", token):  # the client's message would show it
        raise UserError("GITHUB_TOKEN: has characters that no token has; set it again")
    return {"Authorization": f"Bearer {token}"} if token else {}


class _Reader:
    """Reads one issue from one server, within limits of time, size and number of answers."""

    def __init__(self, shown: str, headers: Mapping[str, str]) -> None:
        self._shown, self._known = shown, bool(headers)
        token = os.environ.get("GITHUB_TOKEN")
        self._or_token = "" if token else ", or set GITHUB_TOKEN if it is on GitHub"
        # Other codings could expand to gigabytes.
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        self._end = time.monotonic() + _ALL_SECONDS

    def read(self, apis: list[str], comments: str) -> tuple[_FirstPost, list[str], str]:
        """Return the issue, the comments of its author, and what could not be read."""
        import httpx

        try:
            with httpx.Client(timeout=_TIMEOUT, headers=self._headers) as client:
                return self._read(client, apis, comments)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            words = shortened(str(error), 300) or type(error).__name__
            raise InfrastructureError(f"{self._shown}: cannot be read: {words}") from error

    def _read(
        self, client: httpx.Client, apis: list[str], comments: str
    ) -> tuple[_FirstPost, list[str], str]:
        for api in apis:
            answer = self._get(client, api)
            if answer.status != 404:
                break
        post = self._fitting(_POST, answer)
        if post.pull_request is not None:
            raise UserError(f"{self._shown}: is a pull request; give the address of an issue")
        said: list[str] = []
        following, pages = api + comments, 0
        while following and post.user:  # the account may be deleted
            if pages == _MOST_PAGES:
                return post, said, f"{self._shown}: only {pages} pages of comments were read"
            answer = self._get(client, following)
            if answer.status == 401 and not self._known:
                # GitLab shows the comments of public issues to known users alone.
                return post, said, f"{self._shown}: its comments were not read: they need a login"
            for one in self._fitting(_COMMENTS, answer):
                said += [one.body or ""] if one.user == post.user and not one.system else []
            following, pages = answer.following, pages + 1
        return post, said, ""

    def _get(self, client: httpx.Client, address: str) -> _Answer:
        import httpx

        for _ in range(_MOST_REDIRECTS):
            with client.stream("GET", address) as response:
                if response.next_request is None:
                    content, here = self._content(response), response.url
                    # Only the query of the next address counts, so it can name no other server.
                    query = httpx.URL(response.links.get("next", {}).get("url", "")).query
                    following = str(here.copy_with(query=query)) if query else ""
                    return _Answer(response.status_code, content, following)
                here, there = response.url, response.next_request.url
            if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port):
                host = shortened(f"{there.scheme}://{there.host}", 100)
                raise UserError(f"{self._shown}: leads to {host}; give the address there")
            address = str(there)
        raise InfrastructureError(f"{self._shown}: leads through too many redirects")

    def _content(self, response: httpx.Response) -> bytes:
        content = bytearray()
        for part in response.iter_raw():
            content += part
            if len(content) > _MOST_ANSWER:
                raise InfrastructureError(f"{self._shown}: an answer is larger than 4 MiB")
            if time.monotonic() > self._end:
                raise InfrastructureError(f"{self._shown}: took longer than {_ALL_SECONDS:.0f} s")
        return bytes(content)

    def _fitting(self, kind: TypeAdapter[_Read], answer: _Answer) -> _Read:
        status = answer.status
        if status in (404, 410):
            problem = f"there is no such issue, or it is not public (HTTP {status})"
            raise UserError(f"{self._shown}: {problem}; check the address{self._or_token}")
        if status in (401, 403, 429):
            problem = f"the server wants a login, or fewer requests (HTTP {status})"
            raise UserError(f"{self._shown}: {problem}; give its text{self._or_token}")
        if status != 200:
            raise InfrastructureError(f"{self._shown}: the server answers HTTP {status}")
        try:
            return kind.validate_python(json_of(answer.content))
        except (DamagedError, ValidationError) as error:
            words = fault_of(error) if isinstance(error, ValidationError) else str(error)
            problem = f"the answer is not that of a known server of issues: {words}"
            raise InfrastructureError(f"{self._shown}: {problem}") from error
