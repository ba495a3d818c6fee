"""Steps about the work that nodes do: what they offer, and whom they call."""

from __future__ import annotations

from math import inf
from tomllib import loads
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from reachp2p.core.commands import AgentSpec, CapabilitySpec, Rate, RouteQuery, StreamKind
from reachp2p.core.routing.policies import BUILT_IN
from reachp2p.core.routing.release import CANDIDATE, RELEASE_TAG
from reachp2p.core.routing.rule_reading import read_rules
from reachp2p_sim.machines.callers import Keys, Loop
from reachp2p_sim.machines.handlers import Handler, Offer, ServiceTimes
from reachp2p_sim.steps.base import Step
from reachp2p_sim.steps.processes import Seconds
from reachp2p_sim.steps.selection import Selection, StepImpossible

if TYPE_CHECKING:
    from reachp2p_sim.world.world import World

Share = Annotated[float, Meta(ge=0, le=1)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Positive = Annotated[float, Meta(gt=0)]
AGENT = "work/doer"
CAPABILITY = "work.do"


class OfferAgent(Step, frozen=True, kw_only=True):
    """Offer an agent with one capability from now on, and after each restart.

    Its handlers take `service_time` seconds (the mean; `times` says how they are spread); a share `fails`, a share
    `hangs` for ever. They yield `items` of a stream, or each `calls` another capability. At most `concurrency` run at
    once, at most `queue` requests wait. Each caller may call at `rate` a second, `burst` at once. Of those that offer
    an `exclusive` agent one serves, the others stand by. With a `candidate_percent` it is a release candidate.
    """

    hosts: Selection
    agent: str = AGENT
    capability: str = CAPABILITY
    repeatable: bool = True
    service_time: Seconds = 0.005
    times: ServiceTimes = "exponential"
    fails: Share = 0.0
    hangs: Share = 0.0
    items: Count = 0
    calls: str = ""
    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 64
    queue: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    rate: Seconds = 0.0
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    exclusive: bool = False
    candidate_percent: Percent | None = None

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """An agent of the same name is replaced."""
        handler = Handler(
            self.service_time, self.fails, self.hangs, self.items, times=self.times, calls=self.calls
        )
        capability = CapabilitySpec(
            name=self.capability,
            repeatable=self.repeatable,
            concurrency_max=self.concurrency,
            queue_max=self.queue,
            rate=Rate(self.rate, self.burst) if self.rate else None,
            stream=StreamKind.RESULTS if self.items else StreamKind.NONE,
        )
        spec = AgentSpec(
            agent=self.agent,
            capabilities=(capability,),
            exclusive=self.exclusive,
            tags={} if self.candidate_percent is None else {RELEASE_TAG: CANDIDATE},
            candidate_percent=self.candidate_percent,
        )
        for host in world.hosts(self.hosts):
            host.application.offer(Offer(spec, handler))


class ChangeHandlers(Step, frozen=True, kw_only=True):
    """Let the handlers of an agent behave otherwise from their next call on; nobody is told. The keys are those of
    `offer-agent`."""

    hosts: Selection
    agent: str = AGENT
    service_time: Seconds = 0.005
    times: ServiceTimes = "exponential"
    fails: Share = 0.0
    hangs: Share = 0.0
    calls: str = ""

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Raises `StepImpossible` if one of them does not offer it."""
        hosts = world.hosts(self.hosts)
        for host in hosts:
            if all(offer.spec.agent != self.agent for offer in host.application.offers):
                raise StepImpossible(f"{host.name} does not offer {self.agent!r}")
        handler = Handler(self.service_time, self.fails, self.hangs, times=self.times, calls=self.calls)
        for host in hosts:
            host.application.change_handler(self.agent, handler)


class ApplyRules(Step, frozen=True, kw_only=True):
    """Apply routing rules, the text of a TOML file, to the whole cluster: each of these nodes signs them."""

    hosts: Selection
    rules: str

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse rules that nobody could apply."""
        read_rules(loads(self.rules), BUILT_IN)

    def perform(self, world: World) -> None:
        """Those that run."""
        for host in world.hosts(self.hosts):
            if host.is_running:
                host.engine.apply_rules(loads(self.rules), "", host.now)
                host.settle()


class WithdrawAgent(Step, frozen=True, kw_only=True):
    """Offer an agent no longer."""

    hosts: Selection
    agent: str = AGENT

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Those that run."""
        for host in world.hosts(self.hosts):
            if host.is_running:
                host.application.withdraw(self.agent)


class CallLoop(Step, frozen=True, kw_only=True):
    """Call a capability, wait for the end, think (mean of an exponential, seconds), call again, also after a restart.

    The first call comes within a second, or with `at_once` this very moment; with `waits` a process makes it only when
    there is an instance to rely on. Calls have one of `keys` keys, as popular as Zipf's law with the exponent `zipf`
    says (0 keys: none). It goes on for some `seconds`, or for ever. With `stream` the capability must yield items.
    """

    hosts: Selection
    capability: str = CAPABILITY
    think_time: Positive = 1.0
    timeout: Positive = 5.0
    at_once: bool = False
    waits: bool = False
    policy: str = "random"
    keys: Count = 0
    zipf: Seconds = 1.0
    seconds: Positive | None = None
    stream: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Each machine is one more caller."""
        loop = Loop(
            RouteQuery(capability=self.capability, policy=self.policy),
            self.think_time,
            self.timeout,
            self.waits,
            stream=self.stream,
            keys=Keys(self.keys, self.zipf) if self.keys else None,
            ends_at=_end(world, self.seconds),
        )
        for host in world.hosts(self.hosts):
            host.application.call_in_a_loop(loop, at_once=self.at_once)


class CallAtRate(Step, frozen=True, kw_only=True):
    """Call a capability `rate` times a second (Poisson), whether or not earlier calls have ended, also after a restart.

    The first call comes within a second. `policy`, `keys`, `zipf` and `seconds` are those of `call-loop`.
    """

    hosts: Selection
    rate: Annotated[float, Meta(gt=0, le=100_000)]
    capability: str = CAPABILITY
    timeout: Positive = 5.0
    policy: str = "random"
    keys: Count = 0
    zipf: Seconds = 1.0
    seconds: Positive | None = None
    stream: bool = False

    machines: ClassVar[tuple[str, ...]] = ("hosts",)
    disturbs: ClassVar[bool] = False

    def perform(self, world: World) -> None:
        """Each machine is one more caller."""
        loop = Loop(
            RouteQuery(capability=self.capability, policy=self.policy),
            timeout=self.timeout,
            stream=self.stream,
            rate=self.rate,
            keys=Keys(self.keys, self.zipf) if self.keys else None,
            ends_at=_end(world, self.seconds),
        )
        for host in world.hosts(self.hosts):
            host.application.call_in_a_loop(loop)


def _end(world: World, seconds: float | None) -> float:
    return inf if seconds is None else world.now + seconds
