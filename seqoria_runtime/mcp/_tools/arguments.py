"""Owns the check of a call's arguments against a remote tool's JSON schema, before anything is sent.

A schema that cannot be used checks nothing: the server has the last word anyway.
"""

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable


class ArgumentsCheck:
    """Checks by one schema, which is compiled when it is first needed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)
        self._validator: Validator | None = None
        self._usable = True

    def complaint(self, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with the arguments, in words that a model can act on; `None` if nothing is."""
        validator = self._compiled()
        if validator is None:
            return None
        try:
            error = best_match(validator.iter_errors(dict(arguments)))
        except (Unresolvable, RecursionError):
            self._usable = False
            return None
        if error is None:
            return None
        place = error.json_path.removeprefix("$").lstrip(".")
        return f"{place}: {error.message}" if place else str(error.message)

    def _compiled(self) -> Validator | None:
        if self._validator is None and self._usable:
            kind = validator_for(self._schema, default=Draft202012Validator)
            try:
                kind.check_schema(self._schema)
            except (SchemaError, RecursionError):
                self._usable = False
                return None
            # An empty registry: nothing is fetched for a reference.
            self._validator = kind(self._schema, registry=Registry())
        return self._validator if self._usable else None
