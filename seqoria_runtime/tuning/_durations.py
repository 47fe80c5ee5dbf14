"""Distributions of durations, written as `lognormal,median=50ms,p99=2s`."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import TypeAlias

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|)")
_P99 = NormalDist().inv_cdf(0.99)

_Draw: TypeAlias = Callable[[Random], float]


@dataclass(frozen=True, slots=True)
class Durations:
    """A distribution of durations in seconds, and the text that it was parsed from."""

    text: str
    draw: _Draw

    @classmethod
    def parse(cls, text: str) -> "Durations":
        """Read a distribution; raises `ValueError`, which says what is wrong and lists the distributions."""
        name, *parts = text.split(",")
        known = _KINDS.get(name.strip())
        if known is None:
            raise ValueError(f"there is no distribution {name!r}; there are {', '.join(_KINDS)}")
        wanted, make = known
        values = _values(name, parts)
        if values.keys() != set(wanted):
            example = ",".join((name, *(f"{one}=..." for one in wanted)))
            raise ValueError(f"{text!r} must be of the form {example}")
        return cls(text, make(values))


def parse_seconds(text: str) -> float:
    """Read a duration such as 50ms, 2s, 1.5m or plain seconds; raises `ValueError`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 50ms, 2s or 0.5")
    return float(found[1]) * _UNITS[found[2]]


def _values(name: str, parts: list[str]) -> dict[str, float]:
    values = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{name}: {part!r} must be NAME=DURATION")
        if key.strip() in values:
            raise ValueError(f"{name}: {key.strip()!r} is given twice")
        values[key.strip()] = parse_seconds(value)
    return values


def _constant(values: Mapping[str, float]) -> _Draw:
    return lambda _: values["value"]


def _uniform(values: Mapping[str, float]) -> _Draw:
    if values["low"] > values["high"]:
        raise ValueError("uniform: 'low' must be at most 'high'")
    return lambda random: random.uniform(values["low"], values["high"])


def _exponential(values: Mapping[str, float]) -> _Draw:
    if not values["mean"]:
        raise ValueError("exponential: 'mean' must be above zero")
    return lambda random: random.expovariate(1 / values["mean"])


def _lognormal(values: Mapping[str, float]) -> _Draw:
    if not 0 < values["median"] <= values["p99"]:
        raise ValueError("lognormal: 'median' must be above zero and at most 'p99'")
    mu = math.log(values["median"])
    sigma = (math.log(values["p99"]) - mu) / _P99
    return lambda random: random.lognormvariate(mu, sigma)


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], _Draw]]] = {
    "constant": (("value",), _constant),
    "uniform": (("low", "high"), _uniform),
    "exponential": (("mean",), _exponential),
    "lognormal": (("median", "p99"), _lognormal),
}
