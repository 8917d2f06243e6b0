"""Options of a command, each declared once as a field of a frozen dataclass.

A field gives name, type, default, help, panel and limits. The command line, the keys of files of
options, what a run records, and the value that code receives are derived from it. A command
composes groups: ``@command(ModelOptions, RunOptions)`` takes the options of both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import wraps
from keyword import iskeyword
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic.fields import FieldInfo
from typing_extensions import dataclass_transform

from core.errors import UserError
from core.settings import Folder as Folder

T = TypeVar("T")
ReadOption = Callable[[str, Any, Any], Any]

_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
_MARK = "option"


@dataclass(frozen=True)
class Option:
    """What a field says of its option.

    Attributes:
        names: as they are typed, a long one first; ``--page/--no-page`` for a flag of two names.
        given: the type on the command line, where it is not the field's.
        shown: the default on the command line, where ``read`` makes the value.
        read: makes the field's value of the option's name, what was given, and the context that
            ``built`` passes on. An empty text, or an empty list, leaves the field's default.
        recorded: the option is a part of the run, not of one start.
        decides: it decides results, so a continued run must repeat it.
        argument: it has a position, and no name.
    """

    names: tuple[str, ...]
    help: str
    panel: str | None
    least: float | None
    given: Any
    shown: Any
    read: ReadOption | None
    recorded: bool
    decides: bool
    argument: bool

    @property
    def name(self) -> str:
        """The option as it is typed."""
        return self.names[0].partition("/")[0]

    @property
    def key(self) -> str:
        """The option as a Python name."""
        key = self.name.lstrip("-").replace("-", "_")
        return f"{key}_" if iskeyword(key) else key


def option(
    default: Any,  # noqa: ANN401 - as of dataclasses.field
    help: str,
    *names: str,
    panel: str | None = None,
    factory: Callable[[], Any] | None = None,
    least: float | None = None,
    given: Any = None,  # noqa: ANN401 - a type
    shown: Any = None,  # noqa: ANN401
    read: ReadOption | None = None,
    recorded: bool = True,
    decides: bool = False,
    argument: bool = False,
) -> Any:  # noqa: ANN401
    """Declare an option as a field of an ``option_group``; see ``Option``.

    ``default`` and ``help`` come first, then the names; ``factory`` makes the default instead,
    and ``least`` is the smallest number.
    """
    mark = Option(
        names, help, panel, least, given, shown, read, recorded, decides, argument
    )
    said: dict[str, Any] = {"description": help, "json_schema_extra": {_MARK: mark}}
    said |= {"default_factory": factory} if factory else {"default": default}
    said |= {} if least is None or read else {"ge": least}
    return Field(**said)


@dataclass_transform(frozen_default=True)
def option_group(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields may be options; a wrong value is a ``UserError``."""
    made: Any = checked_dataclass(cls, frozen=True, config=_CONFIG)
    check = made.__init__

    @wraps(check)
    def init(self: T, *args: Any, **values: Any) -> None:  # noqa: ANN401
        try:
            check(self, *args, **values)
        except ValidationError as error:
            raise _mistake(made, error) from error

    made.__init__ = init
    group: type[T] = made
    return group


def _mistake(group: type[Any], error: ValidationError) -> Exception:
    first, fields = error.errors()[0], _fields(group)
    place = first["loc"][0] if first["loc"] else ""
    name = [*fields][place] if isinstance(place, int) else place
    mark = _mark(fields[name]) if name in fields else None
    if mark is None:
        return TypeError(str(error))
    least = (
        mark.least if first["type"] in ("greater_than_equal", "finite_number") else None
    )
    fix = first["msg"].replace("Input should be", "must be")
    fix = fix if least is None else f"must be at least {least:g}"
    return UserError(f"{mark.name} {first['input']}: {fix}")


def built(group: type[T], values: Mapping[str, Any], context: Any = None) -> T:  # noqa: ANN401
    """Return the group with the values of a command line.

    Args:
        group: an ``option_group``; groups that are its fields are built as well.
        values: by the keys of options, and by the names of fields that are not options; None and
            what is missing leave the default.
        context: passed on to the functions that read options.

    Raises:
        UserError: a value is wrong; names its option.
    """
    return group(**dict(_values(group, values, context)))


