"""Files are there whole or not at all, and a full disk is said with the name of the file and the exit code."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from reachp2p_sim.results.files import TraceFile, said_of, write_whole

FULL = Path("/dev/full")
"""A disk on which nothing has room."""


def simulate(cwd: Path, *words: str, file_bytes_max: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in another process, in which no file may grow beyond so many bytes."""

    def limit() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    return subprocess.run(
        [sys.executable, "-m", "reachp2p_sim", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )


STEADY = ("steady", "--nodes", "3", "--set", "seconds=2", "--no-determinism", "--no-store")


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "old")
    write_whole(path, "new")
    assert path.read_text() == "new"

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reachp2p_sim.results.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, "newer")
    assert said_of(caught.value) == f"{path}: No space left on device"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_link_leads_to_is_replaced_and_what_is_no_plain_file_is_written_as_it_is(
    tmp_path: Path,
) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(FULL, "x")
    assert said_of(caught.value) == "/dev/full: No space left on device"


def test_a_trace_that_finds_no_room_ends_and_says_so() -> None:
    with TraceFile(FULL) as trace:
        for number in range(10_000):
            trace.write(f"line {number}\n")
    assert trace.trouble == "/dev/full: No space left on device; the trace ends there"


def test_a_run_whose_trace_finds_no_room_has_its_verdict_all_the_same(tmp_path: Path) -> None:
    done = simulate(tmp_path, "run", *STEADY, "--log", "/dev/full", "--record", "/dev/full")
    assert done.stdout.startswith("steady, 3 nodes, seed 0: PASS")
    assert done.stderr.splitlines() == [
        "reachp2p-sim: /dev/full: No space left on device; the trace ends there",
        "reachp2p-sim: /dev/full: No space left on device",
    ]
    assert done.returncode == 2


def test_a_place_where_nothing_can_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    done = simulate(tmp_path, "run", *STEADY, "--record", "nowhere/record.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "reachp2p-sim: nowhere/record.toml: no file can be written there\n"
    done = simulate(tmp_path, "run", *STEADY, "--log", "nowhere/trace.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "reachp2p-sim: nowhere/trace.txt: No such file or directory\n"


def test_the_page_of_a_campaign_is_there_whole_or_the_exit_code_says_that_it_is_not(tmp_path: Path) -> None:
    words = ("steady", "--nodes", "3", "--set", "seconds=1", "--seeds", "2", "--workers", "1", "--out", "c")
    room = 20_000  # for the results, and not for the page
    done = simulate(tmp_path, "campaign", *words, file_bytes_max=room)
    assert done.returncode == 3
    assert (
        "c/campaign.html: File too large; all results are kept, draw the page with: reachp2p-sim report c"
        in (done.stderr)
    )
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "campaign.json",
        "runs.jsonl",
        "runs.parquet",
        "summary.json",
    ]
    done = simulate(tmp_path, "report", "c", "--reports", "0", file_bytes_max=room)
    assert done.returncode == 3
    assert done.stderr == "reachp2p-sim: c/campaign.html: File too large; no page was written\n"
    assert simulate(tmp_path, "report", "c", "--reports", "0").returncode == 0


def test_what_nobody_takes_is_no_traceback(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "reachp2p_sim", "list"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (3, "reachp2p-sim: stdout: No space left on device\n")
