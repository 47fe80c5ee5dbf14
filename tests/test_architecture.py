"""The rooms of the package, which way their imports go, and how large they may be (docs/architecture.md)."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqoria_runtime

PACKAGE = Path(seqoria_runtime.__file__).parent
ROOT = PACKAGE.parent
MAX_LINES = 400
MAX_MODULES = 12

# A room is all modules under these names; the longest name that fits counts.
FLOORS: list[list[str]] = [
    ["_base", "_base.checks", "_base.redaction", "_base.retry_after"],
    ["models"],
    ["_base.tools"],
    ["_base.catalogue", "_execution.places", "client._history"],
    ["_execution.batches"],
    ["_execution", "_base.retry_policy"],
    ["toolbox", "providers", "mcp"],
    ["client"],
    ["testing", "observe"],
    ["tuning"],
    ["cli", "_pytest_plugin"],
]
PURE_FLOORS = 5
PURE_FOLDERS = [
    "_base",
    "models",
    "_execution.places",
    "_execution.batches",
    "client._history",
    "providers._answers",
    "providers._requests",
]
IMPURE = {"_base.retry_policy": "it sleeps between attempts"}
TOP = ("", "__main__")

# Inside of these rooms the same holds again, from the ground up.
INNER_ORDER: dict[str, list[list[str]]] = {
    "_execution": [
        ["_execution.places"],
        ["_execution.batches"],
        ["_execution.calls"],
        ["_execution.streams"],
    ],
    "testing": [
        ["testing._clock"],
        ["testing._schedules", "testing._tools"],
        ["testing._virtual_time", "testing._model", "testing._mcp_tools", "testing.tools"],
        ["testing._trace", "testing.mcp"],
        ["testing._leaks", "testing._explore", "testing.invariants"],
        ["testing._check", "testing.strategies"],
        ["testing.toolbox_check", "testing.stateful"],
    ],
    "providers": [
        ["providers._protocol", "providers._json", "providers.errors"],
        ["providers._requests"],
        ["providers._answers"],
        ["providers._http"],
        ["providers._chat", "providers._responses", "providers._anthropic", "providers._ollama"],
        ["providers._fallback"],
    ],
    "mcp": [
        ["mcp._config"],
        ["mcp._login"],
        ["mcp._transport"],
        ["mcp._connection"],
        ["mcp._tools"],
        ["mcp._server_set", "mcp._connect"],
    ],
    "toolbox": [
        ["toolbox._reading"],
        ["toolbox._hidden"],
        ["toolbox._compile", "toolbox._results"],
        ["toolbox._tool"],
        ["toolbox._toolbox"],
    ],
}

HOMES = {
    "asyncio": [
        "testing._clock.virtual_loop",
        "testing._schedules.scheduled_loop",
        "testing._explore.interruption",
        "testing.stateful._asyncio_stepper",
    ],
    "trio": [
        "testing._clock.virtual_clock",
        "testing._schedules.scheduled_trio",
        "testing.stateful._trio_stepper",
    ],
    "mcp": ["mcp", "testing.mcp"],
    "mcp_types": ["mcp", "testing.mcp"],
    "httpx2": ["mcp"],
    "jsonschema": ["mcp"],
    "httpx": ["providers._http"],
}


def is_under(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".")


def room_of(module: str, floors: list[list[str]] = FLOORS) -> tuple[int, str]:
    """Return a module's floor and room; what is in none stands above all."""
    rooms = [(floor, name) for floor, names in enumerate(floors) for name in names if is_under(module, name)]
    return max(rooms, key=lambda room: len(room[1])) if rooms else (len(floors), module)


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}
FOLDERS = [module for module, path in SOURCES.items() if path.name == "__init__.py"]
PURE = [
    module
    for module in SOURCES
    if room_of(module)[0] < PURE_FLOORS or any(is_under(module, folder) for folder in PURE_FOLDERS)
]


def imports(module: str) -> Iterator[str]:
    """Yield the full dotted name of everything that a module imports, lazily or for types only too."""
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
    """Return the modules of the package that a module imports, by their names in `SOURCES`."""
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
        assert other_room == room or other_floor < floor, f"{module or 'seqoria_runtime'} imports {imported}"


@pytest.mark.parametrize("room", INNER_ORDER)
def test_imports_inside_of_a_room_go_down_only(room: str) -> None:
    order = INNER_ORDER[room]
    for module in (module for module in SOURCES if is_under(module, room)):
        floor, part = room_of(module, order)
        for imported in (imported for imported in own_imports(module) if is_under(imported, room)):
            other_floor, other_part = room_of(imported, order)
            assert other_part == part or other_floor < floor, f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    # A public module imports what it exports; what it exports may import its siblings, not the public module.
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


@pytest.mark.parametrize("module", [module for module in PURE if module not in IMPURE])
def test_a_pure_module_knows_nothing_of_tasks_and_threads(module: str) -> None:
    banned = ("anyio", "sniffio", "threading", "concurrent")
    assert not [name for name in imports(module) if any(is_under(name, library) for library in banned)]


def test_each_exception_from_purity_is_needed() -> None:
    assert [
        module for module in IMPURE if "anyio" not in {name.partition(".")[0] for name in imports(module)}
    ] == []
    assert [name for name in (*PURE_FOLDERS, *IMPURE) if name not in SOURCES] == []


@pytest.mark.clause("C6")
@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_in_its_home_only(library: str) -> None:
    users = {module for module in SOURCES if any(is_under(name, library) for name in imports(module))}
    assert not {user for user in users if not any(is_under(user, home) for home in HOMES[library])}


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_is_short_and_says_what_it_does(module: str) -> None:
    text = SOURCES[module].read_text()
    assert text.count("\n") <= MAX_LINES
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, f"{module} has no docstring"
    tree_of_errors = module == "models.errors"
    assert len(docstring.splitlines()) <= (40 if tree_of_errors else 8)


def test_a_folder_has_few_modules() -> None:
    modules = {folder: len(list(SOURCES[folder].parent.glob("*.py"))) - 1 for folder in FOLDERS}
    assert [folder for folder, count in modules.items() if count > MAX_MODULES] == []


def test_a_class_name_means_one_class() -> None:
    trees = [ast.parse(path.read_text()) for path in SOURCES.values()]
    classes = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_a_module_without_an_underscore_is_public_and_lists_its_names() -> None:
    public = [module for module in SOURCES if not any(part.startswith("_") for part in module.split("."))]
    assert [module for module in public if not lists_its_names(SOURCES[module])] == []


def lists_its_names(path: Path) -> bool:
    targets = [
        target
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


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
