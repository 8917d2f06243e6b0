"""A server on loopback that answers exercises with given files, in the edit format asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.formats import format_names, get_format
from agent.formats.base import EditFormat, Notation
from exercises.exercism.exercise import Exercise
from tests.provider import Answer, Provider

Contents = Mapping[str, bytes]
_NAMES = re.compile(r"^Use the above instructions .* supplied files: (.*)$", re.M)
_FENCES = ("```", "````", "`````")
NOTHING = "Nothing needs to change."


def stubs(exercise: Exercise, try_: int) -> Contents:
    return exercise.stubs()


def examples(exercise: Exercise, try_: int) -> Contents:
    return exercise.example()


def late_examples(exercise: Exercise, try_: int) -> Contents:
    return exercise.stubs() if try_ == 1 else exercise.example()


class ExerciseProvider(Provider):
    """Answers by what is asked alone: exercise, format, and number of the message.

    Attributes:
        wanted: returns the files of an exercise after a try, from 1.
        latency: seconds before each answer.
    """

    def __init__(
        self,
        exercises: Sequence[Exercise],
        wanted: Callable[[Exercise, int], Contents] = examples,
        notation: Notation = Notation.CURRENT,
        latency: float = 0.0,
    ) -> None:
        super().__init__()
        self.wanted, self.latency = wanted, latency
        self._by_solution = {" ".join(one.solution): one for one in exercises}
        forms = [get_format(name, notation=notation) for name in format_names(notation)]
        self._forms = [(form, {form.instructions(fence) for fence in _FENCES}) for form in forms]

    def answer(self, request: dict[str, Any]) -> Answer:
        said = [str(m["content"]) for m in request["messages"] if m["role"] == "user"]
        exercise = self._by_solution[_NAMES.findall(said[0])[-1]]
        before = exercise.stubs() if len(said) == 1 else self.wanted(exercise, len(said) - 1)
        after = self.wanted(exercise, len(said))
        return rendered(self.form(request), before, after, self.latency)

    def form(self, request: Mapping[str, Any]) -> EditFormat:
        """Return the format whose rules are in the system message."""
        system = request["messages"][0]["content"]
        return next(f for f, rules in self._forms if any(one in system for one in rules))


def rendered(form: EditFormat, before: Contents, after: Contents, latency: float = 0.0) -> Answer:
    """Return the answer that turns the files ``before`` into ``after``."""
    replies = [
        form.render(path, data.decode(), after[path].decode())
        for path, data in before.items()
        if after[path] != data
    ]
    calls = tuple((call.name, call.arguments) for reply in replies for call in reply.tool_calls)
    text = "\n".join(reply.content for reply in replies)
    return Answer(text if replies else NOTHING, tool_calls=calls, hang=latency)
