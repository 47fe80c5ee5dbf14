"""Fixtures of the tests of remote servers."""

from collections.abc import Iterator

import pytest

from tests.support.fork_server import Command, fork_server


@pytest.fixture(scope="session")
def forked() -> Iterator[Command]:
    """Return a function that makes the command of a fast-starting server from its module and arguments."""
    with fork_server() as command:
        yield command
