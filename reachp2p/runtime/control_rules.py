"""What the command line asks about rules: `rules`, `rules_apply`, `rules_diff`, `rules_reload` (protocol/control.md).

The file of whoever asks travels as its text: this node reads it, because it knows which policies there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from reachp2p.config import parse_toml
from reachp2p.core.ids import short
from reachp2p.core.routing.rule_text import differences
from reachp2p.core.routing.rules import RuleSet
from reachp2p.core.views import RulesRecordView
from reachp2p.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from reachp2p.runtime.node import Node

Args = Mapping[str, Any]


def rules_operations(node: Node) -> dict[str, Callable[[Args], Awaitable[Any]]]:
    """The operations by name."""
    asked = _Rules(node)
    return {
        "rules": asked.show,
        "rules_apply": asked.apply,
        "rules_diff": asked.diff,
        "rules_reload": asked.reload,
    }


class _Rules:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def show(self, args: Args) -> Any:
        """What is in force, and what was."""
        view = self._node.rules()
        names = {member.node: member.name for member in self._node.members()}
        return {
            "own": None if view.own is None else {"origin": view.own.origin, "toml": view.own.toml},
            "history": [_record_object(one, names.get(one.author, "")) for one in view.history],
            "unmet": list(view.unmet),
        }

    async def apply(self, args: Args) -> Any:
        """Apply a file to the cluster, or with `dry_run` say what that would change."""
        engine = self._node.engine
        document, origin = _document(args)
        new = engine.check_rules(document, origin)
        changes = differences(engine.rule_set(None), new)
        if args.get("dry_run"):
            return {"version": None, "is_new": False, "changes": changes}
        comment = args.get("comment") or ""
        if not isinstance(comment, str):
            raise ConfigurationInvalid("comment must be text")
        before = max((record.version for record in engine.rules().history), default=0)
        version = await self._node.apply_rules(document, comment)
        return {"version": version, "is_new": version > before, "changes": changes}

    async def diff(self, args: Args) -> Any:
        """What is otherwise in `new` than in `old`; each a version of the cluster, a file's text, or null: in force."""
        old, new = (self._side(args, name) for name in ("old", "new"))
        return {"changes": differences(old, new)}

    async def reload(self, args: Args) -> Any:
        """Read this node's own file again."""
        return {"changed": await self._node.reload_rules()}

    def _side(self, args: Args, name: str) -> RuleSet:
        side = args.get(name)
        if side is None or (isinstance(side, int) and not isinstance(side, bool)):
            return self._node.engine.rule_set(side)
        if not isinstance(side, dict):
            raise ConfigurationInvalid(f"{name} must be a version, an object with toml and origin, or null")
        return self._node.engine.check_rules(*_document(side))


def _document(args: Args) -> tuple[dict[str, Any], str]:
    """The file that was sent, read as TOML, and its name."""
    text, origin = args.get("toml"), args.get("origin", "rules")
    if not isinstance(text, str) or not isinstance(origin, str):
        raise ConfigurationInvalid("toml must be the text of a file of rules, and origin its name")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationInvalid(f"{origin}: not UTF-8 text") from error
    return parse_toml(data, origin, "rules"), origin


def _record_object(view: RulesRecordView, name: str) -> dict[str, Any]:
    return {
        "version": view.version,
        "author": view.author.hex(),
        "author_name": name or short(view.author),
        "digest": view.digest.hex(),
        "issued_at": view.issued_at,
        "comment": view.comment,
        "newest": view.newest,
        "in_force": view.in_force,
        "refused": view.refused or None,
        "rules": view.rules,
        "toml": view.toml,
    }
