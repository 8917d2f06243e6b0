"""Evaluate the predictions of a run while ``harness.py`` writes them.

Nothing goes the other way: the harness reads no verdict. What both share is the record of images,
in which this process claims those that it will need.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property

from bench.instances.instance import split_row
from core.plaintext import one_line
from environments.docker.imagestore.record import ClaimKind
from reports.cli.options import ReportOptions, Say
from reports.data.predictions import Prediction, read_predictions
from reports.evaluation.requested import RequestedEvaluation
from runs.storage.runlock import is_locked
from runs.storage.store import RunStore

_POLL = 1.0


def follow(store: RunStore, options: ReportOptions, say: Say) -> None:
    """Evaluate predictions as they appear, until no process works on the run."""
    # Once, because every evaluation describes the engine again.
    once = cache(say)
    requested = RequestedEvaluation(store, options, store.read_run() or {}, once)
    _Follower(store, requested, say).run()


@dataclass
class _Follower:
    store: RunStore
    requested: RequestedEvaluation
    say: Say
    _done: set[tuple[str, str]] = field(default_factory=set)
    _finished: set[str] = field(default_factory=set)
    _claimed: dict[str, ClaimKind] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with self._claiming():
            while True:
                running = is_locked(self.store.folder)
                found = read_predictions(self.store) if any(self.store.prediction_paths()) else ()
                if new := [p for p in found if (p.instance_id, p.patch_sha256) not in self._done]:
                    self._evaluate(new)
                elif not running:
                    return
                else:
                    self._ended.wait(_POLL)

    def _evaluate(self, new: list[Prediction]) -> None:
        verdicts = self.requested.evaluate(new).verdicts
        self._done |= {(p.instance_id, p.patch_sha256) for p in new}
        for name in sorted(verdicts):
            status = verdicts[name].status.value.replace("_", " ")
            self.say(one_line(f"{name}: {status}; {verdicts[name].reason}".rstrip("; ")))
        self._finished |= {*verdicts}
        for name in verdicts:
            self._claim(name, None)

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        if self.requested.limited_images is None:
            yield
            return
        self._claim_all()

        def claim() -> None:
            while not self._ended.wait(_POLL):
                self._claim_all()

        watch = threading.Thread(target=claim, daemon=True)
        watch.start()
        try:
            yield
        finally:
            self._ended.set()
            watch.join()
            self.requested.limited_images.leave()

    def _claim_all(self) -> None:
        described = self.store.read_run() or {}
        for name in {*described.get("selected", ())} - self._finished:
            predicted = self.store.prediction(name).exists()
            self._claim(name, ClaimKind.DUE if predicted else ClaimKind.AFTER)

    def _claim(self, name: str, kind: ClaimKind | None) -> None:
        store, image = self.requested.limited_images, self._images.get(name)
        with self._lock:
            before = self._claimed.get(name)
            late = kind is not None and name in self._finished
            if store is None or image is None or before is kind or late:
                return
            if kind is not None:
                store.claim([image], kind)
                self._claimed[name] = kind
            if before is not None:
                store.release([image], before)
                if kind is None:
                    del self._claimed[name]

    @cached_property
    def _images(self) -> Mapping[str, str]:
        halves = (split_row(row) for row in self.requested.dataset.rows)
        return {i.instance_id: i.image for i, _ in halves if i.test_setup is not None}