def _values(
    group: type[Any],
    values: Mapping[str, Any],
    context: Any,  # noqa: ANN401
) -> Iterator[tuple[str, Any]]:
    for name, info in _fields(group).items():
        mark = _mark(info)
        value = values.get(mark.key if mark else name)
        if mark is None and value is None and _is_group(info.annotation):
            yield name, built(info.annotation, values, context)  # type: ignore[arg-type]
        elif value is None or (mark and mark.shown is None and value in ("", [])):
            continue
        else:
            yield (
                name,
                mark.read(mark.name, value, context) if mark and mark.read else value,
            )


def plain_values(group: Any, *, deciding: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """Return the fields of a group as JSON values; ``deciding``: only those that decide results."""
    marks = {name: _mark(info) for name, info in _fields(type(group)).items()}
    return {
        name: _plain(getattr(group, name))
        for name, mark in marks.items()
        if not deciding or (mark and mark.decides)
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 - of any field
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return (
        value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
    )


def options_of(*groups: type[Any]) -> Iterator[tuple[Option, FieldInfo]]:
    """Yield the options of groups, and of the groups in them, in their order."""
    for group in groups:
        for info in _fields(group).values():
            if mark := _mark(info):
                yield mark, info
            elif _is_group(info.annotation):
                yield from options_of(info.annotation)  # type: ignore[arg-type]


def command(
    *groups: type[Any], panels: Sequence[str] = ()
) -> Callable[[Callable[[typer.Context, dict[str, Any]], None]], Callable[..., None]]:
    """Decorate a function of context and values such that typer gives it the groups' options.

    Args:
        groups: whose options the command takes; ``built`` makes each of the values. Of options
            with one key the first counts.
        panels: the headings of ``--help`` in their order.
    """

    def decorate(
        run: Callable[[typer.Context, dict[str, Any]], None],
    ) -> Callable[..., None]:
        marks: dict[str, Option] = {}
        parameters = []
        for mark, info in options_of(*groups):
            if mark.key not in marks:
                marks[mark.key] = mark
                parameters.append(_parameter(mark, info))

        def rank(parameter: inspect.Parameter) -> int:
            mark = marks[parameter.name]
            known = panels.index(mark.panel) if mark.panel in panels else len(panels)
            return -1 if mark.argument else known

        parameters.sort(key=rank)

        def main(context: typer.Context, **values: Any) -> None:  # noqa: ANN401
            run(context, values)

        first = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
        taking: Any = main
        taking.__signature__ = inspect.Signature([first, *parameters])
        taking.__annotations__ = {p.name: p.annotation for p in (first, *parameters)}
        taking.__doc__, taking.__name__ = run.__doc__, run.__name__
        return main

    return decorate


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameter(mark: Option, info: FieldInfo) -> inspect.Parameter:
    default = mark.shown if mark.given or info.default_factory else info.default
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    kind: Any = mark.given or info.annotation
    if get_origin(kind) is tuple:
        default = None
        kind = list.__class_getitem__(get_args(kind)[0])
    if default is None:
        kind = kind | None
    said: Any = (
        typer.Argument(help=mark.help)
        if mark.argument
        else typer.Option(
            *sorted(mark.names, key=lambda name: name.startswith("--")),
            min=mark.least,
            help=mark.help,
            rich_help_panel=mark.panel,
        )
    )
    return inspect.Parameter(
        mark.key, _KEYWORD, default=default, annotation=Annotated[kind, said]
    )


def _fields(group: type[Any]) -> dict[str, FieldInfo]:
    found: dict[str, FieldInfo] = getattr(group, "__pydantic_fields__", {})
    return found


def _mark(info: FieldInfo) -> Option | None:
    extra = info.json_schema_extra
    mark = extra.get(_MARK) if isinstance(extra, dict) else None
    return mark if isinstance(mark, Option) else None


def _is_group(kind: Any) -> bool:  # noqa: ANN401 - a type
    return (
        isinstance(kind, type)
        and is_dataclass(kind)
        and any(map(_mark, _fields(kind).values()))
    )
