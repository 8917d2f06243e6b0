"""A Ray cluster whose nodes share no more than hosts do, in Linux namespaces of one machine.

A node has its own network, processes, host name, home, temporary folder and cache; the rest of the
machine's files it can only read. A bridge in a further network namespace connects the nodes, so
nothing listens on an interface of the machine. The kernel ends what is in a namespace with the
process that holds it, and that ends with the test. Nodes start by the commands of docs/scale.md.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from swe_retry.demo.setup import build_mirrors
from swe_retry.instances.dataset import load_dataset
from tests.support import TOP
from tests.support.connectproxy import ConnectProxy
from tests.support.killing import DemoProvider, hashes
from tests.support.provider import Answer, Arrival
from tests.support.slowlink import TUN, SlowLink

HOME = Path("/srv")
CACHE = Path("/var/cache")
PYTHON = sys.executable
EXPORT = "export RAY_AUTH_MODE"
KEY_VARIABLE = "OPENAI_API_KEY"
# How this machine reaches a package index: what a node inherits besides the proxy.
_INDEX_VARIABLE = re.compile(r"(PIP|UV|SSL|REQUESTS)_\w+")
_DOCUMENT = TOP / "docs/scale.md"
_NETWORK = "10.77.0."
_BRIDGE = "bridge0"
# By default it is that of a member, and changes when that is cut off.
_BRIDGE_MAC = "02:00:00:00:00:01"
_PROGRAMS = ("ip", "nsenter", "unshare")
_NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
_TIMEOUT = 240.0
_CLONE_NEWNET = 0x40000000
# The first process of a node, which ends with the test.
_HOLD = "ip link set lo up; echo ready; read"
_MOUNT = f"""
set -e
hostname $1
mount --bind $2/home {HOME}
mount --bind $2/cache {CACHE}
mount -t tmpfs shm /dev/shm
mount --bind $2/tmp /tmp
mount -o remount,bind,ro /
{_HOLD}
"""


def missing_namespaces() -> str:
    """Return why no cluster can be made here; empty where one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in _PROGRAMS:
        if not shutil.which(program):
            return f"{program} is not installed (Debian: iproute2, util-linux)"
    if not TUN.exists():
        return f"there is no {TUN}"
    result = subprocess.run(["unshare", "--net", "true"], check=False)
    if result.returncode:
        return "the kernel makes no network namespace"
    return ""


def documented(part: str) -> str:
    """Return the only command of docs/scale.md that contains ``part``."""
    commands = []
    for line in _DOCUMENT.read_text().splitlines():
        command = line.strip()
        if command.startswith((".venv/bin/", "export ")) and part in command:
            commands.append(command)
    (command,) = commands
    return _here(command)


def _here(command: str) -> str:
    return command.replace(".venv/bin/", f"{Path(sys.executable).parent}/")


class ClusterProvider(DemoProvider):
    """Answers all nodes after ``hang`` seconds."""

    host = f"{_NETWORK}1"

    def __init__(self) -> None:
        super().__init__()
        self.hang = 0.5

    def answer(self, request: dict[str, object]) -> Answer:
        answer = super().answer(request)
        return Answer(answer.text, hang=self.hang)

    @property
    def seconds(self) -> float:
        """The time from the first request to the last."""
        return self.arrivals[-1].time - self.arrivals[0].time

    def repeated(self, needed: Counter[str]) -> int:
        """Return how many requests came beyond those that a run needs."""
        return (hashes(self) - needed).total()

    def first_after(self, moment: float, matches: Callable[[Arrival], bool]) -> float:
        """Return when the first request after ``moment`` came that matches."""
        for arrival in self.arrivals:
            if arrival.time > moment and matches(arrival):
                return arrival.time
        return math.inf

    def forget(self) -> None:
        self.requests.clear()
        self.arrivals.clear()


