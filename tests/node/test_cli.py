"""The command line against real nodes: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reachp2p_node.cli import main, output, tables
from reachp2p_node.cli.fitted import Column, Fitted
from reachp2p_node.cli.nodes import Running

AGENT = '''
from reachp2p import Agent

agent = Agent("demo/shouter", version="1.2.0", tags={"env": "test"})

@agent.capability("text.shout", repeatable=True)
def shout(text: str, marks: int = 1) -> dict:
    """Say it louder."""
    return {"text": text.upper() + "!" * marks}

@agent.capability("text.echo")
def echo(value=None):
    return value
'''
STUCK = """
import pathlib, time
from reachp2p import Agent

agent = Agent("demo/stuck")

@agent.capability("stuck.hang")
async def hang() -> None:
    pathlib.Path("hanging").touch()
    time.sleep(30)
"""
START_TIMEOUT = 20

Run = Callable[..., tuple[int, str, str]]


class Program:
    """`reachp2p seed` or `reachp2p run` with --json, as a process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reachp2p", *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(folder),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith('{"event": "started"'):
            self.process.wait(START_TIMEOUT)
            raise AssertionError(f"{arguments} did not start: {line} {self.process.communicate()[1]}")
        self.started: dict[str, Any] = json.loads(line)

    def end(self, *, tell: bool = True) -> tuple[int, str, str]:
        """Ask it to stop if it has not; returns exit code, stdout, stderr."""
        if self.process.poll() is None and tell:
            self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


def environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("REACHP2P_")}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder / "tmp"), "COLUMNS": "150"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "shout.py").write_text(AGENT)
    (folder / "stuck.py").write_text(STUCK)
    (folder / "tmp").mkdir()
    return folder


