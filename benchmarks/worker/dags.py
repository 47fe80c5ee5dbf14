"""The DAGs of calls, and a lower bound for the makespan of each.

A node's call takes its seconds and waits for the nodes that it depends on.
"""

import random
from dataclasses import dataclass

CAP = 16


@dataclass(frozen=True)
class Node:
    seconds: float
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dag:
    name: str
    nodes: dict[str, Node]

    def lower_bound(self, cap: int = CAP) -> float:
        """Return the seconds that any schedule takes: the longest path, or the work shared by the slots."""
        ends: dict[str, float] = {}
        for name, node in self.nodes.items():
            ends[name] = node.seconds + max((ends[other] for other in node.depends_on), default=0.0)
        work = sum(node.seconds for node in self.nodes.values())
        return max(*ends.values(), work / cap)

    def layers(self) -> list[list[str]]:
        """Return the names by depth, to run layer by layer."""
        depths: dict[str, int] = {}
        for name, node in self.nodes.items():
            depths[name] = 1 + max((depths[other] for other in node.depends_on), default=-1)
        return [
            [name for name in self.nodes if depths[name] == depth]
            for depth in range(max(depths.values()) + 1)
        ]


def lanes() -> dict[str, Node]:
    """Six chains whose slow steps come at different depths."""
    nodes: dict[str, Node] = {}
    for lane in range(6):
        for step in range(6):
            before = (f"n{lane}_{step - 1}",) if step else ()
            nodes[f"n{lane}_{step}"] = Node(0.080 if step == lane else 0.008, before)
    return nodes


def diamonds() -> dict[str, Node]:
    """Four diamonds in a row, each with eight unequal sides."""
    nodes = {"start": Node(0.005)}
    last = "start"
    for turn in range(4):
        sides = [f"side{turn}_{n}" for n in range(8)]
        nodes |= {side: Node(0.005 + 0.003 * n, (last,)) for n, side in enumerate(sides)}
        last = f"join{turn}"
        nodes[last] = Node(0.005, tuple(sides))
    return nodes


def scattered() -> dict[str, Node]:
    """Sixty calls of 2 to 40 ms, each behind up to two earlier ones."""
    rng = random.Random(6)
    nodes: dict[str, Node] = {}
    for n in range(60):
        before = sorted(rng.sample(range(n), min(n, rng.randint(0, 2))))
        nodes[f"n{n}"] = Node(rng.uniform(0.002, 0.040), tuple(f"n{other}" for other in before))
    return nodes


def spine() -> dict[str, Node]:
    """One long chain, and short calls next to each of its steps."""
    nodes: dict[str, Node] = {}
    for step in range(10):
        before = (f"spine{step - 1}",) if step else ()
        nodes[f"spine{step}"] = Node(0.012, before)
        nodes |= {f"beside{step}_{n}": Node(0.030 if n == 0 else 0.003, before) for n in range(4)}
    return nodes


def wide() -> dict[str, Node]:
    """More calls than the cap at every moment, short ones first and the long ones last in order."""
    rng = random.Random(60)
    seconds = sorted(rng.lognormvariate(-4.2, 0.8) for _ in range(96))
    nodes = {f"n{n}": Node(min(value, 0.080)) for n, value in enumerate(seconds)}
    nodes |= {f"after{n}": Node(0.008, (f"n{n}", f"n{n + 1}")) for n in range(0, 32, 2)}
    return nodes


def no_ops(count: int) -> dict[str, Node]:
    """Calls that take no time, each behind up to three of the fifty before it."""
    rng = random.Random(count)
    nodes: dict[str, Node] = {}
    for n in range(count):
        earlier = range(max(0, n - 50), n)
        before = sorted(rng.sample(earlier, min(len(earlier), rng.randint(0, 3))))
        nodes[f"n{n}"] = Node(0.0, tuple(f"n{other}" for other in before))
    return nodes


TIMED = {make.__name__: make for make in (lanes, diamonds, scattered, spine, wide)}


def dag_named(name: str) -> Dag:
    """Return one of `TIMED`, or `no_ops:COUNT`."""
    if name.startswith("no_ops:"):
        return Dag(name, no_ops(int(name.partition(":")[2])))
    return Dag(name, TIMED[name]())
