"""Every counter of the library has its row in docs/counters.md, and every row its counter."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([a-z0-9_.<>]+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def tables(tree: ast.Module) -> dict[str, list[str]]:
    """The strings that each dict of a module holds as values, by its name."""
    return {
        target.id: [v.value for v in node.value.values if isinstance(v, ast.Constant)]
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def names(value: ast.expr, held: dict[str, list[str]]) -> list[str]:
    """The names that an argument can be; what is filled in is `<>`."""
    match value:
        case ast.Constant(value=str(name)):
            return [name]
        case ast.IfExp():
            return names(value.body, held) + names(value.orelse, held)
        case ast.JoinedStr():
            return ["".join(str(p.value) if isinstance(p, ast.Constant) else "<>" for p in value.values)]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="get"), args=[_, other]):
            return held[table] + names(other, held)
    raise AssertionError(f"a counter's name has to be written where it counts: {ast.unparse(value)}")


def counted(source: str) -> list[str]:
    """All names that a module counts by."""
    tree = ast.parse(source)
    held = tables(tree)
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=counters, attr="add" | "add_sized" as method)):
                if ast.unparse(counters).endswith("counters"):
                    for value in node.args[: 2 if method == "add_sized" else 1]:
                        found += names(value, held)
            case ast.FunctionDef(name="counts" | "gauges" as method):
                shown = [
                    key.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Dict)
                    for key in part.keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
                sizes = [name for name in shown if name.startswith("size.")]
                if (
                    method == "counts" or sizes
                ):  # without, all are sizes, and `size.` is put before them later
                    found += [name for name in shown if name not in sizes]
    return found


def plain(name: str) -> str:
    """A name without the words for what is filled in; codes are filled in, too."""
    return re.sub(r"<[a-z]*>|(?<=\.)\d{4}$", "<>", name)


def test_names_are_found_however_they_are_given() -> None:
    source = """
OF = {1: "a.one", 2: "a.two"}
self._counters.add("b.plain", 3)
parts.counters.add("c.good" if ok else f"c.bad.{code}")
counters.add_sized("d.things", "d.bytes", 9)
counters.add(OF.get(number, "a.other"))
seen.add("not.a.counter")
def gauges(self):
    return {"size.things": 3, "e.kept": self.kept}
def counts(self):
    return {"f.kept": self.kept}
"""
    expected = [
        "a.one",
        "a.other",
        "a.two",
        "b.plain",
        "c.bad.<>",
        "c.good",
        "d.bytes",
        "d.things",
        "e.kept",
        "f.kept",
    ]
    assert sorted(counted(source)) == expected


def test_every_counter_is_on_its_page_and_no_other() -> None:
    of_code = {
        plain(name)
        for path in sorted((ROOT / "reachp2p").rglob("*.py"))
        for name in counted(path.read_text(encoding="utf-8"))
    }
    rows = [row[0] for row in ROW.findall((ROOT / "docs" / "counters.md").read_text(encoding="utf-8"))]
    assert len(rows) == len(set(rows))
    of_page = {plain(row) for row in rows}
    assert sorted(of_code - of_page) == [], "counted, and not on docs/counters.md"
    assert sorted(of_page - of_code) == [], "on docs/counters.md, and counted nowhere"
