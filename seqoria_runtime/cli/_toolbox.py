"""Finds a toolbox of the application, by module and name."""

import importlib
import sys

from seqoria_runtime.toolbox import LocalToolbox

from ._command import CommandError


def load_toolbox(place: str, *, argument: str = "--toolbox") -> LocalToolbox:
    """Import `module:name`, from the current directory too.

    Raises `CommandError` that says what is wrong with this `argument` of the command line.
    """
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise CommandError(f"{argument}: must be MODULE:NAME, such as my_app.tools:tools, not {place!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise CommandError(
            f"{argument}: cannot import {module_name!r}: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{argument}: module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, LocalToolbox):
        raise CommandError(f"{argument}: {place} must be a LocalToolbox, not {type(found).__name__}")
    return found
