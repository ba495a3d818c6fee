"""The space-time diagram in a browser: zooming stays within the window, and a cone is what happened before or after."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reachp2p_sim.recording import Recorder
from reachp2p_sim.results.store import Store
from reachp2p_sim.running.run import RunConfig, run_scenario

from tests.sim.report.browser import BROWSER, shown

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
Window = dict[str, list[int]]


def told(page: str) -> Any:
    """What a script has put into the element `told`, as JSON."""
    found = re.search(r'<pre id="told">(.*?)</pre>', page, re.DOTALL)
    assert found is not None, page[-2_000:]
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


def drawn(chance: Random) -> Window:
    """A window of messages between a few nodes; one in six is lost."""
    count, nodes = chance.randint(1, 40), chance.randint(2, 5)
    sent = sorted(chance.sample(range(1_000), count))
    pairs = [chance.sample(range(nodes), 2) for _ in sent]
    return {
        "s": [source for source, _ in pairs],
        "t": [target for _, target in pairs],
        "a": sent,
        "d": [-1 if chance.random() < 1 / 6 else chance.randint(1, 300) for _ in sent],
    }


def leads_to(window: Window, one: int, other: int) -> bool:
    """One was received by the sender of the other before that was sent."""
    arrived = window["a"][one] + window["d"][one]
    return window["d"][one] >= 0 and window["t"][one] == window["s"][other] and arrived <= window["a"][other]


def cone(window: Window, chosen: int) -> list[int]:
    """By the definition: the transitive closure of `leads_to`."""
    numbers = range(len(window["a"]))

    def reached(follows: Any) -> set[int]:
        found: set[int] = set()
        fresh = {chosen}
        while fresh:
            fresh = {n for n in numbers if n not in found and any(follows(m, n) for m in fresh)}
            found |= fresh
        return found

    past = reached(lambda known, number: leads_to(window, number, known))
    future = reached(lambda known, number: leads_to(window, known, number))
    return [1 if number in past else 2 if number in future else 0 for number in numbers]


def test_a_cone_is_what_happened_before_and_after_and_a_view_stays_in_its_window(tmp_path: Path) -> None:
    chance = Random(7)
    windows = [drawn(chance) for _ in range(60)]
    cases = [[window, chance.randrange(len(window["a"]))] for window in windows]
    views = [
        [chance.uniform(-2e6, 3e6), chance.uniform(-2e6, 3e6), chance.choice([0.0, 300.0, 5e3, 1e6])]
        for _ in range(60)
    ]
    zooms = [[1e3, 9e3, factor, at] for factor in (0.25, 0.5, 2.0) for at in (0.0, 0.3, 1.0)]
    script = (files("reachp2p_sim.report") / "static" / "spacetime.js").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(
        f'<!doctype html><pre id="told"></pre><script>{script}\nconst cases = {json.dumps([cases, views, zooms])};\n'
        "document.getElementById('told').textContent = JSON.stringify([\n"
        "  cases[0].map(([w, chosen]) => [...spacetime.cone(w, chosen)]),\n"
        "  cases[1].map(([from, to, length]) => spacetime.bounded(from, to, length)),\n"
        "  cases[2].map(([from, to, factor, at]) => spacetime.zoomed(from, to, factor, at)),\n"
        "]);</script>",
        encoding="utf-8",
    )
    cones, bounded, zoomed = told(shown(page, tmp_path / "profile"))
    expected = [cone(window, chosen) for window, chosen in cases]
    assert cones == expected
    assert {role for one in expected for role in one} == {0, 1, 2}
    for (begins, ends, length), (left, right) in zip(views, bounded, strict=True):
        assert 0 <= left <= right <= length
        wanted = min(max(ends - begins, 500), length)
        assert right - left == pytest.approx(wanted)
        if begins >= 0 and begins + wanted <= length:
            assert left == pytest.approx(begins)
    for (begins, ends, factor, at), (left, right) in zip(zooms, zoomed, strict=True):
        assert right - left == pytest.approx((ends - begins) * factor)
        assert left + (right - left) * at == pytest.approx(begins + (ends - begins) * at)


USES = """
<pre id="told"></pre><script>
(async () => {
  const canvas = document.querySelector("#diagram canvas"), detail = document.querySelector("#diagram .detail");
  const pause = () => new Promise((done) => setTimeout(done, 20));
  while (document.getElementById("diagram").hidden || !detail.textContent) await pause();
  const said = [];
  const say = () => said.push([canvas.getAttribute("aria-label"), detail.textContent]);
  const press = (key) => { canvas.dispatchEvent(new KeyboardEvent("keydown", { key })); say(); };
  document.querySelector('[data-zoom="all"]').click(); say();
  document.querySelector('[data-zoom="in"]').click(); say();
  press("+"); press("-"); press("ArrowLeft"); press("ArrowRight");
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -160, ctrlKey: true, cancelable: true })); say();
  document.querySelector('[data-zoom="all"]').click();
  canvas.setPointerCapture = () => {};
  const box = canvas.getBoundingClientRect();
  for (let x = 100; x < box.width && !/led to it/.test(detail.textContent); x += 3) {
    for (let y = 40; y < box.height && !/led to it/.test(detail.textContent); y += 3) {
      const where = { clientX: box.left + x, clientY: box.top + y, pointerId: 1 };
      canvas.dispatchEvent(new PointerEvent("pointerdown", where));
      canvas.dispatchEvent(new PointerEvent("pointerup", where));
    }
  }
  say();
  press("Escape");
  document.getElementById("told").textContent = JSON.stringify(said);
})();
</script>
"""


def test_keys_buttons_and_clicks_do_in_a_report_what_they_say(tmp_path: Path) -> None:
    config = RunConfig("crash", seed=1, nodes=4)
    recorder = Recorder()
    recorder.finish(result := run_scenario(config, attach=recorder.attach))
    folder = Store(tmp_path / "store").write(config, result, recorder, 1.0)
    page = tmp_path / "report.html"
    text = (folder / "report.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f"{USES}</body>"), encoding="utf-8")
    said = told(shown(page, tmp_path / "profile"))

    def span(label: str) -> tuple[float, float]:
        found = re.search(r"from ([\d.]+) s to ([\d.]+) s", label)
        assert found is not None, label
        return float(found[1]), float(found[2])

    views = [span(label) for label, _ in said]
    whole, half, quarter, again, left, right, wheel = views[:7]
    length = whole[1] - whole[0]
    tolerance = 1e-5
    assert half == pytest.approx((whole[0] + length / 4, whole[1] - length / 4), abs=tolerance)
    assert quarter[1] - quarter[0] == pytest.approx(length / 4, abs=tolerance)
    assert again == pytest.approx(half, abs=tolerance)
    assert left == pytest.approx((half[0] - length / 10, half[1] - length / 10), abs=tolerance)
    assert right == pytest.approx(half, abs=tolerance)
    assert wheel[1] - wheel[0] < half[1] - half[0]
    assert views[7] == pytest.approx(whole, abs=tolerance)
    assert re.search(r"n\d\d → .*: \w+.* \d+ led to it, \d+ could follow from it in this window", said[7][1])
    assert re.search(r"\d+ messages from", said[8][1])
