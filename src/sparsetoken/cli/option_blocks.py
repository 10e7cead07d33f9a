"""Options that several commands share, as blocks: a parameter of a command that stands for many options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def with_blocks(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take blocks of options.

    A block is a named tuple whose fields are options as Typer knows them. A parameter whose type is such a class becomes one
    option per field on the command line; the command gets the block with what the user wrote.

    Parameters
    ----------
    command : callable
        The command, with blocks among its parameters.

    Returns
    -------
    callable
        The same command with all its options one by one, as Typer reads them.
    """
    hints = get_type_hints(command)
    parameters: list[inspect.Parameter] = []
    blocks: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        block = hints[name]
        if not (isinstance(block, type) and issubclass(block, tuple)):
            parameters.append(parameter.replace(annotation=block, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        blocks[name] = block
        types, defaults = get_type_hints(block), block._field_defaults  # type: ignore[attr-defined]
        parameters += [
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=defaults[field], annotation=types[field])
            for field in block._fields  # type: ignore[attr-defined]
        ]

    def gathered(**given: Any) -> Any:
        made = {name: block(**{field: given.pop(field) for field in block._fields}) for name, block in blocks.items()}
        return command(**made, **given)

    gathered.__name__, gathered.__doc__, gathered.__module__ = command.__name__, command.__doc__, command.__module__
    gathered.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gathered
