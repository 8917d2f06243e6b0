"""A network link that delays every frame: netem, which many kernels lack, in a thread."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TUN = Path("/dev/net/tun")
_SET_NAME = 0x400454CA  # TUNSETIFF
_TAP = 0x0002 | 0x1000 | 0x4000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR
_ALL_PROTOCOLS = 0x0003
_SOL_PACKET = 263
# Frames begin with how the kernel may split them and complete their checksums.
_VNET_HEADER = 15
_IGNORE_OUTGOING = 23
_LARGEST = 1 << 17
_LOOK = 0.05


@dataclass(frozen=True)
class _Frame:
    due: float
    target: int  # a descriptor
    content: bytes


class SlowLink:
    """Copies frames between an interface and a new one, both of this thread's network.

    ``delay`` is in seconds, in each direction.
    """

    def __init__(self, interface: str, other: str, delay: float) -> None:
        self._delay = delay
        self._tap = os.open(TUN, os.O_RDWR)
        request = struct.pack("16sH22x", other.encode(), _TAP)
        fcntl.ioctl(self._tap, _SET_NAME, request)
        protocols = socket.htons(_ALL_PROTOCOLS)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocols)
        self._socket.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
        self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        self._socket.bind((interface, 0))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._copy)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()
        os.close(self._tap)

    def _copy(self) -> None:
        descriptor = self._socket.fileno()
        targets = {
            self._tap: descriptor,
            descriptor: self._tap,
        }
        frames = deque[_Frame]()
        while not self._stop.is_set():
            wait = _LOOK
            if frames:
                wait = max(0.0, frames[0].due - time.monotonic())
            ready = select.select(list(targets), [], [], wait)
            now = time.monotonic()
            for source in ready[0]:
                content = os.read(source, _LARGEST)
                due = now + self._delay
                frames.append(_Frame(due, targets[source], content))
            while frames and frames[0].due <= now:
                frame = frames.popleft()
                with suppress(OSError):  # networks may lose frames
                    os.write(frame.target, frame.content)
