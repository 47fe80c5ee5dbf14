"""What the project's pages say is run, and what they point to is there."""

import re
from dataclasses import replace
from typing import Any

import pytest

from seqoria_runtime.client import AsyncAIClient
from seqoria_runtime.testing import Backend, ScriptedProvider, run_virtual, says
from tests.support.chat_server import Answer, serve
from tests.support.pages import ROOT, Piece, is_coroutine, pages, pieces
from tests.test_architecture import FLOORS, INNER_ORDER

PLACEHOLDER = "http://localhost:8080/v1"
"""What stands in the pages for the URL of a model server."""


def answer(request: dict[str, Any]) -> Answer:
    """What the programs of the pages hear from a model: a call of their tool, and then a text."""
    if request["messages"][-1]["role"] == "user" and "tools" in request:
        return Answer(text=["Let me look. "], calls=[("weather", {"city": "Lisbon"})])
    return Answer(text=["Lisbon has ", "18 degrees."])


def run(piece: Piece, namespace: dict[str, Any], backend: Backend) -> None:
    exec(piece.compiled(piece.setup), namespace)
    if not piece.is_asynchronous:
        exec(piece.compiled(piece.code), namespace)
        exec(piece.compiled(piece.check), namespace)
    else:
        run_virtual(run_with_client, piece, namespace, backend=backend)


async def run_with_client(piece: Piece, namespace: dict[str, Any]) -> None:
    """Run a piece in an open client that is made of what the namespace holds."""
    script = namespace.get("script")
    provider = ScriptedProvider(lambda _: says("Hello.")) if script is None else ScriptedProvider(script)
    if not is_coroutine(piece.compiled(piece.code)):
        exec(piece.compiled(piece.code), namespace)
    client = AsyncAIClient(
        [provider],
        local_toolbox=namespace.get("tools"),
        param_registry=namespace.get("registry"),
        **namespace.get("limits", {}),
    )
    namespace |= {"client": client, "history": []}
    async with client:
        if is_coroutine(piece.compiled(piece.code)):
            await piece.run(piece.code, namespace)
        await piece.run(piece.check, namespace)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("page", [page for page in pages() if any(pieces(page))])
def test_the_code_of_a_page_runs(page: str, backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with serve(answer) as server:
        for piece in pieces(page):
            try:
                run(replace(piece, code=piece.code.replace(PLACEHOLDER, server.url)), namespace, backend)
            except BaseException as error:
                error.add_note(f"in {piece.name}")
                raise
    if PLACEHOLDER in (ROOT / page).read_text(encoding="utf-8"):
        assert "Lisbon has 18 degrees." in capsys.readouterr().out


@pytest.mark.parametrize("page", pages())
def test_every_python_of_a_page_is_run(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```(?:python|py|pycon)", text, re.MULTILINE)) == len(list(pieces(page)))


@pytest.mark.parametrize("page", pages())
def test_what_a_page_links_to_is_there(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page} links to {target}"


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def table_rows(page: str) -> list[list[list[str]]]:
    """Return the names in backticks of each cell of each row of a page's tables."""
    rows = re.findall(r"^\|(.+)\|$", page, re.MULTILINE)
    return [[re.findall(r"`([^`]+)`", cell) for cell in row.split("|")] for row in rows]


def test_the_architecture_page_shows_every_room_and_no_other_file() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "seqoria_runtime"
    shown = {name.rstrip("/") for _, names, *_ in table_rows(page) for name in names}
    assert {
        name for name in shown if not (package / name).exists() and not (package / f"{name}.py").exists()
    } == set()
    rooms = {name for floors in (FLOORS, *INNER_ORDER.values()) for floor in floors for name in floor}
    folders = {name.replace(".", "/") for name in rooms if (package / name.replace(".", "/")).is_dir()}
    # The page shows the rooms of the kit only in their order, and what `_execution` and `_base` hold.
    assert {name for name in folders if not name.startswith("testing/")} - {"_execution", "_base"} <= shown
    assert {name for name in re.findall(r"`(tests/[\w/.]+)`", page) if not (ROOT / name).exists()} == set()


def test_what_decides_something_on_the_architecture_page_is_in_the_file_that_it_names() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for _, files, names in table_rows(page.partition("## Where is it decided?")[2].partition("##")[0]):
        text = "".join((ROOT / "seqoria_runtime" / file).read_text(encoding="utf-8") for file in files)
        missing = [name for name in names if not re.search(rf"(def|class) {name.rpartition('.')[2]}\b", text)]
        assert missing == [], files


@pytest.mark.parametrize("room", INNER_ORDER)
def test_the_order_inside_a_room_is_on_the_architecture_page(room: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition('"is below":')[2].split("```")[1]
    lines = dict(line.split(maxsplit=1) for line in re.sub(r"\n +<", " <", block).strip().splitlines())
    order = [[name.partition(".")[2] for name in floor] for floor in INNER_ORDER[room]]
    assert [floor.strip().split(", ") for floor in lines[room].split("<")] == order
