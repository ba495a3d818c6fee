"""Runs on the cores of this machine: processes that import once and are then handed one run after the other.

Each worker has a pipe of its own and nothing in common with the others, so that one that is killed, by the kernel for
want of memory say, takes nothing with it but the run it was at. That run is given to another worker once; if it kills
that one too it is lost, which is reported. A worker whose runs are short has its next one waiting, so that it never
waits for us.
"""

from __future__ import annotations

import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import TypeAlias

from reachp2p_sim.campaign.plan import Task
from reachp2p_sim.checkers.determinism import judge, second_run
from reachp2p_sim.running.run import RunConfig, RunResult, run_scenario

HANDED_OUT = 2
"""Runs that a worker has at once: the one it is at, and the next."""
SHORT_SECONDS = 0.25
"""A run that takes longer loses nothing by being handed out when the one before has ended (a millisecond), and at the
end of a campaign it does not wait for one worker while another has nothing to do."""
ATTEMPTS = 2
START_SECONDS_MAX = 120.0
"""For a new worker to import the simulator, on a machine that has much else to do."""


@dataclass(slots=True, frozen=True)
class Lost:
    """A run that has no result: its worker ended, or it took too long, each time it was tried."""

    reason: str


Outcome: TypeAlias = tuple[Task, RunResult | Lost]
Target: TypeAlias = Callable[[RunConfig], RunResult | Lost]
"""What a worker does with a configuration."""


class WorkersFailed(RuntimeError):
    """No worker can be started. The message says why."""


def run_here(tasks: Iterator[Task], target: Target | None = None) -> Iterator[Outcome]:
    """One run after the other in this process."""
    for task in tasks:
        yield task, (target or run)(task.config)


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    tasks: deque[Task] = field(default_factory=deque)
    is_ready: bool = False
    deadline: float = 0.0
    """When the run it is at, or its start, has taken too long."""
    is_late: bool = False
    heard_at: float = 0.0
    room: int = 1
    """How many runs it may have."""


class Pool:
    """`workers` processes. Use it as a context: leaving it ends them, at once."""

    def __init__(self, workers: int, run_seconds_max: float, target: Target | None = None) -> None:
        self._context = _context()
        self._target = target or run
        self._size = workers
        self._run_seconds_max = run_seconds_max
        self._workers: list[_Worker] = []
        self._attempts: dict[int, int] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        """Run all tasks; what is yielded comes in the order in which they end."""
        again: deque[Task] = deque()
        is_more = True

        def next_task() -> Task | None:
            nonlocal is_more
            if again:
                return again.popleft()
            task = next(tasks, None) if is_more else None
            is_more = task is not None
            return task

        def feed(worker: _Worker) -> None:
            while len(worker.tasks) < worker.room and (task := next_task()) is not None:
                self._hand_out(worker, task)

        while True:
            for worker in self._fill():
                feed(worker)
            if not any(worker.tasks for worker in self._workers) and not again:
                return
            for worker in self._due():
                ended = self._hear(worker)
                if ended is not None:
                    feed(worker)  # before anybody does anything with the result
                    yield ended
                if worker not in self._workers:
                    yield from self._bury(worker, again)

    def _fill(self) -> list[_Worker]:
        """The workers that are alive, new ones in the place of those that have ended."""
        while len(self._workers) < self._size:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_work, args=(theirs, self._target), daemon=True)
            with _uninterrupted():
                process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours, deadline=monotonic() + START_SECONDS_MAX))
        return self._workers

    def _hand_out(self, worker: _Worker, task: Task) -> None:
        worker.tasks.append(task)
        if worker.is_ready and len(worker.tasks) == 1:
            worker.deadline = monotonic() + self._run_seconds_max
        try:
            worker.pipe.send(task.config)
        except OSError:  # it has ended; `_due` finds its pipe closed and `_bury` takes its tasks back
            return

    def _due(self) -> list[_Worker]:
        """The workers that have something to say, have ended, or have taken too long; waits for one."""
        busy = [worker for worker in self._workers if worker.tasks]
        until = min(worker.deadline for worker in busy)
        heard = set(wait([worker.pipe for worker in busy], timeout=max(0.0, until - monotonic())))
        return [worker for worker in busy if worker.pipe in heard or worker.deadline <= monotonic()]

    def _hear(self, worker: _Worker) -> Outcome | None:
        """Take one word of a worker. One that has ended, or must, is not among the workers any more afterwards."""
        if not worker.pipe.poll():  # nothing to say: it is here because it is late
            self._workers.remove(worker)
            worker.is_late = True
            worker.process.kill()
            return None
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            return None
        now = monotonic()
        if not worker.is_ready:
            worker.is_ready = True
            ended = None
        else:
            ended = (worker.tasks.popleft(), said)
            worker.room = HANDED_OUT if now - worker.heard_at < SHORT_SECONDS else 1
        worker.heard_at = now
        worker.deadline = now + self._run_seconds_max
        return ended

    def _bury(self, worker: _Worker, again: deque[Task]) -> Iterator[Outcome]:
        """Take back the runs of a worker that has ended. Only the one that it was at is held against it."""
        worker.process.join()
        worker.pipe.close()
        code = worker.process.exitcode
        if not worker.is_ready:
            raise WorkersFailed(f"a worker ended before it could run anything ({_how(code)})")
        task = worker.tasks.popleft()
        again.extendleft(reversed(worker.tasks))
        attempts = self._attempts[task.number] = self._attempts.get(task.number, 0) + 1
        if worker.is_late:
            yield task, Lost(f"no result in {self._run_seconds_max:.0f} s")
        elif attempts >= ATTEMPTS:
            yield task, Lost(f"its worker ended each time, the last time {_how(code)}")
        else:
            again.append(task)


def _context() -> ForkServerContext | SpawnContext:
    """New processes come from one that has imported everything, where the platform can do that."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes begun meanwhile never see Ctrl-C, from their first instruction on; we see it afterwards."""
    resource_tracker.ensure_running()  # it lets signals through again when it starts: it must have started before
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"


def _work(pipe: Connection, target: Target) -> None:
    """A worker: run what is sent until the other side is gone. Interrupts are for the parent, who ends us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.send(None)
        while True:
            config: RunConfig = pipe.recv()
            parent = parent_process()
            if parent is None or not parent.is_alive():
                return
            pipe.send(target(config))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def run_twice(config: RunConfig) -> RunResult | Lost:
    """One run, and the same beside it in a process of its own: the result fails if their digests differ."""
    try:
        second = second_run(config)
        result = run_scenario(config)
        judge(result, second)
        return result
    except Exception:  # noqa: BLE001 as below
        return Lost(traceback.format_exc())


def run(config: RunConfig) -> RunResult | Lost:
    """One run. What is no result of the run itself is a `Lost` that says what happened."""
    try:
        return run_scenario(config)
    except Exception:  # noqa: BLE001 whatever it is, it belongs to this run and is reported with it
        return Lost(traceback.format_exc())
