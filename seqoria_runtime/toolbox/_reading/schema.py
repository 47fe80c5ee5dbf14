"""Owns what registration makes of a signature: the JSON schema that is told, and the way of the arguments.

Knows nothing of calls; everything here happens once for each tool.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from pydantic_core import CoreSchema, SchemaValidator, to_json

from seqoria_runtime.toolbox._hidden.arguments import (
    Arguments,
    Check,
    CheckWithin,
    HiddenArguments,
    NestedFields,
    PublicArguments,
    listed,
)
from seqoria_runtime.toolbox._hidden.core_schema import (
    Definitions,
    Node,
    copied,
    hands_on_its_input,
    is_strict,
)
from seqoria_runtime.toolbox._hidden.json_schema import json_schema
from seqoria_runtime.toolbox._hidden.rewrite import (
    Rewriter,
    StrayMarkerError,
    fields_below,
    is_required,
    keys_of,
    marked,
    standalone,
)
from seqoria_runtime.toolbox._hidden.trusted import merged

from .fields import core_schema_of, unusable, with_definitions
from .signature import Signature


class Compiled(NamedTuple):
    """What a tool needs of its function's signature."""

    parameters: Mapping[str, Any]
    arguments: Arguments


class _Tree(NamedTuple):
    """A typed dictionary's core schema with the definitions that it refers to."""

    root: Node
    definitions: Definitions

    def only(self, names: Set[str]) -> "_Tree":
        fields = {name: field for name, field in self.root["fields"].items() if name in names}
        return _Tree({**self.root, "fields": fields}, self.definitions)

    @property
    def whole(self) -> CoreSchema:
        return with_definitions(self.root, self.definitions)

    def validator(self, *, rewritten: bool = False) -> SchemaValidator:
        # What pydantic built for a model class knows nothing of the rewriting.
        return SchemaValidator(self.whole, _use_prebuilt=not rewritten)


def compile_signature(signature: Signature, tool: str, server_populated: Set[str]) -> Compiled:
    """Make both; `TypeError` or `ValueError` name the tool and the parameter that is wrong."""
    title = f"{signature.own_name if signature.own_name.isidentifier() else tool}Arguments"
    tree = _Tree(*core_schema_of(signature, tool, title))
    hidden = _hidden_names(tree, tool, server_populated)
    top = tree.root["fields"].keys() & hidden
    public = tree.only(tree.root["fields"].keys() - hidden)
    rewritten = _rewritten(public, hidden, tool)
    below = [(name, field) for name, field in fields_below(public.root, public.definitions) if name in hidden]
    top_fields = [(name, field) for name, field in tree.root["fields"].items() if name in top]
    nested_keys = {key for name, field in below for key in keys_of(field, name)}
    parameters = _json_schema(rewritten if below else public, tool, nested_keys)
    if not hidden:
        return Compiled(parameters, PublicArguments(_check(public)))
    top_required, nested_required = _required(top_fields), _required(below)
    arguments = HiddenArguments(
        tool=tool,
        hidden=listed(merged([top_required, nested_required])),
        top=top_required,
        top_keys={key: name for name, field in top_fields for key in keys_of(field, name)},
        public=_check(public),
        trusted=_standalone(tree, top).validator().validate_python,
        nested=NestedFields(tool, nested_required, _check_within(rewritten)) if below else None,
    )
    return Compiled(parameters, arguments)


def _hidden_names(tree: _Tree, tool: str, server_populated: Set[str]) -> frozenset[str]:
    """Names given by name or by marker; a name hides every parameter and field that is called so."""
    own = tree.root["fields"]
    hidden = frozenset(server_populated) | marked(own.items(), tree.definitions)
    public = tree.only(own.keys() - hidden)
    below = [*fields_below(public.root, public.definitions)]
    unknown = server_populated - own.keys() - {name for name, _ in below}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"Unknown server-populated parameters: {names} (of tool {tool!r})")
    return hidden | marked(below, tree.definitions)


def _rewritten(public: _Tree, hidden: frozenset[str], tool: str) -> _Tree:
    rewriter = Rewriter(hidden, public.definitions)
    try:
        root = rewriter.rewrite(public.root)
    except StrayMarkerError:
        raise TypeError(
            f"Tool {tool!r}: HIDDEN hides a whole parameter or field, it cannot stand inside of its type"
        ) from None
    return _Tree(root, {**public.definitions, **rewriter.definitions})


def _json_schema(public: _Tree, tool: str, hidden_keys: Set[str]) -> dict[str, Any]:
    try:
        return json_schema(public.whole, hidden_keys)
    except Exception as error:
        for name in public.root["fields"]:
            try:
                json_schema(public.only({name}).whole, hidden_keys)
            except Exception as own:  # noqa: BLE001 - also what an application's own hook raises
                raise unusable(tool, name, own) from error
        raise


def _required(fields: Iterable[tuple[str, Node]]) -> dict[str, bool]:
    return merged({name: is_required(field)} for name, field in fields)


def _standalone(tree: _Tree, names: Set[str]) -> _Tree:
    fields = {name: standalone(field) for name, field in tree.root["fields"].items() if name in names}
    return _Tree({**tree.root, "fields": fields}, tree.definitions)


def _check(public: _Tree) -> Check:
    validator = public.validator()
    if is_strict(public.root, public.definitions):
        return lambda arguments: validator.validate_json(to_json(arguments))
    if hands_on_its_input(public.root, public.definitions):
        return lambda arguments: validator.validate_python(copied(arguments))
    return validator.validate_python


def _check_within(rewritten: _Tree) -> CheckWithin:
    validator = rewritten.validator(rewritten=True)
    return lambda arguments, trusted: validator.validate_python(copied(arguments), context=trusted)