@dataclass
class Node:
    """One node; ``key`` is empty where its environment has none."""

    name: str
    address: str
    folder: Path
    key: str
    proxy: str
    holder: int  # the process that holds its namespaces
    up: bool = False

    def argv(self, script: str) -> list[str]:
        """Return the command that runs a script of bash on the node."""
        return enter_argv(self.holder, _NAMESPACES, f"cd {TOP}; {script}")

    @property
    def environment(self) -> dict[str, str]:
        values = {
            "PATH": os.environ["PATH"],
            "HOME": str(HOME),
            "LANG": "C.UTF-8",
            "HTTPS_PROXY": self.proxy,
        }
        for name, value in os.environ.items():
            if _INDEX_VARIABLE.fullmatch(name):
                values[name] = value
        if self.key:
            values[KEY_VARIABLE] = self.key
        return values

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a script and return what it printed."""
        with (self.folder / "printed").open("w+") as file:
            result = subprocess.run(
                self.argv(script),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=_TIMEOUT,
                check=False,
            )
            file.seek(0)
            printed = file.read()
        assert not check or result.returncode == 0, printed
        return printed

    def outside(self, path: Path) -> Path:
        """Return where a path below the node's home lies for the test."""
        return self.folder / "home" / path.relative_to(HOME)

    def kill(self) -> None:
        """Kill all processes of the node at once."""
        self.run("kill -KILL -1", check=False)
        self.up = False

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the node but its first."""
        namespace = os.readlink(f"/proc/{self.holder}/ns/pid")
        members = []
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                link = os.readlink(f"/proc/{process.pid}/ns/pid")
                if link != namespace or process.pid == self.holder:
                    continue
                if process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
        return members

    def files_with(self, text: str) -> list[str]:
        """Return the files of the node that contain ``text``."""
        folders = f"/tmp {HOME} {CACHE} /dev/shm"
        command = f"grep -rlsF --devices=skip -e {text} {folders}"
        return self.run(command, check=False).splitlines()


@dataclass
class Cluster:
    """A context manager; the first node is the head, where drivers run."""

    folder: Path
    key: str = field(default_factory=lambda: f"sk-{secrets.token_hex(24)}")
    nodes: dict[str, Node] = field(default_factory=dict)
    provider: ClusterProvider = field(init=False)
    proxy: ConnectProxy = field(init=False)
    _open: ExitStack = field(default_factory=ExitStack)
    _hub: int = 0

    def __enter__(self) -> Cluster:
        try:
            self._hub = self._hold("--net", "--fork", "--kill-child", script=_HOLD)
            self._in_hub(f"ip link add {_BRIDGE} address {_BRIDGE_MAC} type bridge")
            self._in_hub(f"ip address add {_NETWORK}1/24 dev {_BRIDGE}")
            self._in_hub(f"ip link set {_BRIDGE} up")
            with inside_network(self._hub):
                self.provider = ClusterProvider()
                self.proxy = ConnectProxy(self.provider.host)
            self._open.enter_context(self.provider)
            self._open.enter_context(self.proxy)
            for name in ("head", "first", "second"):
                self.start(name)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    @property
    def head(self) -> Node:
        return self.nodes["head"]

    def start(self, name: str, *, with_key: bool = True) -> Node:
        """Start a node as the document says, also one that was killed."""
        node = self.nodes.get(name) or self._make(name)
        node.key = self.key if with_key else ""
        export = documented(EXPORT)
        token = node.outside(HOME / ".ray/auth_token")
        if name == "head":
            node.run(documented("get-auth-token"))
            command = documented("ray start --head")
        else:
            token.parent.mkdir(exist_ok=True)
            shutil.copy(self.head.outside(HOME / ".ray/auth_token"), token)
            command = documented("ray start --address")
            command = command.replace("FIRST-HOST", self.head.address)
        node.run(f"{export}; {command}")
        node.up = True
        return node

    def stop(self, name: str) -> None:
        """Stop a node as the document says."""
        command = ".venv/bin/ray stop"
        assert f"`{command}` on each host" in _DOCUMENT.read_text()
        self.nodes[name].run(_here(command))

    def cut(self, name: str) -> None:
        """Take a node off the network."""
        self._in_hub(f"ip link set {name} nomaster")

    def connect(self, name: str) -> None:
        self._in_hub(f"ip link set {name} master {_BRIDGE}")

    @contextmanager
    def slow(self, *names: str, delay: float) -> Iterator[None]:
        """Delay what nodes send, and what they get, by so many seconds each."""
        with ExitStack() as stack:
            for name in names:
                self.cut(name)
                stack.callback(self.connect, name)
                other = f"slow-{name}"
                with inside_network(self._hub):
                    link = SlowLink(name, other, delay)
                stack.callback(link.close)
                # The hub itself must not answer in place of the bridge.
                self._in_hub(f"ip link set {name} arp off")
                stack.callback(self._in_hub, f"ip link set {name} arp on")
                self._in_hub(f"ip link set {other} master {_BRIDGE} up")
                link.start()
            yield

    def _make(self, name: str) -> Node:
        number = len(self.nodes) + 2
        folder = self.folder / name
        for part in ("tmp", "home", "cache"):
            (folder / part).mkdir(parents=True)
        build_mirrors(folder / "home/mirrors")
        write_rows(folder / "home/rows.jsonl", copies=2)
        isolation = [*_NAMESPACES, "--fork", "--kill-child", "--mount-proc"]
        values = (name, str(folder))
        holder = self._hold(*isolation, script=_MOUNT, arguments=values)
        address = f"{_NETWORK}{number}"
        node = Node(name, address, folder, self.key, self.proxy.url, holder)
        peer = f"peer name eth0 netns {holder}"
        self._in_hub(f"ip link add {name} type veth {peer}")
        self._in_hub(f"ip link set {name} master {_BRIDGE} up")
        node.run(
            f"ip address add {node.address}/24 dev eth0 && ip link set eth0 up && "
            f"ip route add default via {_NETWORK}1"
        )
        self.nodes[name] = node
        return node

    def _hold(
        self,
        *options: str,
        script: str,
        arguments: Sequence[str] = (),
    ) -> int:
        """Start the first process of new namespaces and return its id."""
        holder = subprocess.Popen(
            ["unshare", *options, "bash", "-c", script, "bash", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Without its input it ends, and so does all that is in its namespaces.
        self._open.callback(holder.communicate, timeout=_TIMEOUT)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n", "the namespaces cannot be made"
        (child,) = psutil.Process(holder.pid).children()
        return child.pid

    def _in_hub(self, script: str) -> None:
        command = enter_argv(self._hub, ["--net"], script)
        subprocess.run(command, check=True)


def enter_argv(holder: int, namespaces: Sequence[str], script: str) -> list[str]:
    """Return the command that runs a script of bash in namespaces of a process."""
    enter = ["nsenter", "--target", str(holder), *namespaces]
    return [*enter, "bash", "-c", script]


@contextmanager
def inside_network(process: int) -> Iterator[None]:
    """Have this thread make its sockets in the network of another process."""
    library = ctypes.CDLL(None, use_errno=True)

    def enter(descriptor: int) -> None:
        if library.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    with open("/proc/thread-self/ns/net") as before:
        with open(f"/proc/{process}/ns/net") as inside:
            enter(inside.fileno())
        try:
            yield
        finally:
            enter(before.fileno())


def write_rows(path: Path, copies: int) -> None:
    """Write a dataset that has each instance of the demo several times."""
    lines = []
    for demo in load_dataset("demo", "test").rows:
        for number in range(copies):
            row = {
                "instance_id": f"{demo['instance_id']}{number}",
                "repo": demo["repo"],
                "base_commit": demo["base_commit"],
                "version": demo["version"],
                "problem_statement": f"{demo['problem_statement']}\nCopy {number}.",
                "spec": demo["spec"],
            }
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines))
