"""Attempts at instances: alternate models on fresh checkouts, judge their trees, choose a winner.

Other packages take from here what they need of this one. Choosing is pure and loads quickly; what
works on an instance loads when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from swe_retry.attempts.choose import (
    RESULTS,
    CandidateChoice,
    choose,
    finish_choice,
    rank,
)
from swe_retry.attempts.evidence.choice import (
    choose_by_evidence,
    class_weights,
    describe_script,
    matrix,
)
from swe_retry.attempts.evidence.facts import (
    ClassFacts,
    InstanceFacts,
    ScriptFacts,
    stated_fit,
)
from swe_retry.attempts.refit import RunFit, choose_again, with_choice
from swe_retry.attempts.stop import is_enough, stop_reason
from swe_retry.attempts.transcript import (
    attempts_table,
    conversation_origins,
    patch_block,
    transcript,
    transcript_blocks,
)

if TYPE_CHECKING:
    from swe_retry.attempts.evidence.belief import best_class, weigh
    from swe_retry.attempts.evidence.fit import fit_run
    from swe_retry.attempts.prepare import start_tests
    from swe_retry.attempts.recorded import (
        CandidateModels,
        PatchAgent,
        RecordedCandidate,
        RecordedCandidates,
        hash_candidates,
    )
    from swe_retry.attempts.services import Services
    from swe_retry.attempts.solve import InstanceJob
else:
    _LATE = (
        *("recorded", "services", "prepare", "solve"),
        *("evidence.belief", "evidence.fit"),
    )

    def __getattr__(name: str) -> object:
        """Load what works on an instance when it is asked for (PEP 562)."""
        if name in __all__:
            for late in _LATE:
                module = import_module(f"{__name__}.{late}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"{__name__} has no {name}")


__all__ = [
    "RESULTS",
    "CandidateChoice",
    "CandidateModels",
    "ClassFacts",
    "InstanceFacts",
    "InstanceJob",
    "PatchAgent",
    "RecordedCandidate",
    "RecordedCandidates",
    "RunFit",
    "ScriptFacts",
    "Services",
    "attempts_table",
    "best_class",
    "choose",
    "choose_again",
    "choose_by_evidence",
    "class_weights",
    "conversation_origins",
    "describe_script",
    "finish_choice",
    "fit_run",
    "hash_candidates",
    "is_enough",
    "matrix",
    "patch_block",
    "rank",
    "start_tests",
    "stated_fit",
    "stop_reason",
    "transcript",
    "transcript_blocks",
    "weigh",
    "with_choice",
]
