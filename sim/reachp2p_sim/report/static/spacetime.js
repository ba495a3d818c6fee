"use strict";
// What the space-time diagram works out, without drawing anything: which part of a window is in view, and cones.
// A window has a column for each property of its messages, in order of sending: `s` and `t` the numbers of sender and
// receiver, `a` when it was sent and `d` how long it took (microseconds; -1: it did not arrive).

const spacetime = {
  SPAN_MIN: 500,

  // The part of a window of this length that comes nearest to [from, to]: no shorter than SPAN_MIN, never beyond an end.
  bounded(from, to, length) {
    const span = Math.min(Math.max(to - from, spacetime.SPAN_MIN), length);
    const begins = Math.min(Math.max(from, 0), length - span);
    return [begins, begins + span];
  },

  // [from, to] stretched by a factor around a point of it (0 its beginning, 1 its end), which stays where it is.
  zoomed(from, to, factor, at) {
    const span = (to - from) * factor, pivot = from + (to - from) * at;
    return [pivot - span * at, pivot + span * (1 - at)];
  },

  // What led to a message (1) and what it set off (2): happened-before, by what is kept in this window.
  cone(w, chosen) {
    const cone = new Int8Array(w.a.length);
    const reached = new Map();
    if (w.d[chosen] >= 0) reached.set(w.t[chosen], w.a[chosen] + w.d[chosen]);
    for (let i = 0; i < w.a.length; i++) {
      if (i === chosen || !reached.has(w.s[i]) || w.a[i] < reached.get(w.s[i])) continue;
      cone[i] = 2;
      const at = w.a[i] + w.d[i];
      if (w.d[i] >= 0 && at < (reached.get(w.t[i]) ?? Infinity)) reached.set(w.t[i], at);
    }
    const before = new Map([[w.s[chosen], w.a[chosen]]]);
    const order = [...w.a.keys()].filter((i) => w.d[i] >= 0 && i !== chosen).sort((p, q) => w.a[q] + w.d[q] - w.a[p] - w.d[p]);
    for (const i of order) {
      if (!before.has(w.t[i]) || w.a[i] + w.d[i] > before.get(w.t[i])) continue;
      cone[i] = 1;
      if (w.a[i] > (before.get(w.s[i]) ?? -Infinity)) before.set(w.s[i], w.a[i]);
    }
    return cone;
  },
};
