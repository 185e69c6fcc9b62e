/* What a chart shows as points that keys can go to: bars, cells of heat-maps, points of lines, and which
   of them lead somewhere. Looked up when somebody presses a key, not while charts are drawn. */
(function () {
  "use strict";

  /* A heat-map of more cells is walked by those that lead somewhere alone. */
  const MAX_CELLS = 250000;

  const first = (custom) => (Array.isArray(custom) ? custom[0] : custom);
  const leadsToStep = (custom) => Number.isInteger(first(custom));
  const LEADS = {
    "step-timeline": (custom) => custom?.[3] === "sample",
    "samplepage-lanes": (custom) => Boolean(custom?.[2]),
    "cluster-map": (custom) => typeof custom === "string" && custom !== "",
  };
  for (const name of ["shares", "throughput", "mfu", "health", "energy-steps", "gpus"]) {
    LEADS[`run-${name}`] = leadsToStep;
  }

  const axisOf = (plot, reference) => plot._fullLayout[reference.replace(/^([xy])/, "$1axis")];

  /* The middle of what is seen of it: bars may reach out of the part that is shown. */
  function middleOf(axis, from, to) {
    const [low, high] = [axis.c2p(from), axis.c2p(to)].sort((a, b) => a - b);
    const [start, end] = [Math.max(0, low), Math.min(axis._length, high)];
    return end >= start ? (start + end) / 2 : null;
  }

  function pointAt(axis, value) {
    const pixel = axis.c2p(value);
    return pixel >= 0 && pixel <= axis._length ? pixel : null;
  }

  function* listBars(trace, calc, x, y) {
    const isLying = trace.orientation === "h";
    for (const [at, bar] of calc.entries()) {
      if (!bar.s || bar.p0 === undefined) continue;
      const along = middleOf(isLying ? x : y, bar.b, bar.b + bar.s);
      const across = middleOf(isLying ? y : x, bar.p0, bar.p1);
      yield [at, isLying ? along : across, isLying ? across : along];
    }
  }

  function* listCells(trace, calc, x, y) {
    const { z, x: xs, y: ys } = calc[0];
    for (let row = 0; row < z.length; row += 1) {
      const down = middleOf(y, ys[row], ys[row + 1]);
      if (down === null) continue;
      for (let column = 0; column < z[row].length; column += 1) {
        const value = z[row][column];
        if (value === undefined || value === null || Number.isNaN(value)) continue;
        yield [[row, column], middleOf(x, xs[column], xs[column + 1]), down];
      }
    }
  }

  function* listDots(trace, calc, x, y) {
    for (const [at, dot] of calc.entries()) {
      if (Number.isFinite(dot.x) && Number.isFinite(dot.y)) yield [at, pointAt(x, dot.x), pointAt(y, dot.y)];
    }
  }

  const KINDS = { bar: listBars, heatmap: listCells, scatter: listDots };

  function customOf(trace, at) {
    const custom = trace.customdata;
    return Array.isArray(at) ? custom?.[at[0]]?.[at[1]] : custom?.[at];
  }

  function listTrace(plot, calc, curve, found) {
    const { trace } = calc[0];
    const list = KINDS[trace.type];
    if (!list || trace.visible !== true || trace.hoverinfo === "skip") return;
    const [x, y] = [axisOf(plot, trace.xaxis), axisOf(plot, trace.yaxis)];
    for (const [at, right, down] of list(trace, calc, x, y)) {
      if (right === null || down === null) continue;
      found.push({
        curve, at, subplot: trace.xaxis + trace.yaxis, custom: customOf(trace, at), axis: x,
        x: x._offset + right, y: y._offset + down, lies: trace.orientation === "h",
      });
    }
  }

  function countCells(calc) {
    const cells = calc[0].z;
    return cells ? cells.length * (cells[0]?.length || 0) : 0;
  }

  window.longpoleChartPoints = {
    /* What a point is about: its step, sample or node. */
    subjectOf: first,

    /* Whether anything on a chart leads somewhere. */
    canLead: (id) => id in LEADS,

    leads(id, custom) {
      return Boolean(LEADS[id]?.(custom));
    },

    /* What labels leave out, because the pointer sees it on the axis: the step. */
    place(id, custom) {
      return LEADS[id] === leadsToStep && leadsToStep(custom) ? `step ${first(custom)}` : "";
    },

    /* Those that lead somewhere; all of them, where none does. Pixels count from the chart's corner. */
    list(plot, id) {
      const found = [];
      plot.calcdata.forEach((calc, curve) => {
        if (calc[0]?.trace && countCells(calc) <= MAX_CELLS) listTrace(plot, calc, curve, found);
      });
      const leading = found.filter(({ custom }) => this.leads(id, custom));
      return leading.length ? leading : found;
    },
  };
})();
