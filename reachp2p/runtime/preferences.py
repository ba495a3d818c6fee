"""How a call chooses beyond names, tags, policy and key (docs/protocol/routing.md): the rarer arguments, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from reachp2p._arguments import check_bool, check_names, check_optional_text, wrong
from reachp2p.core.commands import IN_FLIGHT_MAX
from reachp2p.core.ids import check_agent_id, check_capability
from reachp2p.core.routing.router import FALLBACKS_MAX
from reachp2p.core.routing.versions import split_target


class Preferences(TypedDict, total=False):
    """Keyword arguments of `Node.call` and its kin."""

    version: str | None
    """A range of versions, as in `^1.2`."""
    release: str | None
    """`candidate`: a canary on request; `stable`: never a candidate."""
    prefer: str | None
    """`zone`: instances in this node's zone first."""
    strict: bool
    """With `consistent_hash`: the owner of the key or nobody."""
    in_flight_max: int
    """With `limited_random`: attempts of this node that an instance may have in flight; 16 if it is left out."""
    by_shape: bool | None
    """Where neither a capability nor an agent is named: find the capability that the parameters fit. None: as the node
    was told."""
    fallback: bool | str | Sequence[str]
    """Capabilities and agents to try when nobody can be asked; True: those that a rule names."""


ALWAYS = ("agent", "policy", "key", "tags", "timeout", "connect_timeout", "read_timeout", "idempotency_key")
"""Arguments that the functions have besides, for those who mistype one."""


def check_preferences(given: Mapping[str, Any], function: str) -> dict[str, Any]:
    """The fields of a `RouteQuery` that they are. Raises `ConfigurationInvalid` (1704) for `function`'s caller."""
    if not given:
        return {}
    check_names(given, [*Preferences.__annotations__, *ALWAYS], function)
    fallback = given.get("fallback", False)
    if isinstance(fallback, str):
        fallback = (fallback,)
    is_list = isinstance(fallback, Sequence) and all(isinstance(one, str) for one in fallback)
    if not is_list and not isinstance(fallback, bool):
        example = 'True, or a list of capabilities and agents, as in ["text.shorten", "nlp/backup"]'
        raise wrong("fallback", fallback, example)
    if not isinstance(fallback, bool):
        _check_fallback(fallback)
    in_flight_max = given.get("in_flight_max", IN_FLIGHT_MAX)
    if isinstance(in_flight_max, bool) or not isinstance(in_flight_max, int) or in_flight_max < 1:
        raise wrong("in_flight_max", in_flight_max, "a whole number from 1, as in 16")
    return {
        "in_flight_max": in_flight_max,
        "version": check_optional_text("version", given.get("version"), "^1.2"),
        "release": _one_of("release", given.get("release"), ("candidate", "stable")),
        "prefer": _one_of("prefer", given.get("prefer"), ("zone",)),
        "strict": check_bool("strict", given.get("strict", False)),
        "fallback": () if isinstance(fallback, bool) else tuple(fallback),
        "allow_fallback": fallback is True,
        "by_shape": given.get("by_shape") is not None and check_bool("by_shape", given["by_shape"]),
    }


def _check_fallback(targets: Sequence[str]) -> None:
    """Raises for more than are tried, and for what is no name."""
    if len(targets) > FALLBACKS_MAX:
        raise wrong("fallback", targets, f"at most {FALLBACKS_MAX} capabilities and agents")
    for target in targets:
        name, _ = split_target(target)
        if "/" in name:
            check_agent_id(name)
        else:
            check_capability(name)


def split_versions(
    capability: str | None, agent: str | None, version: str | None
) -> tuple[str | None, str | None, str | None]:
    """The names without their ranges (`text.summarize@^1.2`), and the one range that was given.

    Raises `InvalidIdentifier` (1707) for a range that cannot be understood, 1704 for two of them.
    """
    ranges = [] if version is None else [version]
    names: list[str | None] = []
    for target in (capability, agent):
        name, wanted = (None, None) if target is None else split_target(target)
        names.append(name)
        ranges += [] if wanted is None else [wanted]
    if len(ranges) > 1:
        raise wrong("version", ranges, "one range of versions, as in text.summarize@^1.2")
    return names[0], names[1], ranges[0] if ranges else None


def _one_of(what: str, value: object, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        raise wrong(what, value, " or ".join(map(repr, known)))
    return value if isinstance(value, str) else None