@pytest.fixture(scope="module")
def network(folder: Path) -> Iterator[dict[str, Program]]:
    """A seed node and one agent, which have found each other."""
    programs: dict[str, Program] = {}
    try:
        programs["seed"] = Program(folder, "seed", "--port", "0")
        programs["shouter"] = Program(
            folder, "run", "shout:agent", "--seed", programs["seed"].started["address"], "--zone", "z1"
        )
        yield programs
    finally:
        codes = {name: program.end()[0] for name, program in programs.items()}
        assert codes == {"seed": 0, "shouter": 0}, "SIGTERM ends a node cleanly"


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in this process; returns exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))

    def run_one(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(arguments)
        return code, *capsys.readouterr()

    return run_one


@pytest.fixture
def wait_for_agent(network: dict[str, Program], run: Run) -> None:
    """The seed node knows the agent."""
    for _ in range(100):
        if json.loads(run("agents", "--node", "seed", "--json")[1])["agents"]:
            return
    raise AssertionError("the seed node never heard of the agent")


# Questions


@pytest.mark.usefixtures("wait_for_agent")
def test_members_are_shown_by_any_running_node(run: Run, network: dict[str, Program]) -> None:
    code, out, err = run("members")
    assert code == 0
    assert err == "asking seed, one of 2 nodes here; --node NAME chooses\n"
    assert "2 members: 2 ALIVE" in out
    assert network["shouter"].started["address"] in out
    assert re.search(r"ALIVE .* demo/shouter", out), "what each of them offers"
    code, out, err = run("members", "--json", "--node", "shouter")
    answer = json.loads(out)
    assert (code, err, answer["asked"]) == (0, "", "shouter")
    by_name = {member["name"]: member for member in answer["members"]}
    assert set(by_name) == {"seed", "shouter"}
    assert by_name["shouter"]["self"]
    assert (by_name["seed"]["state"], by_name["seed"]["epoch"]) == ("ALIVE", 1)
    assert by_name["shouter"]["zone"] == "z1"
    assert "datagrams.sent" in answer["diagnostics"]


@pytest.mark.usefixtures("wait_for_agent")
def test_a_node_is_chosen_by_name_digits_or_folder(run: Run, network: dict[str, Program]) -> None:
    shouter = network["shouter"].started
    for choice in (
        ["--node", "shouter"],
        ["--node", shouter["node"][:6]],
        ["--state", shouter["state"]],
    ):
        assert json.loads(run("members", "--json", *choice)[1])["members"]
    code, out, err = run("members", "--node", "nobody")
    assert (code, out) == (1, "")
    assert "no running node is called 'nobody'; running here: seed (process " in err
    code, _, err = run("members", "--state", "/nowhere")
    assert code == 1
    assert "no node runs in /nowhere" in err


@pytest.mark.usefixtures("wait_for_agent")
def test_a_call_is_traced_by_the_session_that_it_tells(run: Run) -> None:
    _, _, err = run("call", "text.shout", '{"text": "traced"}', "--node", "seed")
    session = err.split("session ")[1].strip()
    code, out, err = run("trace", session[:10], "--node", "seed", "--check")
    assert (code, err) == (0, "all hops are there, and the clocks agree\n")
    heading, _, asked, served = out.splitlines()
    assert heading.startswith(f"session {session}: 2 hops on 2 nodes, ")
    assert re.match(r"→ text.shout +seed +[\d.]+ ms +ok ", asked)
    assert re.match(r"  · demo/shouter +shouter +[\d.]+ ms +ok ", served)
    answer = json.loads(run("trace", session, "--node", "shouter", "--json")[1])
    assert [hop["side"] for hop in answer["hops"]] == ["asked", "served"]
    assert answer["asked"] == "shouter"
    code, out, err = run("trace", "00" * 16, "--node", "seed")
    assert (code, out) == (1, "")
    assert f"session {'00' * 16}: no hops found on 2 nodes [1414]" in err
    code, out, _ = run("trace", "00" * 16, "--node", "seed", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, 1414)
    code, out, err = run("trace", "xyz", "--node", "seed")
    assert (code, out) == (1, "")
    assert "write its 32 hexadecimal digits" in err


@pytest.mark.usefixtures("wait_for_agent")
def test_failed_sessions_are_found(run: Run) -> None:
    code, _, err = run("call", "text.shout", '{"txt": "wrong"}', "--node", "seed")
    assert code == 1
    call = err.split("`reachp2p trace ")[1].partition("`")[0]
    assert " 1405 " in run("trace", call, "--node", "seed")[1]
    code, out, err = run(
        "sessions", "--failed", "--since", "1h", "--capability", "text.shout", "--node", "seed"
    )
    assert code == 0
    assert "`reachp2p trace SESSION` shows one of them" in err
    assert re.search(r"[0-9a-f]{32} .*text.shout .*1405", out)
    told = json.loads(run("sessions", "--failed", "--node", "seed", "--json")[1])
    assert told["sessions"][0]["session"] in out
    assert run("sessions", "--capability", "no.such", "--node", "seed")[2] == "no session fits\n"
    for wrong in (["--since", "1w"], ["--limit", "0"], ["--timeout", "0"]):
        assert run("sessions", *wrong)[0] == 2


@pytest.mark.usefixtures("wait_for_agent")
def test_agents_are_listed_with_what_they_can_do(run: Run) -> None:
    code, out, _ = run("agents", "--node", "seed")
    assert code == 0
    for text in ("demo/shouter", "1.2.0", "text.shout, text.echo", "env=test", "ALIVE"):
        assert text in out
    (agent,) = json.loads(run("agents", "--node", "seed", "--json")[1])["agents"]
    assert [one["name"] for one in agent["capabilities"]] == ["text.shout", "text.echo"]
    assert agent["capabilities"][0]["description"] == "Say it louder."


@pytest.mark.usefixtures("wait_for_agent")
def test_a_call_prints_its_result_and_says_who_answered(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("call", "text.shout", '{"text": "hello", "marks": 2}', "--node", "seed")
    assert (code, json.loads(out)) == (0, {"text": "HELLO!!"})
    assert "demo/shouter on node " in err
    code, out, err = run(
        "call", "text.shout", '{"text": "hi"}', "--node", "seed", "--tag", "env=test", "--json"
    )
    answer = json.loads(out)
    assert (code, err, answer["value"], answer["attempts"]) == (0, "", {"text": "HI!"}, 1)
    (folder / "params.json").write_text('{"text": "file"}')
    assert json.loads(run("call", "text.shout", "@params.json", "--node", "seed")[1]) == {"text": "FILE!"}
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "stdin"}'))
    assert json.loads(run("call", "text.shout", "-", "--node", "seed")[1]) == {"text": "STDIN!"}
    assert json.loads(run("call", "--by-shape", '{"text": "shape"}', "--node", "seed")[1]) == {
        "text": "SHAPE!"
    }
    code, out, _ = run(
        "route", "explain", "--by-shape", "--params", '{"text": "a"}', "--tag", "env=test", "--node", "seed"
    )
    assert code == 0
    assert "the parameters fit text.shout alone, of 2 capabilities of anything with env=test" in out
    code, _, err = run("call", "--tag", "env=test", "{}", "--node", "seed")
    assert code == 1
    assert "may be one of 2 capabilities, name one: text.echo (1 instance), text.shout" in err
    assert json.loads(run("call", "text.echo@^1.2", "--prefer", "zone", "--node", "seed")[1]) is None


@pytest.mark.usefixtures("wait_for_agent")
def test_a_submitted_task_is_asked_for_by_its_id(run: Run) -> None:
    code, out, err = run("call", "text.shout", '{"text": "later"}', "--node", "seed", "--submit")
    name = out.strip()
    assert (code, re.fullmatch("[0-9a-f]{32}", name) is not None) == (0, True)
    assert f"`reachp2p task {name}` asks for its result" in err
    code, out, err = run("task", name, "--node", "seed", "--wait", "5")
    assert (code, json.loads(out)) == (0, {"text": "LATER!"})
    assert re.match(r"done after .*: demo/shouter on node [0-9a-f]{8}\n", err)
    failed = json.loads(run("call", "text.shout", "{}", "--node", "seed", "--submit", "--json")[1])["task"]
    code, out, err = run("task", failed, "--node", "seed", "--wait", "5")
    assert (code, out) == (1, "")
    assert "[1405]" in err
    code, out, _ = run("task", "--node", "seed")
    assert name in out
    assert failed in out
    assert json.loads(run("task", "--node", "seed", "--json")[1])["tasks"][0]["state"] == "done"
    assert run("task", "ab" * 16, "--node", "seed")[0] == 1
    assert run("task", "--cancel", "--node", "seed")[0] == 2
    code, out, _ = run("stream", "text.shout", '{"text": "x"}', "--node", "seed", "--json")
    assert (code, json.loads(out)["error"]["code"], out.count("\n")) == (1, 1405, 1), (
        "items would come before it"
    )


@pytest.mark.usefixtures("wait_for_agent")
def test_parameters_that_do_not_fit_are_1405_with_their_path(run: Run) -> None:
    code, out, err = run("call", "text.shout", '{"txt": 1}', "--node", "seed", "--json")
    error = json.loads(out)["error"]
    assert (code, error["code"], error["name"], error["retryable"]) == (1, 1405, "SCHEMA_MISMATCH", False)
    assert "$.txt: no such parameter; did you mean 'text'?" in error["detail"]
    assert "[1405]" in err


@pytest.mark.usefixtures("wait_for_agent")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["call", "text.whisper"], 1, "1301"),
        (["call", "text.shot"], 1, "did you mean 'text.shout'? [1301]"),
        (["call", "text.shout", "{}", "--tag", "env=prod"], 1, "130"),
        (["call", "text.shout", "{}", "--agent", "no/body"], 1, "1301"),
        (["call", "text.shout", "{text: 1}"], 2, "not valid JSON"),
        (["call", "text.shout", "[NaN]"], 2, "NaN is not JSON"),
        (["call", "text.shout", "[-1e400]"], 2, "-1e400 is beyond all floating-point numbers"),
        (["call", "text.shout", "@/dev/zero"], 2, "more than 67108864 characters"),
        (["call", "text.shout", "@nowhere.json"], 2, "cannot be read"),
        (["call", "text.shout", '{"text": "\\ud800"}'], 2, "a lone surrogate is no text"),
        (["call", "text.shout", "[" * 5_000 + "]" * 5_000], 2, "nested too deeply"),
        (["call", "text.shout", "[" * 100 + "]" * 100], 1, "[14"),
        (["call", "text.shout", "{}", "--timeout", "nan"], 2, "above 0"),
        (["members", "--state", "~nobody-of-that-name/x"], 1, "no such user"),
        (["call", "text.shout", "{}", "--tag", "env"], 2, "KEY=VALUE"),
        (["call"], 2, "CAPABILITY"),
        (["call", "{}"], 1, "name a capability, an agent or tags [1302]"),
        (["stream"], 2, "CAPABILITY"),
        (["stream", "--tag", "env=prod", "{}"], 1, "[1303]"),
        (["stream", "--by-shape", "{}"], 1, "nobody that this node may call offers a capability [1301]"),
        (["call", "--tag", "env=prod"], 1, "[1303]"),
        (["route", "explain"], 2, "CAPABILITY"),
        (["call", "--by-shape", '{"nothing": 1}'], 1, "[1405]"),
        (["call", "--by-shape", "[1]"], 1, "only an object of parameters"),
        (
            ["route", "explain", "--tag", "env=test"],
            1,
            "a call would fail: anything with env=test may be one of 2",
        ),
        (["members", "--nod", "x"], 2, "--node"),
        (["wat"], 2, "wat"),
        ([], 2, "reachp2p demo"),
        (["route", "explain", "text.shout", "--policy", "psychic"], 1, "psychic"),
        (["route", "explain", "text.whisper"], 1, "a call would fail: unknown capability"),
        (["leave"], 1, "2 nodes run here: seed"),
        (["leave", "--timeout", "nan", "--node", "seed"], 2, "write seconds from 0 to 3600"),
        (["leave", "--timeout", "-1", "--node", "seed"], 2, "write seconds from 0 to 3600"),
        (["members", "--state", ""], 2, "is empty: write a path"),
        (["call", "text.shout", "{}", "--key", "k", "--policy", "consistent hash"], 1, "consistent hash"),
        (["call", ""], 1, "[130"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_exit_code_tells(
    run: Run, arguments: list[str], code: int, said: str
) -> None:
    if arguments and arguments[0] in ("call", "route") and code == 1:
        arguments = [*arguments, "--node", "seed"]
    ended, out, err = run(*arguments)
    assert ended == code
    assert said in out + err
    assert "Traceback" not in err


@pytest.mark.usefixtures("wait_for_agent")
def test_route_explain_names_candidates_and_pick(run: Run) -> None:
    code, out, _ = run("route", "explain", "text.shout", "--node", "seed")
    assert code == 0
    assert "picked" in out
    assert "pick: demo/shouter on shouter" in out
    code, out, _ = run(
        "route",
        "explain",
        "text.shout",
        "--policy",
        "consistent_hash",
        "--key",
        "k",
        "--node",
        "seed",
        "--json",
    )
    answer = json.loads(out)
    assert (code, answer["code"], answer["picked_agent"], answer["key"]) == (0, 0, "demo/shouter", "k")
    (candidate,) = answer["candidates"]
    assert (candidate["removed_by"], candidate["position"]) == (None, 1)


# Starting and ending


def test_a_node_that_is_told_to_leave_ends_cleanly(folder: Path, run: Run) -> None:
    program = Program(folder, "seed", "--port", "0", "--name", "leaver")
    code, out, _ = run("leave", "--node", "leaver", "--json")
    answer = json.loads(out)
    assert (code, answer["left"], answer["name"]) == (0, True, "leaver")
    assert program.process.wait(START_TIMEOUT) == 0, "no signal was needed"
    assert json.loads(program.end()[1]) == {"event": "stopped", "name": "leaver", "exit_code": 0}
    assert "no running node is called 'leaver'" in run("members", "--node", "leaver")[2]


def test_a_second_instance_on_one_machine_gets_a_name_of_its_own(
    folder: Path, network: dict[str, Program]
) -> None:
    seed = network["seed"].started["address"]
    second = Program(folder, "run", "./shout.py:agent", "--seed", seed)
    try:
        assert second.started["name"] == "shouter-2"
        assert second.started["state"] == str(folder / "state/reachp2p/shouter-2")
    finally:
        assert second.end()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere:agent"], "there is no module 'nowhere'"),
        (["run", "shout:agnt"], "did you mean 'agent'"),
        (["seed", "--name", "a/b"], "1704"),
        (["seed", "--host", "0.0.0.0", "--name", "open"], "--insecure-open"),
        (["seed", "--port", "99999"], "--port: write a number from 0 to 65535"),
        (["seed", "--config", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (
            ["run", "shout:agent", "--seed", "127.0.0.1:port", "--name", "x"],
            "--seed: address '127.0.0.1:port'",
        ),
        (["run", "wrong_version:agent"], "wrong_version cannot be imported: ConfigurationInvalid: version 1"),
    ],
)
def test_a_node_that_cannot_start_says_why(run: Run, folder: Path, arguments: list[str], said: str) -> None:
    (folder / "wrong_version.py").write_text("from reachp2p import Agent\nagent = Agent('a/b', version=1)\n")
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("[1") == 1, "the code, once"
    assert err.count("\n") == 1


def test_a_port_in_use_a_folder_in_use_and_a_broken_folder_have_their_codes(
    run: Run, folder: Path, network: dict[str, Program]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = run("seed", "--name", "porter", "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "[1702]" in err
    code, _, err = run("seed", "--port", "0")
    assert code == 1
    assert "[1703]" in err
    assert f"process {network['seed'].process.pid}" in err
    broken = folder / "broken"
    broken.mkdir()
    (broken / "node.key").write_bytes(b"short")
    code, _, err = run("seed", "--port", "0", "--state", str(broken))
    assert code == 1
    assert "[1706]" in err


def test_settings_come_from_environment_and_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reachp2p.toml").write_text("[node]\nprot = 1\n")
    code, _, err = run("seed")
    assert code == 1
    assert "reachp2p.toml: node.prot: unknown key; did you mean 'port'? [1704]" in err
    (tmp_path / "reachp2p.toml").unlink()
    monkeypatch.setenv("REACHP2P_HOST", "8.8.8.8")
    code, _, err = run("seed", "--name", "enva")
    assert code == 1
    assert "8.8.8.8" in err


def test_a_second_signal_forces_a_node_that_hangs(folder: Path) -> None:
    stuck = Program(folder, "run", "stuck:agent")
    caller = subprocess.Popen(
        [sys.executable, "-m", "reachp2p", "call", "stuck.hang", "--node", "stuck"],
        env=environment(folder),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (folder / "hanging").exists():
            assert caller.poll() is None, "the call must hang"
            time.sleep(0.02)
        caller.send_signal(signal.SIGINT)
        assert "Traceback" not in caller.communicate(timeout=30)[1]
        assert caller.returncode == 130
        stuck.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        stuck.process.send_signal(signal.SIGINT)
        code, _, err = stuck.end(tell=False)
        assert code == 3
        assert "forced" in err
    finally:
        caller.kill()
        caller.wait()


def test_without_a_running_node_the_next_step_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = run("members")
    assert (code, out) == (1, "")
    assert "start one with `reachp2p seed`" in err


@pytest.mark.usefixtures("wait_for_agent")
def test_events_go_from_one_terminal_to_another(folder: Path, run: Run) -> None:
    assert run("publish", "cli.nobody", "1", "--node", "seed") == (0, "", "sent to 0 nodes\n")
    code, _, err = run("publish", "cli.*", "--node", "seed")
    assert (code, "those who subscribe" in err) == (1, True)
    words = ["subscribe", "cli.*", "--count", "2", "--node", "shouter"]
    listening = [
        subprocess.Popen(
            [sys.executable, "-m", "reachp2p", *words, *more],
            env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for more in ([], ["--json"])
    ]  # fmt: skip
    for process in listening:
        assert process.stderr is not None
        assert "shouter subscribes to cli.*" in process.stderr.readline()
    sent = 0
    while sent < 2:
        answer = json.loads(run("publish", "cli.new", '{"id": 1}', "--node", "seed", "--json")[1])
        assert (answer["asked"], answer["topic"]) == ("seed", "cli.new")
        sent += answer["nodes"]
    told = [process.communicate(timeout=20)[0] for process in listening]
    assert [process.returncode for process in listening] == [0, 0]
    assert re.search(r'^\d\d:\d\d:\d\d  cli\.new  \{"id": 1\}  \(node [0-9a-f]{8}\)$', told[0], re.MULTILINE)
    lines = [json.loads(line) for line in told[1].splitlines()]
    assert [(line["topic"], line["data"], line["missed"]) for line in lines] == [
        ("cli.new", {"id": 1}, 0)
    ] * 2


def test_the_example_runs_as_a_script(folder: Path, run: Run) -> None:
    script = Path(__file__).parents[2] / "examples" / "hello.py"
    assert len([line for line in script.read_text().splitlines() if line.strip()]) <= 11
    program = subprocess.Popen(
        [sys.executable, str(script)], env=environment(folder), stderr=subprocess.PIPE, text=True
    )
    try:
        assert program.stderr is not None
        while "offers demo/hello" not in program.stderr.readline():  # no seed node at its port is a warning
            assert program.poll() is None
        code, out, _ = run("call", "text.hello", '{"name": "Ada", "times": 2}', "--node", "hello")
        assert (code, json.loads(out)) == (0, {"greeting": "Hello, Ada! Hello, Ada!"})
    finally:
        program.terminate()
        program.communicate(timeout=20)
    assert program.returncode == 0


# The program as a whole


def test_both_ways_to_start_it_are_the_same() -> None:
    for command in (["-m", "reachp2p"], ["-c", "from reachp2p._scripts import node_main; node_main()"]):
        done = subprocess.run([sys.executable, *command, "version", "--json"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["version"] == "0.1.0"


@pytest.mark.parametrize("function", ["node_main", "sim_main"])
def test_each_program_tells_its_version(function: str) -> None:
    program = f"import sys; sys.argv = ['x', '--version']; from reachp2p._scripts import *; {function}()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[1] == "0.1.0"


@pytest.mark.parametrize(
    "command",
    [
        "seed",
        "run",
        "members",
        "agents",
        "call",
        "trace",
        "sessions",
        "stream",
        "publish",
        "subscribe",
        "leave",
        "demo",
        "version",
        "route explain",
        "rules apply",
        "rules diff",
    ],
)
def test_every_command_has_help_and_those_with_arguments_an_example(run: Run, command: str) -> None:
    code, out, err = run(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert command in ("demo", "version") or f"\n    reachp2p {command}" in out
    for group in ([], ["rules"]):
        assert "..." not in run(*group, "--help")[1].partition("Commands:")[2], "no summary is cut off"


def test_a_missing_extra_is_named() -> None:
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "typer": raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "typer" else real(name, package)
import reachp2p._scripts as scripts
scripts.find_spec = importlib.util.find_spec
scripts.{main}()
"""
    for function, extra in (("node_main", "node"), ("sim_main", "sim")):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("{main}", function)], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert f"pip install 'reachp2p[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_parameters_that_are_too_large_are_1404_with_their_size(
    run: Run, network: dict[str, Program], folder: Path
) -> None:
    for size, said in ((1_500_000, "1500011 bytes"), (3_000_000, "3,000,")):
        (folder / "big.json").write_text(json.dumps({"text": "x" * size}))
        code, out, err = run("call", "text.shout", "@big.json", "--node", "seed", "--json")
        assert (code, json.loads(out)["error"]["code"]) == (1, 1404)
        assert said in err


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "reachp2p", "version"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


# Members that have gone


def member(name: str, state: str, since: float, **fields: Any) -> dict[str, Any]:
    return {
        "node": "ab" * 32, "name": name, "self": False, "state": state, "epoch": 1, "incarnation": 0, "since": since,
        "rtt_ms": None, "addresses": ["127.0.0.1:1"], "zone": "", "refused": False, "agents": [],
        "late": 0, "overdue": 0, "told": None, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["zoe", "yan", "sam", "bob"]),
        (["--all"], ["zoe", "yan", "sam", "ann", "bob", "abe"]),
    ],
)
def test_who_may_be_called_comes_first_and_who_has_gone_is_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], names: list[str]
) -> None:
    known = [
        member("abe", "LEFT", 1), member("ann", "DEAD", 301), member("bob", "DEAD", 299), member("sam", "SUSPECT", 1),
        member("yan", "ALIVE", 1_000), member("zoe", "ALIVE", 1, self=True),
    ]  # fmt: skip

    async def answer(*_: object) -> tuple[Running, dict[str, Any]]:
        return Running(tmp_path, 1, {"name": "zoe"}), {"members": known, "diagnostics": {}}

    monkeypatch.setattr("reachp2p_node.cli.questions.ask", answer)
    code, out, err = run("members", *arguments)
    assert (code, err) == (0, "")
    assert re.findall(r"\b(zoe|yan|sam|bob|ann|abe)\b", out) == names
    hidden = len(known) - len(names)
    counts = "6 members: 2 ALIVE, 1 SUSPECT, 2 DEAD, 1 LEFT"
    assert counts + (f"; {hidden} not shown, --all shows them\n" if hidden else "\n") in out
    assert json.loads(run("members", "--json")[1])["members"] == known, "JSON is complete"


def test_a_node_that_is_leaving_shows_itself() -> None:
    assert tables.is_news(member("me", "LEFT", 1, self=True))


# Text from the network


EVIL = "\x1b[31mred\x07\u202e\x9b2J[bold]x[/bold]"


def test_text_from_the_network_cannot_act_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    evil = member(EVIL, "ALIVE", 1, addresses=[EVIL], zone=EVIL, agents=[EVIL])
    output.print_table(tables.members_table([evil], 160).table)
    shown = capsys.readouterr().out
    output.print_json({"name": EVIL, "text": "ünïcödé \ud800"})
    printed = capsys.readouterr().out
    for text in (shown, printed):
        assert not any(character in text for character in "\x1b\x07\u202e\x9b")
    assert "[bold]x[/bold]" in shown, "nothing is markup"
    assert json.loads(printed) == {"name": EVIL, "text": "ünïcödé \ud800"}
    assert "ünïcödé" in printed


@pytest.mark.usefixtures("wait_for_agent")
@pytest.mark.parametrize(
    ("columns", "members_lack", "agents_lack"),
    [
        ("150", "", ""),
        ("60", "inc, rtt, zone, epoch, node, for, agents", "weight, tags, version"),
        ("40", "inc, rtt, zone, epoch, node, for, agents", "weight, tags, version, state"),
    ],
)
def test_tables_fit_a_narrow_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: str, members_lack: str, agents_lack: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command, lack in (("members", members_lack), ("agents", agents_lack)):
        code, out, err = run(command, "--node", "shouter")
        assert (code, "\x1b" in out) == (0, False)
        assert max(len(line) for line in out.splitlines()) <= int(columns)
        left_out = {name for name in err.partition(" for ")[2].partition(":")[0].split(", ") if name}
        assert left_out <= set(lack.split(", ")), "nothing more than that"
        assert bool(left_out) == bool(lack)


def test_of_a_table_the_least_important_columns_go_first_and_empty_ones_are_not_there() -> None:
    columns = [Column("a"), Column("b", importance=2), Column("c", importance=1), Column("d", importance=3)]
    rows = [("1" * 10, "2" * 10, "3" * 10, ""), ("1", "2", "3", "")]
    assert [Fitted(columns, rows, width).left_out for width in (36, 35, 23, 22, 9)] == [
        [], ["c"], ["c"], ["c", "b"], ["c", "b"],
    ]  # fmt: skip
    assert [column.header for column in Fitted(columns, rows, 36).table.columns] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59, "59 s"), (61, "1 min"), (7_300, "2 h"), (90_000, "1 d")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert tables.duration(seconds) == text
