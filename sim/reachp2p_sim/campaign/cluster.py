"""Runs on the workers of a Dask cluster: `dask scheduler`, and `dask worker tcp://… --nthreads 1` on as many machines.

The workers need this very code, which is checked; each must have one thread, because a mutant replaces functions of the
core for the time of a run. A run whose worker ends is given to another one by the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reachp2p_sim.campaign.plan import Task
from reachp2p_sim.campaign.pool import HANDED_OUT, Lost, Outcome, Target, run
from reachp2p_sim.running import code_version
from reachp2p_sim.running.run import RunConfig, RunResult, UsageError

CONNECT_SECONDS_MAX = 15.0
"""For the scheduler to answer and for a first worker to be there."""


class ClusterFailed(RuntimeError):
    """The cluster gives no more results. The message says why."""


class Cluster:
    """The workers of one scheduler. Use it as a context."""

    def __init__(self, address: str, run_seconds_max: float, target: Target = run) -> None:
        self._target = target
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError(f"--dask needs the extra: pip install 'reachp2p[dask]' ({error})") from error
        self._run_seconds_max = run_seconds_max
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS_MAX)
        except (OSError, ValueError) as error:
            raise UsageError(f"--dask {address}: no scheduler answers there: {error}") from error
        try:
            self._check(address)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _check(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS_MAX)
        except TimeoutError as error:
            raise UsageError(
                f"--dask {address}: no worker came within {CONNECT_SECONDS_MAX:.0f} s"
            ) from error
        threads: dict[str, int] = self._client.nthreads()
        several = sorted(worker for worker, count in threads.items() if count != 1)
        if several:
            raise UsageError(
                f"--dask {address}: {several[0]} has {threads[several[0]]} threads; start workers with --nthreads 1"
            )
        for worker, answer in self._client.run(_code, on_error="return").items():
            if answer != code_version.code():
                raise UsageError(
                    f"--dask {address}: {worker} has the code {answer}, and here it is {code_version.code()}"
                )

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        """Run all tasks; what is yielded comes in the order in which they end."""
        from distributed import wait

        running: dict[Any, Task] = {}
        while True:
            self._submit(tasks, running)
            if not running:
                return
            try:
                done, _ = wait(list(running), timeout=self._run_seconds_max, return_when="FIRST_COMPLETED")
            except TimeoutError as error:
                raise ClusterFailed(
                    f"the cluster has given no result for {self._run_seconds_max:.0f} s"
                ) from error
            for future in sorted(done, key=lambda future: running[future].number):
                yield running.pop(future), _outcome(future)

    def _submit(self, tasks: Iterator[Task], running: dict[Any, Task]) -> None:
        room = HANDED_OUT * max(1, len(self._client.nthreads()))
        while len(running) < room and (task := next(tasks, None)) is not None:
            future = self._client.submit(_run, self._target, task.config, code_version.code(), pure=False)
            running[future] = task


def _outcome(future: Any) -> RunResult | Lost:
    error = future.exception() if future.status == "error" else None
    if error is not None:
        return Lost(f"{type(error).__name__}: {error}")
    if future.status != "finished":
        return Lost(f"the scheduler has {future.status} it")
    result: RunResult | Lost = future.result()
    return result


def _code() -> str:
    return code_version.code()


def _run(target: Target, config: RunConfig, code: str) -> RunResult | Lost:
    """What a worker does."""
    if code_version.code() != code:
        return Lost(f"its worker has the code {code_version.code()}, and the campaign {code}")
    return target(config)
