"""Makes a tool's JSON schema from its function's signature, and checks arguments against it.

The MCP library builds a pydantic model for each tool, which takes longer than the rest of this server's start.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from engram.errors import BadRequest

_TYPES: dict[type, str] = {str: "string", int: "integer", bool: "boolean"}


def schema_of(function: Callable[..., str]) -> dict[str, Any]:
    """The input schema of a tool: parameters of str, int, bool or Literal, optional ones with a default.

    ``Annotated`` adds further keys of the schema as a mapping, such as ``{"minimum": 1}``.
    """
    hints = get_type_hints(function, include_extras=True)
    properties: dict[str, dict[str, Any]] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = _schema_of_type(hints[name])
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": required} if required else {})


def _schema_of_type(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _schema_of_type(arguments[0]) | {key: value for more in arguments[1:] for key, value in more.items()}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _schema_of_type(next(argument for argument in arguments if argument is not type(None)))
    return {"type": _TYPES[hint]}


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of a call against the schema and return them; null means the default.

    Raises:
        BadRequest: an argument is missing, unknown, or has the wrong type or range.
    """
    properties = schema["properties"]
    given = {name: value for name, value in arguments.items() if value is not None}
    unknown = sorted(set(given) - set(properties))
    missing = [name for name in schema.get("required", ()) if name not in given]
    if unknown or missing:
        wrong = f"there is no argument {unknown[0][:40]!r}" if unknown else f"the argument {missing[0]!r} is missing"
        raise BadRequest(f"{wrong}; the arguments are {', '.join(properties) or 'none'}")
    return {name: _check(name, properties[name], value) for name, value in given.items()}


def _check(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    wanted = schema["type"]
    if wanted == "integer" and isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        value = int(value)
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if wanted == "boolean" and value in ("true", "false"):
        value = value == "true"
    python = next(kind for kind, word in _TYPES.items() if word == wanted)
    if not isinstance(value, python) or (isinstance(value, bool) and python is not bool):
        raise BadRequest(f"{name} must be of type {wanted}")
    if "enum" in schema and value not in schema["enum"]:
        raise BadRequest(f"{name} must be one of {', '.join(schema['enum'])}")
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if not low <= value <= high:
        raise BadRequest(f"{name} must be a number from {low} to {high}")
    return value
