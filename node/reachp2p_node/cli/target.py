"""Whom a command is about: a capability, an agent, tags, or what fits the parameters."""

from __future__ import annotations

from collections.abc import Mapping

import typer

NO_PARAMS = "{}"


def target_of(capability: str | None, params: str) -> tuple[str | None, str]:
    """Capability and parameters: where no capability is named, the parameters are the first argument."""
    if capability is not None and capability[:1] in ("{", "[", "@", "-") and params == NO_PARAMS:
        return None, capability
    return capability, params


def tags_of(given: list[str] | None) -> dict[str, str]:
    """What `--tag KEY=VALUE` says."""
    tags: dict[str, str] = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text!r}: write KEY=VALUE, as in env=prod", param_hint="--tag")
        tags[key] = value
    return tags


def check_target(
    capability: str | None, agent: str | None, tags: Mapping[str, str], *, by_shape: bool, has_params: bool
) -> None:
    """Refuse a command that is about nobody. Parameters alone may be enough: the node knows."""
    if capability is None and agent is None and not tags and not by_shape and not has_params:
        raise typer.BadParameter(
            "name a CAPABILITY, or whom you mean with --agent, --tag or --by-shape", param_hint="CAPABILITY"
        )
