"""The rooms of the house, and which way its imports go (docs/architecture.md)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqoria_runtime

PACKAGE = Path(seqoria_runtime.__file__).parent
ROOT = PACKAGE.parent
MAX_LINES = 300

# A room is all modules under these names; the longest name that fits counts.
FLOORS: list[list[str]] = [
    ["_base", "_base.checks", "_base.redaction", "_base.retry_after"],
    ["models"],
    ["_base.tools"],
    [
        "_base.catalogue",
        "_execution.batches.planner",
        "_execution.batches.outcomes",
        "_execution.places.adaptive",
        "client._history.record",
    ],
    ["_execution", "_base.retry_policy"],
    ["toolbox", "providers", "mcp"],
    ["client"],
    ["testing", "observe"],
    ["tuning"],
    ["cli", "_pytest_plugin"],
]
PURE_FLOORS = 4
TOP = ("", "__main__")

HOMES = {
    "asyncio": [
        "testing._clock.virtual_loop",
        "testing._schedules.scheduled_loop",
        "testing._explore.native_cancellation",
        "testing.stateful._asyncio_pump",
    ],
    "trio": [
        "testing._clock.virtual_clock",
        "testing._schedules.scheduled_trio",
        "testing.stateful._trio_pump",
    ],
    "mcp": ["mcp", "testing._mcp.wire"],
    "mcp_types": ["mcp", "testing._mcp.wire"],
    "httpx2": ["mcp"],
    "jsonschema": ["mcp"],
    "httpx": ["providers._http"],
}


# Within a room, from the ground up: a module imports from earlier entries and from its own only.
INNER_ORDER: dict[str, list[list[str]]] = {
    "mcp": [
        ["_config"],
        ["_login"],
        ["_transport"],
        ["_connection"],
        ["_tools"],
        ["_server_set", "_connect"],
        [""],
    ],
    "toolbox": [["_reading"], ["_hidden"], ["_compile", "_results"], ["_tool"], ["_toolbox"], [""]],
}


def is_under(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".")


def room_of(module: str) -> tuple[int, str]:
    """The floor and the name of a module's room; the package's window and its entry stand above all."""
    rooms = [(floor, name) for floor, names in enumerate(FLOORS) for name in names if is_under(module, name)]
    return max(rooms, key=lambda room: len(room[1])) if rooms else (len(FLOORS), module)


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """Everything that a module imports, lazily or for its types alone too, by full dotted names."""
    path = SOURCES[module]
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*parts[: -node.level], *filter(None, [node.module])]) if node.level else node.module
            )
            yield from (f"{base}.{alias.name}" for alias in node.names)


def own_imports(module: str) -> set[str]:
    """The package's own modules that a module imports, as names in `SOURCES`."""
    found = set()
    for name in imports(module):
        package, _, rest = name.partition(".")
        if package != seqoria_runtime.__name__:
            continue
        while rest not in SOURCES:
            rest = rest.rpartition(".")[0]
        found.add(rest)
    return found - {module}


def test_every_module_is_in_a_room() -> None:
    homeless = [module for module in SOURCES if room_of(module)[0] == len(FLOORS) and module not in TOP]
    assert homeless == [], "name their rooms in FLOORS"


@pytest.mark.parametrize("module", SOURCES)
def test_imports_go_down_only_and_edges_never_import_each_other(module: str) -> None:
    floor, room = room_of(module)
    for imported in own_imports(module):
        other_floor, other_room = room_of(imported)
        assert other_room == room or other_floor < floor, f"{module or 'the window'} imports {imported}"


@pytest.mark.parametrize("room", INNER_ORDER)
def test_imports_within_a_room_go_down_only(room: str) -> None:
    places = {
        f"{room}.{name}".removesuffix("."): (floor, name)
        for floor, names in enumerate(INNER_ORDER[room])
        for name in names
    }

    def place(module: str) -> tuple[int, str]:
        return places[max((name for name in places if is_under(module, name)), key=len)]

    for module in (module for module in SOURCES if is_under(module, room)):
        for imported in (imported for imported in own_imports(module) if is_under(imported, room)):
            same = place(imported) == place(module)
            assert same or place(imported)[0] < place(module)[0], f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    # A package's window imports what it shows; what it shows may import its siblings, not the window.
    graph = {module: own_imports(module) for module in SOURCES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " imports ".join([*path[path.index(module) :], module])
        if module not in done:
            for imported in graph[module]:
                visit(imported, (*path, module))
            done.add(module)

    for module in SOURCES:
        visit(module, ())


@pytest.mark.parametrize("module", [module for module in SOURCES if room_of(module)[0] < PURE_FLOORS])
def test_words_and_rules_know_nothing_of_concurrency(module: str) -> None:
    assert not [name for name in imports(module) if is_under(name, "anyio") or is_under(name, "threading")]


@pytest.mark.clause("C6")
@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_in_its_home_only(library: str) -> None:
    users = {module for module in SOURCES if any(is_under(name, library) for name in imports(module))}
    assert not {user for user in users if not any(is_under(user, home) for home in HOMES[library])}


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_fits_on_a_few_pages_and_says_what_it_is_for(module: str) -> None:
    text = SOURCES[module].read_text()
    lines = text.count("\n")
    assert lines <= MAX_LINES
    if text:
        docstring = ast.get_docstring(ast.parse(text))
        assert docstring, f"{module} has no docstring"
        assert (
            len(docstring.splitlines()) <= 40
            if module == "models.errors"
            else len(docstring.splitlines()) <= 8
        )


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("seqoria_runtime", {"mcp", "httpx", "trio", "hypothesis", "rich"}),
        ("seqoria_runtime.models", {"mcp", "httpx", "trio", "hypothesis", "rich", "anyio"}),
        ("seqoria_runtime.client", {"mcp", "httpx", "trio", "hypothesis", "rich"}),
        ("seqoria_runtime.providers", {"mcp", "httpx", "trio", "hypothesis", "rich"}),
        ("seqoria_runtime.toolbox", {"mcp", "httpx", "trio", "hypothesis", "rich"}),
        ("seqoria_runtime.mcp", {"mcp", "mcp_types", "httpx2", "jsonschema", "httpx", "trio", "anyio"}),
        ("seqoria_runtime.testing", {"mcp", "httpx", "trio", "hypothesis", "rich"}),
    ],
)
def test_importing_a_room_stays_light(module: str, absent: set[str]) -> None:
    program = f"import sys, {module}; print(*{absent!r} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


A_CLIENT = """
import sys
from seqoria_runtime import AsyncAIClient, LocalToolbox
from seqoria_runtime.providers import AsyncBaseProvider

class Silent(AsyncBaseProvider):
    def stream(self, request): raise NotImplementedError

AsyncAIClient([Silent()], local_toolbox=LocalToolbox())
print(*sys.modules)
"""


def test_a_client_without_servers_loads_nothing_for_rare_paths() -> None:
    done = subprocess.run(
        [sys.executable, "-c", A_CLIENT], capture_output=True, text=True, timeout=50, check=True
    )
    loaded = set(done.stdout.split())
    own = [module for module in SOURCES if f"seqoria_runtime.{module}" in loaded]
    assert "client._client" in own
    above = [module for module in own if room_of(module)[0] > room_of("client")[0]]
    rare = [module for module in own if is_under(module, "mcp") or is_under(module, "providers._http")]
    assert (above, rare, loaded & {"asyncio", "ssl", "http.client"}) == ([], [], set())
