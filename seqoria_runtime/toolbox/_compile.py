"""Compiles a signature, once for each tool: the JSON schema for the model, and how arguments are prepared."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from pydantic_core import CoreSchema, SchemaValidator, to_json

from ._hidden.arguments import (
    Check,
    CheckWithin,
    HiddenArguments,
    NestedFields,
    PublicArguments,
    ToolArguments,
    hidden_parameters,
)
from ._hidden.core_schema import (
    copy_json,
    is_strict,
    may_return_input,
)
from ._hidden.json_schema import json_schema
from ._hidden.rewrite import (
    Rewriter,
    StrayMarkerError,
    is_required,
    keys_of,
    names_marked,
    standalone,
    struct_fields,
)
from ._hidden.trusted_values import merge_required
from ._reading.fields import Definitions, Node, core_schema_of, unusable, with_definitions
from ._reading.signature import Signature


class CompiledSignature(NamedTuple):
    """What a tool needs from its function's signature."""

    parameters: Mapping[str, Any]
    arguments: ToolArguments


class _Tree(NamedTuple):
    """The core schema of a typed dictionary, with the definitions that it refers to."""

    root: Node
    definitions: Definitions

    def only(self, names: Set[str]) -> "_Tree":
        fields = {name: field for name, field in self.root["fields"].items() if name in names}
        return _Tree({**self.root, "fields": fields}, self.definitions)

    @property
    def core_schema(self) -> CoreSchema:
        return with_definitions(self.root, self.definitions)

    def validator(self, *, rewritten: bool = False) -> SchemaValidator:
        # For a model class pydantic-core would use the validator that it built for the class itself, which
        # knows nothing of the rewriting: hidden fields would be required from the model.
        return SchemaValidator(self.core_schema, _use_prebuilt=not rewritten)


def compile_signature(signature: Signature, tool: str, server_populated: Set[str]) -> CompiledSignature:
    """Compile a signature. Raises `TypeError` or `ValueError` that names the tool and the parameter."""
    title = f"{signature.own_name if signature.own_name.isidentifier() else tool}Arguments"
    tree = _Tree(*core_schema_of(signature, tool, title))
    hidden = _hidden_names(tree, tool, server_populated)
    # Hidden parameters of the function itself (`top`) are simply left out of the schema, and their values are
    # validated separately. Hidden fields of models in public parameters (`below`) must be filled where they
    # are: in a list of accounts with a hidden owner, only pydantic knows where the accounts are.
    top = tree.root["fields"].keys() & hidden
    public = tree.only(tree.root["fields"].keys() - hidden)
    rewritten = _rewritten(public, hidden, tool)
    below = [
        (name, field) for name, field in struct_fields(public.root, public.definitions) if name in hidden
    ]
    top_fields = [(name, field) for name, field in tree.root["fields"].items() if name in top]
    nested_keys = {key for name, field in below for key in keys_of(field, name)}
    parameters = _json_schema(rewritten if below else public, tool, nested_keys)
    if not hidden:
        return CompiledSignature(parameters, PublicArguments(_check(public)))
    top_required, nested_required = _required(top_fields), _required(below)
    arguments = HiddenArguments(
        tool=tool,
        hidden=hidden_parameters(merge_required([top_required, nested_required])),
        top=top_required,
        top_keys={key: name for name, field in top_fields for key in keys_of(field, name)},
        public=_check(public),
        trusted=_standalone(tree, top).validator().validate_python,
        nested=NestedFields(tool, nested_required, _check_within(rewritten)) if below else None,
    )
    return CompiledSignature(parameters, arguments)


def _hidden_names(tree: _Tree, tool: str, server_populated: Set[str]) -> frozenset[str]:
    """Return the hidden names; a name hides every parameter and field with that name."""
    top = tree.root["fields"]
    hidden = frozenset(server_populated) | names_marked(top.items(), tree.definitions)
    public = tree.only(top.keys() - hidden)
    below = [*struct_fields(public.root, public.definitions)]
    unknown = server_populated - top.keys() - {name for name, _ in below}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"Unknown server-populated parameters: {names} (of tool {tool!r})")
    return hidden | names_marked(below, tree.definitions)


def _rewritten(public: _Tree, hidden: frozenset[str], tool: str) -> _Tree:
    rewriter = Rewriter(hidden, public.definitions)
    try:
        root = rewriter.rewrite(public.root)
    except StrayMarkerError:
        raise TypeError(
            f"Tool {tool!r}: HIDDEN hides a whole parameter or field; it cannot mark a part of its type"
        ) from None
    return _Tree(root, {**public.definitions, **rewriter.definitions})


def _json_schema(public: _Tree, tool: str, hidden_keys: Set[str]) -> dict[str, Any]:
    try:
        return json_schema(public.core_schema, hidden_keys)
    except Exception as error:
        for name in public.root["fields"]:
            try:
                json_schema(public.only({name}).core_schema, hidden_keys)
            except Exception as own:  # noqa: BLE001 - also what an application's own hook raises
                raise unusable(tool, name, own) from error
        raise


def _required(fields: Iterable[tuple[str, Node]]) -> dict[str, bool]:
    return merge_required({name: is_required(field)} for name, field in fields)


def _standalone(tree: _Tree, names: Set[str]) -> _Tree:
    fields = {name: standalone(field) for name, field in tree.root["fields"].items() if name in names}
    return _Tree({**tree.root, "fields": fields}, tree.definitions)


def _check(public: _Tree) -> Check:
    validator = public.validator()
    if is_strict(public.root, public.definitions):
        # A strict date accepts text in JSON mode only.
        return lambda arguments: validator.validate_json(to_json(arguments))
    if may_return_input(public.root, public.definitions):
        # A tool that appends to its `list[Any]` must not change the request in the history.
        return lambda arguments: validator.validate_python(copy_json(arguments))
    return validator.validate_python


def _check_within(rewritten: _Tree) -> CheckWithin:
    validator = rewritten.validator(rewritten=True)
    return lambda arguments, trusted: validator.validate_python(copy_json(arguments), context=trusted)
