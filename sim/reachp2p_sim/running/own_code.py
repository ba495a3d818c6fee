"""Scenarios and checkers of a user's own, in a Python file that is run by its path or named by a scenario file.

    from reachp2p_sim import Checker, scenario

A file may define checkers (subclasses of `Checker`) and stories (functions under `@scenario`). It is run as the program
that it is: only files that the user named are loaded. A file that has changed is loaded anew.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import format_exception_only

from reachp2p_sim.checkers import CHECKERS
from reachp2p_sim.checkers.base import Checker
from reachp2p_sim.scenarios.base import Scenario, collecting


class OwnCodeInvalid(ValueError):
    """A file of the user's cannot be used. The message names it and says why."""


@dataclass(slots=True, frozen=True)
class OwnCode:
    """What was found in a file, in the order of its text."""

    scenarios: tuple[Scenario, ...]
    checkers: tuple[type[Checker], ...]


_LOADED: dict[tuple[str, int], OwnCode] = {}
LOADED_MAX = 256
DETERMINISM = "determinism"
"""The checker that is no class of its own: it needs a second run."""


def load(path: Path) -> OwnCode:
    """Run a file and see what it defines. Raises `OwnCodeInvalid`."""
    try:
        real = path.resolve(strict=True)
        key = (str(real), real.stat().st_mtime_ns)
    except OSError as error:
        raise OwnCodeInvalid(f"{path}: {error.strerror or error}") from error
    found = _LOADED.get(key)
    if found is None:
        if len(_LOADED) >= LOADED_MAX:
            _LOADED.clear()
        found = _LOADED[key] = _load(real)
    return found


def _load(path: Path) -> OwnCode:
    name = f"reachp2p_sim_own_{blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OwnCodeInvalid(f"{path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # so that dataclasses and pickles of the file find it
    with collecting() as scenarios:
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            reason = "".join(format_exception_only(error)).strip()
            raise OwnCodeInvalid(f"{path}: {reason}") from error
    checkers = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Checker) and value.__module__ == name
    ]
    taken = {checker.name for checker in CHECKERS} | {DETERMINISM}
    for checker in checkers:
        for field in ("name", "invariant"):
            if not isinstance(getattr(checker, field, None), str):
                raise OwnCodeInvalid(f"{path}: checker {checker.__name__} needs a class attribute `{field}`")
        if checker.name in taken:
            raise OwnCodeInvalid(
                f"{path}: there is a checker {checker.name!r} already: give yours another name"
            )
    return OwnCode(tuple(scenarios.values()), tuple(checkers))
