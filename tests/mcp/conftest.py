"""What the tests of remote servers share."""

from collections.abc import Iterator

import pytest

from tests.support.fork_server import Command, fork_server


@pytest.fixture(scope="session")
def forked() -> Iterator[Command]:
    """Makes the command of a server process, which starts at once, from its module and arguments."""
    with fork_server() as command:
        yield command
