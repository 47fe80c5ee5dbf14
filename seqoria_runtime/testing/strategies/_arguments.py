"""Makes a strategy from a JSON schema as pydantic writes it. Ignores keywords that it does not know."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

Values: TypeAlias = st.SearchStrategy[Any]

_SCALARS: Values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
_CHARACTERS = st.characters(codec="utf-8")
_TEXT = st.text(_CHARACTERS, max_size=20)
_ANY: Values = st.recursive(
    _SCALARS | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=4,
)
_KEYS = st.text(st.characters(codec="ascii", categories=["L", "Nd"]), min_size=1, max_size=8)
_FORMATS: Mapping[str, Values] = {
    "date": st.dates().map(str),
    "date-time": st.builds(
        lambda moment, zone: moment.isoformat() + zone, st.datetimes(), st.sampled_from(["Z", "+05:30"])
    ),
    "time": st.times().map(lambda time: time.isoformat()),
    "duration": st.integers(0, 10**6).map(lambda seconds: f"PT{seconds}S"),
    "uuid": st.uuids().map(str),
    "uri": st.from_regex(r"https://[a-z]{1,8}\.example/[a-z]{0,8}", fullmatch=True),
    "email": st.from_regex(r"[a-z]{1,8}@[a-z]{1,8}\.example", fullmatch=True),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).map(str),
}


def json_values(schema: Mapping[str, Any] | bool = True) -> Values:
    """Values that a JSON schema allows, such as the arguments of a tool by its `input_schema`.

    Understands what pydantic writes: types, enumerations, bounds, patterns, common formats, references
    (even recursive ones), unions, tuples and objects.
    """
    definitions = {} if isinstance(schema, bool) else schema.get("$defs", {})
    return _SchemaReader(definitions).values(schema)


class _SchemaReader:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._referred: dict[str, Values] = {}
        self._readers: Mapping[str, Callable[[Mapping[str, Any]], Values]] = {
            "string": _strings,
            "integer": _integers,
            "number": _numbers,
            "boolean": lambda _: st.booleans(),
            "null": lambda _: st.none(),
            "array": self._arrays,
            "object": self._objects,
        }

    def values(self, schema: Mapping[str, Any] | bool) -> Values:
        if isinstance(schema, bool):
            return _ANY if schema else st.nothing()
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return st.one_of([self.values(option) for option in schema[union]])
        if "allOf" in schema:
            return self.values(self._joined(schema["allOf"]))
        return self._of_types(schema)

    def _of_types(self, schema: Mapping[str, Any]) -> Values:
        types = schema.get("type")
        if types is None:
            return self._objects(schema) if "properties" in schema else _ANY
        names = [types] if isinstance(types, str) else types
        return st.one_of([self._readers[name](schema) for name in names])

    def _reference(self, path: str) -> Values:
        name = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if name not in self._referred:
            self._referred[name] = st.deferred(lambda: self.values(self._definitions[name]))
        return self._referred[name]

    def _joined(self, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for part in parts:
            name = part.get("$ref", "").rpartition("/")[2]
            joined |= self._definitions[name] if name else part
        return joined

    def _arrays(self, schema: Mapping[str, Any]) -> Values:
        if "prefixItems" in schema:
            return st.tuples(*map(self.values, schema["prefixItems"])).map(list)
        least = schema.get("minItems", 0)
        return st.lists(
            self.values(schema.get("items", True)),
            min_size=least,
            max_size=schema.get("maxItems", least + 4),
            unique_by=_canonical if schema.get("uniqueItems") else None,
        )

    def _objects(self, schema: Mapping[str, Any]) -> Values:
        properties = {name: self.values(inner) for name, inner in schema.get("properties", {}).items()}
        required = schema.get("required", ())
        fixed = st.fixed_dictionaries(
            {name: properties[name] for name in properties if name in required},
            optional={name: properties[name] for name in properties if name not in required},
        )
        others = schema.get("additionalProperties", False)
        if not others:
            return fixed
        least = schema.get("minProperties", 0)
        more = st.dictionaries(
            _KEYS.filter(lambda key: key not in properties),
            self.values(others),
            min_size=max(0, least - len(required)),
            max_size=schema.get("maxProperties", least + 3),
        )
        return more if not properties else st.builds(lambda rest, own: {**rest, **own}, more, fixed)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _strings(schema: Mapping[str, Any]) -> Values:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" in schema:
        pattern = st.from_regex(schema["pattern"], alphabet=_CHARACTERS)
        return pattern.filter(lambda text: least <= len(text) <= (math.inf if most is None else most))
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return st.text(_CHARACTERS, min_size=least, max_size=least + 20 if most is None else most)


def _bounds(schema: Mapping[str, Any]) -> tuple[Any, Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    return low, high


def _integers(schema: Mapping[str, Any]) -> Values:
    low, high = _bounds(schema)
    step = schema.get("multipleOf", 1)
    least = None if low is None else math.ceil(low / step) + ("exclusiveMinimum" in schema and not low % step)
    most = (
        None if high is None else math.floor(high / step) - ("exclusiveMaximum" in schema and not high % step)
    )
    whole = st.integers(least, most) if (least, most) != (None, None) else st.integers(-(2**53), 2**53)
    return whole if step == 1 else whole.map(lambda number: number * step)


def _numbers(schema: Mapping[str, Any]) -> Values:
    low, high = _bounds(schema)
    if "multipleOf" in schema:
        return _integers({key: value for key, value in schema.items() if key != "type"})
    return st.floats(
        low,
        high,
        allow_nan=False,
        allow_infinity=False,
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
    )
