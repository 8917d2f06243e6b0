"""How a run can end that is not a model's fault, each with its exit code."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can mend; one line that names the thing and the mend. Exit 2."""


class InfrastructureError(Exception):
    """An engine, network or disk failed: costs no try, writes no prediction. Exit 1."""


class StoppedError(Exception):
    """The run is stopping: whoever works ends here, and what was done is kept. Exit 130."""
