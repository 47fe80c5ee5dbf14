"""The sessions of nox; `nox -l` lists them. CI runs .ci/run."""

from itertools import chain
from pathlib import Path

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types", "docs_examples"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PYPROJECT)


def install(session: nox.Session, *groups: str) -> None:
    session.install("-e", ".[all]", *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on both backends."""
    install(session, "test")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """Run the tests with the lowest version of each dependency that pyproject.toml allows."""
    constraints = Path(session.create_tmp()).resolve() / "oldest.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in lowest_versions()), encoding="utf-8")
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    session.install("--constraint", str(constraints), "-e", ".[all]", *groups)
    session.run("pytest", "-n", "auto", *session.posargs)


def lowest_versions() -> list[str]:
    project = PYPROJECT["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    wanted = [Requirement(text) for text in (*project["dependencies"], *extras, *groups)]
    bounds = [(each.name, bound) for each in wanted for bound in each.specifier]
    return sorted({f"{name}=={bound.version}" for name, bound in bounds if bound.operator == ">="})


@nox.session(python=PYTHONS[-1])
def newest(session: nox.Session) -> None:
    """Run the tests with the newest version of each dependency, pre-releases included."""
    groups = nox.project.dependency_groups(PYPROJECT, "test")
    session.install("--pre", "--upgrade", "--upgrade-strategy", "eager", "-e", ".[all]", *groups)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the package, the tests and the examples."""
    install(session, "types")
    session.run("mypy")


@nox.session
def verify_types(session: nox.Session) -> None:
    """Check that an installed package tells type checkers the type of everything public."""
    session.install(".[all]", *nox.project.dependency_groups(PYPROJECT, "types"))
    # Away from the sources, which pyright would take for the package.
    with session.chdir(session.create_tmp()):
        session.run("pyright", "--verifytypes", "seqoria_runtime", "--ignoreexternal")


@nox.session
def docs_examples(session: nox.Session) -> None:
    """Run every example of the docs."""
    install(session, "test")
    session.run("python", "docs/run_examples.py")


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches of the package the tests reach."""
    install(session, "test", "coverage")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "report")


@nox.session
def thorough(session: nox.Session) -> None:
    """Run the tests with many more Hypothesis examples; takes long."""
    install(session, "test")
    session.run(
        "pytest", "-o", "faulthandler_timeout=0", *session.posargs, env={"HYPOTHESIS_PROFILE": "thorough"}
    )


@nox.session
def exploration(session: nox.Session) -> None:
    """Run scenarios in 10,000 orders of their tasks, and end them at every step; takes an hour."""
    install(session, "test")
    long = ["-n", "auto", "-o", "faulthandler_timeout=0", *session.posargs]
    env = {"HYPOTHESIS_PROFILE": "thorough", "TEST_LIMIT": "7200"}
    session.run("pytest", "tests/testing/test_runtime_explored.py", *long, env=env)


@nox.session
def servers(session: nox.Session) -> None:
    """Ask a small real model, and a mock server that fails on purpose; needs node."""
    install(session, "test")
    form, *arguments = session.posargs or ["all"]
    env = {"PYTHON": "python", "MODEL_SERVERS": str(Path(session.create_tmp()).resolve())}
    session.run(".ci/model-servers", form, *arguments, external=True, env=env)


@nox.session
def mcp_official(session: nox.Session) -> None:
    """Use the official MCP servers and run the official conformance suite; needs node."""
    install(session, "test")
    folder = Path(session.create_tmp()).resolve()
    env = {"PYTHON": str(Path(session.bin) / "python"), "MCP_OFFICIAL": str(folder)}
    session.run(".ci/mcp-servers", "all", *session.posargs, external=True, env=env)


@nox.session(python="3.12")
def benchmarks(session: nox.Session) -> None:
    """Compare the runtime with floors and peers, one of which needs Python 3.12; takes half an hour."""
    install(session, "benchmarks")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def before_after(session: nox.Session) -> None:
    """Compare the working tree with another commit: `nox -s before_after -- BASE`."""
    install(session, "benchmarks")
    session.run("python", "-m", "benchmarks.before_after", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel and run the tests on it, away from the sources."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "build", "test"))
    built = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "build", "--outdir", str(built), ".", silent=True)
    newest = max(built.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.install(f"seqoria-runtime[all] @ {newest.as_uri()}")
    # Without the safe path the sources in the working folder would come before the wheel.
    session.run("pytest", *(session.posargs or ["tests"]), env={"PYTHONSAFEPATH": "1"})
