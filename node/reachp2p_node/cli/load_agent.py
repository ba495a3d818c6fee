"""`MODULE:AGENT` to an agent: a dotted module name or the path of a file, and a name inside it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

import reachp2p
from reachp2p.agent import Agent
from reachp2p.errors import ConfigurationInvalid, ReachError
from reachp2p.runtime.run import importing


def load_agent(target: str) -> Agent:
    """Import the module and return the agent. Raises `ConfigurationInvalid` (1704) saying what to write instead.

    The working directory is importable, as with `python -m`. What the module itself raises is left to its reader, with
    its traceback, as the cause.
    """
    module_text, _, name = target.rpartition(":")
    if not module_text:
        module_text, name = target, ""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    is_file = module_text.endswith(".py") or "/" in module_text
    with importing(module_text):
        module = _import_file(Path(module_text)) if is_file else _import_name(module_text)
    agents = {key: value for key, value in vars(module).items() if isinstance(value, Agent)}
    if not name:
        if len(agents) == 1:
            return next(iter(agents.values()))
        choice = f"{module_text}:{next(iter(agents))}" if agents else f"{module_text}:agent"
        raise ConfigurationInvalid(f"{target}: name the agent too, as in {choice}{_found(agents)}")
    if name in agents:
        return agents[name]
    if hasattr(module, name):
        kind = type(getattr(module, name)).__name__
        raise ConfigurationInvalid(f"{target}: {name!r} is a {kind}, not an Agent{_found(agents)}")
    close = difflib.get_close_matches(name, agents, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else _found(agents)
    raise ConfigurationInvalid(f"{target}: {module_text} has no {name!r}{hint}")


def _import_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationInvalid(f"{name!r} is neither a module name nor a file that ends with .py")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise _broken(name, error) from error
        hint = f"; did you mean the file {name}.py?" if Path(f"{name}.py").is_file() else ""
        raise ConfigurationInvalid(
            f"there is no module {name!r} here ({os.getcwd()}) or among the installed ones{hint}"
        ) from error
    except Exception as error:
        raise _broken(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigurationInvalid(f"there is no file {path}")
    name = (
        path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"agent_file_{path.stem}"
    )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationInvalid(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that dataclasses and pickles find it
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _broken(str(path), error) from error
    return module


def _broken(name: str, error: Exception) -> ConfigurationInvalid:
    """The reader's own mistake, with the line of theirs where it surfaced."""
    library = str(Path(reachp2p.__file__).parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((library, "<frozen")) and frame.filename != __file__
    ]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    said = error.message if isinstance(error, ReachError) else error  # the code comes once, at the end
    return ConfigurationInvalid(f"{name} cannot be imported: {type(error).__name__}: {said}{place}")


def _found(agents: dict[str, Agent]) -> str:
    return f"; agents in it: {', '.join(agents)}" if agents else "; there is no Agent in it"
