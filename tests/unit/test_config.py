"""Settings: which source wins, and what is said about each that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reachp2p.config import KEYS, NodeConfig, load_config
from reachp2p.errors import ConfigurationInvalid


def load(
    tmp_path: Path, text: str | None = None, environment: dict[str, str] | None = None, **flags: Any
) -> NodeConfig:
    if text is not None:
        (tmp_path / "reachp2p.toml").write_text(text, encoding="utf-8")
    return load_config(flags, environment=environment or {}, directory=tmp_path)


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path) == NodeConfig()
    assert load(tmp_path, environment={"PATH": "/bin", "HOME": "/"}).origins == {}


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    text = '[node]\nname = "file"\nport = 1\nzone = "file"\nseeds = ["a:1"]\ninsecure_open = true\n'
    environment = {"REACHP2P_PORT": "2", "REACHP2P_ZONE": "env", "REACHP2P_SEEDS": "b:2, [::1]:3,"}
    config = load(tmp_path, text, environment, zone="flag", name=None, seeds=[], advertise=["c:4"])
    assert (config.name, config.port, config.zone, config.host) == ("file", 2, "flag", "127.0.0.1")
    assert (config.seeds, config.advertise, config.insecure_open) == (("b:2", "[::1]:3"), ("c:4",), True)
    assert config.origins == {
        "name": f"{tmp_path}/reachp2p.toml",
        "port": "REACHP2P_PORT",
        "zone": "--zone",
        "seeds": "REACHP2P_SEEDS",
        "insecure_open": f"{tmp_path}/reachp2p.toml",
        "advertise": "--advertise",
    }


def test_the_file_may_be_named_by_flag_or_environment(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text('[node]\nname = "one"\n')
    two.write_text('[node]\nname = "two"\n')
    environment = {"REACHP2P_CONFIG": str(one)}
    assert load(tmp_path, '[node]\nname = "here"\n', environment).name == "one"
    assert load_config({}, environment=environment, directory=tmp_path, file=two).name == "two"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[node]\nprot = 3\n", "reachp2p.toml: node.prot: unknown key; did you mean 'port'?"),
        ("[node]\nxyzzy = 3\n", "known are name, cluster"),
        ("[nodes]\nport = 3\n", "reachp2p.toml: nodes: unknown key; did you mean 'node'?"),
        ("port = 3\n", "reachp2p.toml: port: unknown key; it belongs into the table [node]"),
        ("node = 3\n", "write a table"),
        ("[node\n", "not valid TOML"),
        ('[node]\nport = "7946"\n', "node.port: write a number from 0 to 65535, not '7946'"),
        ("[node]\nport = true\n", "not True"),
        ("[node]\nport = 65536\n", "from 0 to 65535"),
        ('[node]\nseeds = "a:1"\n', "node.seeds: write a list of addresses"),
        ('[node]\nseeds = ["a:b"]\n', "node.seeds: address 'a:b': the port must be a number"),
        ('[node]\nseeds = ["a:0"]\n', "port 0 cannot be reached"),
        ("[node]\nseeds = [1]\n", "write a list of addresses"),
        ('[node]\ninsecure_open = "yes"\n', "write true or false"),
        ('[node]\nname = ""\n', "must not be empty"),
        ('[node]\nname = "a\\u001b[31m"\n', "printable"),
        ("[node]\nstate = 3\n", "write the path of a folder"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_file_and_key(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(tmp_path, text)
    assert caught.value.code == 1704
    assert said in caught.value.message
    assert "reachp2p.toml" in caught.value.message


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"REACHP2P_SEED": "a:1"}, "REACHP2P_SEED: unknown key; did you mean REACHP2P_SEEDS?"),
        ({"REACHP2P_XYZZY": "a"}, "known are REACHP2P_NAME"),
        ({"REACHP2P_PORT": "many"}, "REACHP2P_PORT: write a number"),
        ({"REACHP2P_PORT": "٣"}, "REACHP2P_PORT: write a number"),
        ({"REACHP2P_TAKE_OVER": "maybe"}, "REACHP2P_TAKE_OVER: write true or false"),
        ({"REACHP2P_CONFIG": "/nowhere/x.toml"}, "/nowhere/x.toml: cannot be read"),
    ],
)
def test_a_variable_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(tmp_path, environment=environment)
    assert said in caught.value.message


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False), ("", False)])
def test_switches_in_the_environment_are_words(tmp_path: Path, text: str, value: bool) -> None:
    assert load(tmp_path, environment={"REACHP2P_INSECURE_OPEN": text}).insecure_open is value


def test_what_kubernetes_puts_into_a_container_is_not_mistaken_for_settings(tmp_path: Path) -> None:
    environment = {
        "REACHP2P_SERVICE_HOST": "10.0.0.1",
        "REACHP2P_SERVICE_PORT_GOSSIP": "7946",
        "REACHP2P_PORT": "tcp://10.0.0.1:7946",
        "REACHP2P_PORT_7946_TCP_ADDR": "10.0.0.1",
        "REACHP2P_SEED_SERVICE_HOST": "10.0.0.2",
        "REACHP2P_SEED_PORT": "udp://10.0.0.2:7946",
        "REACHP2P_SEED_PORT_7946_UDP": "udp://10.0.0.2:7946",
    }
    assert load(tmp_path, environment=environment) == NodeConfig()


def test_a_file_is_not_read_without_bound_nor_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "reachp2p.toml"
    path.write_bytes(b"# " + b"x" * 1_048_576)
    with pytest.raises(ConfigurationInvalid, match="larger than"):
        load(tmp_path)
    path.write_bytes(b'[node]\nname = "\xff"\n')
    with pytest.raises(ConfigurationInvalid, match="UTF-8"):
        load(tmp_path)


def test_every_key_can_be_set_by_flag(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "name": "n", "cluster": "c", "host": "::1", "port": 7, "seeds": ("a:1",), "advertise": ("b:2",),
        "state": Path("s"), "zone": "z", "insecure_open": True, "rules": Path("r.toml"),
        "take_over": True, "by_shape": True,
    }  # fmt: skip
    assert set(values) == set(KEYS)
    config = load(tmp_path, **values)
    assert {key: getattr(config, key) for key in KEYS} == values
