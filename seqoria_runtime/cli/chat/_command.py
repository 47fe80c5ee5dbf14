"""Owns the arguments of `seqoria-runtime chat`."""

from argparse import ArgumentParser, Namespace

from seqoria_runtime.cli._command import Command


def _add_arguments(parser: ArgumentParser) -> None: ...
def _run(arguments: Namespace) -> int:
    return 0


CHAT = Command("chat", "x", _add_arguments, _run)
