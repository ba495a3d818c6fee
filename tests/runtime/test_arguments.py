"""Whatever is given to a public function, what is wrong with it is said at the door: code, argument, value, advice."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import trio

from reachp2p import Agent, Node, ReachError
from reachp2p._arguments import shown
from reachp2p.config import load_config
from reachp2p.context import Context
from reachp2p.runtime.run import EXIT_ERROR, run, run_node

HUGE = 10**5_000
"""Has more digits than Python prints, so that its repr raises."""


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Pipe:
    """A type without a JSON Schema."""


class Kind(enum.Enum):
    PIPE = Pipe()


def failure_of(function: Callable[[], object]) -> ReachError:
    with pytest.raises(ReachError) as caught:
        function()
    return caught.value


def says(error: ReachError, words: str) -> None:
    text = str(error)
    assert words in text
    assert text.count("[17") == 1, "the code, once"
    assert "\n" not in text
    assert len(text) < 400


# Agents

WRONG_AGENTS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((5,), {}, "agent id 5: write text"),
    ((None,), {}, "agent id None: write text"),
    ((b"nlp/one",), {}, "agent id b'nlp/one': write text"),
    ((HUGE,), {}, "agent id a int that cannot be shown"),
    (("one",), {}, "agent id 'one': write namespace/name"),
    (("NLP/One",), {}, "write namespace/name in lower case"),
    (("a/b",), {"version": 1}, "version 1: write text, as in '1.2.0'"),
    (("a/b",), {"version": "1"}, "version '1': write a semantic version"),
    (("a/b",), {"version": None}, "version None"),
    (("a/b",), {"description": 5}, "the description is text of at most 4,096 characters, not 5"),
    (("a/b",), {"description": None}, "the description is text"),
    (("a/b",), {"description": "\ud800"}, "not '\\ud800'"),
    (("a/b",), {"tags": {"env": "\ud800"}}, "tag 'env': its value is text"),
    (("a/b",), {"access": []}, "access []: write text, as in 'restricted'"),
    (("a/b",), {"callers": None}, "callers None: write a list of texts"),
    (("a/b",), {"owner": ["me"]}, "the owner is text of at most 256 characters, not ['me']"),
    (("a/b",), {"tags": ["env"]}, "tags ['env']: write a dict"),
    (("a/b",), {"tags": "env=prod"}, "tags 'env=prod': write a dict"),
    (("a/b",), {"tags": 0}, "tags 0: write a dict"),
    (("a/b",), {"tags": {5: "x"}}, "tag key 5: write text"),
    (("a/b",), {"tags": {"env": 5}}, "tag 'env': its value is text of 1 to 256 characters, not 5"),
    (("a/b",), {"tags": {"env": None}}, "tag 'env': its value is text"),
    (("a/b",), {"tags": {"Env": "prod"}}, "tag key 'Env'"),
    (("a/b",), {"tags": {"env": Unprintable()}}, "not a Unprintable that cannot be shown (RuntimeError)"),
    (("a/b",), {"weight": "1"}, "weight '1' of a/b: write a number from 0.1 to 10"),
    (("a/b",), {"weight": nan}, "weight nan"),
    (("a/b",), {"weight": True}, "weight True"),
    (("a/b",), {"weight": HUGE}, "weight a int that cannot be shown"),
]


@pytest.mark.parametrize(("arguments", "options", "words"), WRONG_AGENTS)
def test_agents(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    says(failure_of(lambda: Agent(*arguments, **options)), words)


def plain(text: str) -> str:
    return text


def takes_pipe(pipe: Pipe) -> str:
    return str(pipe)


def takes_kind(kind: Kind) -> str:
    return str(kind)


def gives_pipe() -> Pipe:
    return Pipe()


def misspelt(text: "list[") -> str:  # type: ignore # noqa: F722
    return ""


def divides(text: "1 // 0") -> str:  # type: ignore # noqa: UP037
    return ""


class Thing:
    def method(self, text: str) -> str:
        return text


WRONG_CAPABILITIES: list[tuple[dict[str, Any], object, str]] = [
    ({}, plain, "name the capability"),
    ({"name": plain}, plain, "name the capability"),
    ({"name": 5}, plain, "capability 5: write text"),
    ({"name": None}, plain, "capability None: write text"),
    ({"name": "Text Shout"}, plain, "capability 'Text Shout': write dotted labels"),
    ({"name": "a.b", "description": 5}, plain, "the description is text"),
    ({"name": "a.b", "repeatable": "no"}, plain, "capability 'a.b': repeatable 'no': write True or False"),
    ({"name": "a.b", "repeatable": None}, plain, "repeatable None"),
    ({"name": "a.b", "timeout": "5"}, plain, "timeout is seconds above 0 and at most 86,400, not '5'"),
    ({"name": "a.b", "timeout": 0}, plain, "not 0"),
    ({"name": "a.b", "timeout": -1}, plain, "not -1"),
    ({"name": "a.b", "timeout": nan}, plain, "not nan"),
    ({"name": "a.b", "timeout": inf}, plain, "not inf"),
    ({"name": "a.b", "concurrency": 0}, plain, "concurrency is a whole number from 1 to 100,000, not 0"),
    ({"name": "a.b", "concurrency": 2.5}, plain, "not 2.5"),
    ({"name": "a.b", "concurrency": HUGE}, plain, "not a int that cannot be shown"),
    ({"name": "a.b"}, Thing, "a handler is a function"),
    ({"name": "a.b"}, "shout", "a handler is a function"),
    ({"name": "a.b"}, None, "a handler is a function"),
    ({"name": "a.b"}, property(plain), "a handler is a function"),
    ({"name": "a.b"}, Thing.method, "decorate the bound one"),
    ({"name": "a.b"}, dict.get, "'default'|positional-only|does not tell"),
    ({"name": "a.b"}, min, "does not tell its parameters"),
    ({"name": "a.b"}, takes_pipe, "parameter 'pipe': no JSON Schema for Pipe: it is not a type that JSON"),
    ({"name": "a.b"}, takes_kind, "parameter 'kind': no JSON Schema for Kind"),
    ({"name": "a.b"}, gives_pipe, "the result: no JSON Schema for Pipe"),
    ({"name": "a.b"}, misspelt, "its type hints cannot be read: SyntaxError"),
    ({"name": "a.b"}, divides, "its type hints cannot be read: ZeroDivisionError"),
    ({"name": "taken.already"}, plain, "capability 'taken.already' of a/b is declared twice"),
]


@pytest.mark.parametrize(("options", "handler", "words"), WRONG_CAPABILITIES)
def test_capabilities(options: dict[str, Any], handler: Any, words: str) -> None:
    agent = Agent("a/b")
    agent.capability("taken.already")(plain)
    error = failure_of(lambda: agent.capability(**options)(handler))
    says(error, next((one for one in words.split("|") if one in str(error)), words))
    assert agent.capabilities == ("taken.already",)


# Nodes

WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "name 5: write text of 1 to 64 characters"),
    ({"name": b"me"}, "name b'me'"),
    ({"name": "x" * 65}, "write text of 1 to 64 characters"),
    ({"seeds": [7946]}, 'seeds [7946]: write each address as text, as in ["127.0.0.1:7946"]'),
    ({"seeds": 7946}, "seeds 7946: write a list of addresses"),
    ({"seeds": None}, "seeds None: write a list of addresses"),
    ({"seeds": b"127.0.0.1:1"}, "seeds b'127.0.0.1:1': write a list"),
    ({"seeds": {"127.0.0.1:1": 1}}, "write a list of addresses"),
    ({"seeds": [("127.0.0.1", 7946)]}, "write each address as text"),
    ({"seeds": "127.0.0.1:1,127.0.0.1:2"}, "write host:port"),
    ({"seeds": ["http://127.0.0.1:1"]}, "http://127.0.0.1:1"),
    ({"seeds": ["127.0.0.1:0"]}, "port 0 cannot be contacted"),
    ({"host": 5}, "host 5: write text, as in '127.0.0.1'"),
    ({"host": b"\x7f\0\0\1"}, "write text, as in '127.0.0.1'"),
    ({"host": "here"}, "must be an IP address, not 'here'"),
    ({"host": None}, "host None"),
    ({"port": "7946"}, "port '7946': write a number from 0 (any free one) to 65535"),
    ({"port": 1.5}, "port 1.5"),
    ({"port": -1}, "port -1"),
    ({"port": HUGE}, "port a int that cannot be shown"),
    ({"advertise": 5}, "advertise 5: write a list of addresses"),
    ({"advertise": [None]}, "advertise [None]: write each address as text"),
    ({"state": 5}, "state 5: write the path of a folder"),
    ({"state": ""}, "state '': write the path of a folder"),
    ({"state": "a\0b"}, "write the path of a folder"),
    ({"state": b"folder"}, "state b'folder'"),
    ({"cluster": None}, "cluster None"),
    ({"cluster": ""}, "cluster ''"),
    ({"zone": ["a"]}, "zone ['a']"),
    ({"insecure_open": "no"}, "insecure_open 'no': write True or False"),
    ({"take_over": 1}, "take_over 1: write True or False"),
    ({"control": None}, "control None"),
    ({"protocol": {"probe_interval": 1}}, "protocol {'probe_interval': 1}: write a Protocol"),
    ({"engine_factory": "fast"}, "engine_factory 'fast'"),
]


@pytest.mark.parametrize(("options", "words"), WRONG_OPTIONS)
def test_nodes(options: dict[str, Any], words: str) -> None:
    says(failure_of(lambda: Node(**options)), words)


@pytest.mark.parametrize(
    "agent", [plain, "nlp/one", None, Agent], ids=["a function", "a name", "None", "a class"]
)
def test_what_is_offered_is_an_agent(agent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    says(failure_of(lambda: Node(agent)), f"agent {shown(agent)}: write an Agent")
    assert run_node(agent) == EXIT_ERROR
    assert "write an Agent" in capsys.readouterr().err


WRONG_RUNS: list[tuple[dict[str, Any], str]] = [
    ({"sedes": ["127.0.0.1:1"]}, "run takes no 'sedes'; did you mean 'seeds'?"),
    ({"xyzzy": 1}, "run takes no 'xyzzy'; known are name, seeds, host"),
    ({"name": 5}, "name 5: write text"),
    ({"name": "../up"}, "node name '../up'"),
    ({"drain_timeout": "10"}, "drain_timeout '10': write a number of seconds"),
    ({"drain_timeout": nan}, "drain_timeout nan"),
    ({"drain_timeout": -1}, "drain_timeout -1"),
    ({"on_started": "print"}, "on_started 'print': write a function"),
    ({"seeds": [7946]}, "seeds [7946]"),
]


@pytest.mark.parametrize(("options", "words"), WRONG_RUNS)
def test_run_explains_in_one_line(
    options: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(Agent("a/b"), **options)
    assert ended.value.code == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"reachp2p: {words}")
    assert err.count("\n") == 1


@pytest.mark.trio
async def test_run_inside_of_a_loop_names_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_node(Agent("a/b")) == EXIT_ERROR
    assert "async with Node(...) as node" in capsys.readouterr().err


WRONG_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("call", {"capability": 5}, "capability 5: write text"),
    ("call", {"capability": b"a.b"}, "capability b'a.b'"),
    ("call", {"capability": "a.b", "agent": 5}, "agent 5: write text"),
    ("call", {"capability": "a.b", "timeout": "x"}, "timeout 'x': write a number of seconds"),
    ("call", {"capability": "a.b", "timeout": nan}, "timeout nan"),
    ("call", {"capability": "a.b", "timeout": True}, "timeout True"),
    ("call", {"capability": "a.b", "tags": ["env"]}, "tags ['env']: write a dict of texts"),
    ("call", {"capability": "a.b", "tags": {"env": 1}}, "tags {'env': 1}"),
    ("call", {"capability": "a.b", "policy": 3}, "policy 3: write text"),
    ("call", {"capability": "a.b", "key": 5}, "key 5: write text"),
    ("call", {"capability": "a.b", "idempotency_key": 5}, "idempotency_key 5"),
    ("call", {"capability": "a.b", "key": "\ud800"}, "key '\\ud800': write text"),
    ("call", {"capability": "a.b", "timeout": HUGE}, "timeout a int that cannot be shown"),
    ("call_detailed", {"capability": "a.b", "timeout": "x"}, "timeout 'x'"),
    ("sessions", {"capability": "\ud800"}, "capability '\\ud800': write dotted labels"),
    ("sessions", {"capability": "x" * 257}, "write dotted labels"),
    ("sessions", {"agent": "\ud800/a"}, "write namespace/name"),
    ("sessions", {"failed": "no"}, "failed 'no': write True or False"),
    ("sessions", {"since": HUGE}, "since a int that cannot be shown"),
    ("trace", {"session": "0" * 32, "timeout": HUGE}, "timeout a int that cannot be shown"),
    ("wait_for", {"capability": None}, "capability None"),
    ("wait_for", {"capability": "a b"}, "capability 'a b': write dotted labels"),
    ("wait_for", {"capability": "a.b", "timeout": "x"}, "timeout 'x'"),
    ("wait_for", {"capability": "a.b", "timeout": None}, "timeout None"),
    ("explain", {"capability": 5}, "capability 5"),
    ("explain", {"capability": "a.b", "tags": 5}, "tags 5"),
    ("register", {"agent": "a/b"}, "agent 'a/b': write an Agent"),
    ("withdraw", {"agent_id": 5}, "agent_id 5: write text"),
    ("withdraw", {"agent_id": "none/such"}, "none/such"),
    ("leave", {"timeout": "soon"}, "timeout 'soon'"),
    ("aclose", {"timeout": None}, "timeout None"),
    ("stop", {"timeout": nan}, "timeout nan"),
]


async def failure_in(method: Callable[..., Any], options: dict[str, Any]) -> ReachError:
    """What a method raises, awaited or not."""
    try:
        ended = method(**options)
        if inspect.isawaitable(ended):
            await ended
    except ReachError as error:
        return error
    raise AssertionError(f"{method.__name__} took {options}")


@pytest.mark.trio
async def test_calls_and_questions() -> None:
    async with Node(name="one") as node:
        for method, options, words in WRONG_CALLS:
            says(await failure_in(getattr(node, method), options), words)
        assert node.is_running, "none of them has done anything"
        for timeout in (0, -1):
            with pytest.raises(ReachError, match=r"the deadline has passed.* \[1401\]"):
                await node.call("a.b", timeout=timeout)
        with pytest.raises(ReachError, match=r"after -1 s.* \[1301\]"):
            await node.wait_for("a.b", timeout=-1)


@pytest.mark.trio
async def test_starting_in_a_nursery() -> None:
    with pytest.raises(ReachError, match="nursery 'mine': write the trio nursery"):
        await Node.start_in("mine")  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        with pytest.raises(ReachError, match="start_in takes no 'sedes'; did you mean 'seeds'"):
            await Node.start_in(nursery, sedes=["127.0.0.1:1"])


@pytest.mark.trio
async def test_calls_of_a_handler() -> None:
    class Served:
        deadline = inf

    context = Context(None, Served(), "")  # type: ignore[arg-type]
    with pytest.raises(ReachError, match="timeout 'x': write a number of seconds"):
        await context.call("a.b", timeout="x")  # type: ignore[arg-type]


# Settings

WRONG_FILES: list[tuple[str, str]] = [
    ("x = " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
    ("[node]\nport = " + "9" * 5_000, "not valid TOML"),
    ("[node]\nport = 0x" + "f" * 6_000, "node.port: write a number from 0 to 65535, not a int that cannot"),
    ("[node]\nport = nan", "node.port: write a number from 0 to 65535, not nan"),
    ("[node]\nname = 5", "node.name: write printable text"),
    ("[node]\nname = 2020-01-01", "node.name: write printable text"),
    ("[node]\nseeds = '127.0.0.1:1'", "node.seeds: write a list of addresses"),
    ("[node]\nseeds = [7946]", "node.seeds: write a list of addresses"),
    ("[node]\nseeds = {a = 1}", "node.seeds: write a list of addresses"),
    ("[node]\nstate = ''", "node.state: write the path of a folder"),
    ("[node]\ninsecure_open = 'no'", "node.insecure_open: write true or false, not 'no'"),
    ("[node.name]\nx = 1", "node.name: write printable text"),
    ("node = 1", "node: write a table, [node]"),
    ("[[node]]\nname = 'x'", "node: write a table, [node]"),
    ("port = 1", "port: unknown key; it belongs into the table [node]"),
    ("[node]\nprot = 1", "did you mean 'port'?"),
    ("\0", "not valid TOML"),
    ("[node", "not valid TOML"),
]


@pytest.mark.parametrize(("text", "words"), WRONG_FILES, ids=[words[:30] for _, words in WRONG_FILES])
def test_settings_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "reachp2p.toml").write_text(text)
    says(failure_of(lambda: load_config({}, environment={}, directory=tmp_path)), words)


@pytest.mark.parametrize(
    ("name", "words"), [(".", "cannot be read: Is a directory"), ("none", "cannot be read: No such file")]
)
def test_settings_files_that_are_none(tmp_path: Path, name: str, words: str) -> None:
    says(failure_of(lambda: load_config({}, environment={}, directory=tmp_path, file=tmp_path / name)), words)


def test_a_settings_file_without_end_is_not_read_for_ever(tmp_path: Path) -> None:
    error = failure_of(lambda: load_config({}, environment={}, directory=tmp_path, file=Path("/dev/zero")))
    says(error, "larger than 1,048,576 bytes")


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("REACHP2P_PORT", "http", "REACHP2P_PORT: write a number from 0 to 65535, not 'http'"),
        ("REACHP2P_PORT", "", "REACHP2P_PORT: write a number"),
        ("REACHP2P_INSECURE_OPEN", "maybe", "REACHP2P_INSECURE_OPEN: write true or false, not 'maybe'"),
        ("REACHP2P_SEEDS", "127.0.0.1:x", "REACHP2P_SEEDS: address '127.0.0.1:x'"),
        ("REACHP2P_STATE", "", "REACHP2P_STATE: write the path of a folder"),
        ("REACHP2P_CLUSTER", "", "REACHP2P_CLUSTER: must not be empty"),
        ("REACHP2P_SEDES", "x", "did you mean REACHP2P_SEEDS?"),
        ("REACHP2P_CONFIG", "/none/such", "/none/such: cannot be read"),
    ],
)
def test_environment_variables(tmp_path: Path, variable: str, text: str, words: str) -> None:
    says(failure_of(lambda: load_config({}, environment={variable: text}, directory=tmp_path)), words)


def test_an_option_is_called_as_on_the_command_line(tmp_path: Path) -> None:
    error = failure_of(lambda: load_config({"seeds": ["x:y"]}, environment={}, directory=tmp_path))
    assert str(error).startswith("--seed: address 'x:y'")
