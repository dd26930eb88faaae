"""Options as text, `name=value`: how the command line gives the parameters of a method.

Lists are written with commas, lists of lists with semicolons between them: `large,big;car,auto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from streamer.errors import SettingsError

Model = TypeVar("Model", bound=BaseModel)


def split_options(given: Iterable[str]) -> dict[str, str]:
    """Return `name=value` texts as a mapping; of one name the last counts.

    Raises:
        SettingsError: one has no name or no `=`.
    """
    result: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"The option {text!r} is not of the form name=value.")
        result[name.strip().replace("-", "_")] = value.strip()
    return result


def read_options(model: type[Model], values: Mapping[str, object], owner: str) -> Model:
    """Return a model of `values`, of which texts are taken as the command line writes them.

    Raises:
        SettingsError: one sentence with the option, what it may be, and `owner`, whose it is.
    """
    unknown = sorted(set(values) - set(model.model_fields))
    if unknown:
        known = ", ".join(model.model_fields) or "none"
        raise SettingsError(f"There is no option {unknown[0]} of {owner}; there are {known}.")
    parsed = {name: _parsed(model, name, value) for name, value in values.items()}
    try:
        return model.model_validate(parsed)
    except ValidationError as error:
        first = error.errors()[0]
        reason = str(first["msg"]).removeprefix("Value error, ")
        if not first["loc"]:
            raise SettingsError(f"These options of {owner} cannot be: {reason}.") from error
        name = first["loc"][0]
        raise SettingsError(
            f"The option {name} = {values[str(name)]!r} of {owner} cannot be: {reason}."
        ) from error


def written_options(options: BaseModel) -> dict[str, str]:
    """Return all options as the texts that `read_options` takes."""
    return {name: _written(value) for name, value in options.model_dump().items()}


def _parsed(model: type[BaseModel], name: str, value: object) -> object:
    """Return a text as the list, or list of lists, that the option is; None for no text."""
    field = model.model_fields[name]
    if not isinstance(value, str):
        return value
    if not isinstance(field.default, tuple):
        return None if field.default is None and not value else value
    if get_origin(get_args(field.annotation)[0]) is tuple:
        return tuple(_items(part) for part in value.split(";") if part)
    return _items(value)


def _items(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _written(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return ";".join(",".join(map(str, part)) for part in value) + ";"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
