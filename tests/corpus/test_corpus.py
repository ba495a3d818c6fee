"""Hostile files: each refused for its own reason, quickly and in little memory (cases B22, B61, B63)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from reachp2p.core.counters import Counters
from reachp2p.core.trust.ed25519 import Ed25519Verifier
from reachp2p.core.trust.facts import FactChecker, FactRejected
from reachp2p.core.wire.codec import decode_messages
from reachp2p.core.wire.datagram import parse_datagram
from reachp2p.core.wire.facts import Accusation, AgentRecord, Fact, Head
from reachp2p.core.wire.limits import BYTES_MAX, WireError, load

HERE = Path(__file__).parent
FILES = sorted((HERE / "files").iterdir())
DECLARED = [path for path in FILES if "-of-2e" in path.name]


def file_name(path: Path) -> str:
    """Says in a test's id which file it is about."""
    return path.name


def open_fact(kind: type[Fact]) -> Callable[[bytes], object]:
    """Opens a signed fact of the demo cluster."""
    return lambda data: FactChecker(Ed25519Verifier(), "demo", Counters()).open(kind, data)


READERS: dict[str, Callable[[bytes], object]] = {
    ".cbor": lambda data: load(data, bytes_max=BYTES_MAX),
    ".body": lambda data: decode_messages(data, bytes_max=65_536, messages_max=32),
    ".datagram": parse_datagram,
    ".head": open_fact(Head),
    ".record": open_fact(AgentRecord),
    ".accusation": open_fact(Accusation),
}


def verdict(path: Path, data: bytes) -> str:
    """What the reader for this file says of it."""
    try:
        READERS[path.suffix](data)
    except (WireError, FactRejected) as error:
        return error.reason
    return "accepted"


def test_the_files_are_those_that_the_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("corpus_make", HERE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    assert dict(make.files()) == {path.name: path.read_bytes() for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_each_file_is_refused_for_its_reason(path: Path) -> None:
    assert verdict(path, path.read_bytes()) == path.name.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_no_reader_is_upset_by_a_file_meant_for_another(path: Path) -> None:
    data = path.read_bytes()
    for reader in READERS.values():
        try:
            reader(data)
        except (WireError, FactRejected):
            continue


@pytest.mark.parametrize("path", FILES, ids=file_name)
def test_no_file_takes_longer_than_20_ms(path: Path) -> None:
    assert seconds(path) < 0.020


@pytest.mark.parametrize("path", DECLARED, ids=file_name)
def test_a_declared_length_takes_under_a_millisecond_and_a_megabyte(path: Path) -> None:
    assert seconds(path) < 0.001
    data = path.read_bytes()
    tracemalloc.start()
    try:
        verdict(path, data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def seconds(path: Path) -> float:
    """The least of five runs: what the work costs, not what else the machine does."""
    data = path.read_bytes()
    runs = []
    for _ in range(5):
        begin = time.perf_counter()
        verdict(path, data)
        runs.append(time.perf_counter() - begin)
    return min(runs)


IN_A_SMALL_PROCESS = """
import resource, runpy, sys
tests = runpy.run_path(sys.argv[1])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 16 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in tests["FILES"]:
    print(path.name, tests["verdict"](path, path.read_bytes()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and limits the address space")
def test_all_files_are_refused_in_a_process_with_16_megabytes_to_spare() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SMALL_PROCESS, __file__],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{path.name} {path.name.split('.')[1]}" for path in FILES]
