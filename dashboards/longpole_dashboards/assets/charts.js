/* What charts of one page do together: a crosshair at the same place on all, one zoom for all. */
(function () {
  "use strict";

  /* -- zoom ------------------------------------------------------------------------------------ */

  function findRange(event) {
    for (const name of Object.keys(event)) {
      const axis = /^(xaxis\d*)\.(autorange|range)/.exec(name)?.[1];
      if (!axis) continue;
      if (event[`${axis}.autorange`]) return null;
      const span = event[`${axis}.range`] ?? [event[`${axis}.range[0]`], event[`${axis}.range[1]`]];
      if (span[0] !== undefined && span[1] !== undefined) return span;
    }
    return undefined;
  }

  const MS = 1000;

  window.longpoleCharts = {
    /* A step's timeline was zoomed: the address says which seconds, and the server draws those. */
    zoomStep(id, event) {
      if (!event || location.pathname !== "/step") return;
      const range = findRange(event);
      if (range === undefined) return;
      const length = document.querySelector(`#${id} .js-plotly-plot`)?.layout?.meta?.length_s ?? Infinity;
      const [first, last] = (range || [0, length]).map((at) => Math.round(Math.min(length, Math.max(0, at)) * MS) / MS);
      const isAll = range === null || (first <= 0 && last >= Math.floor(length * MS) / MS);
      if (isAll) window.longpole.setQueries({ t: null });
      else if (last > first) window.longpole.setQueries({ t: `${first}-${last}` });
    },
    /* A chart was zoomed: the address says so, and every chart of the page follows it. */
    zoomAll(kind, event) {
      if (!event || location.pathname !== "/run") return;
      const range = findRange(event);
      if (range === undefined) return;
      const axis = kind === "time" ? "time" : new URLSearchParams(location.search).get("axis") || "step";
      if (range === null) {
        window.longpole.setQueries({ time: null, zoom: null });
      } else if (axis === "time") {
        const [start, end] = range.map((at) => Math.round(new Date(String(at).replace(" ", "T")).getTime()));
        if (end > start) window.longpole.setQueries({ time: `${start}-${end}`, zoom: null });
      } else {
        const [first, last] = range.map((at) => Math.max(0, Math.round(at * 100) / 100));
        if (last > first) window.longpole.setQueries({ time: null, zoom: `${first}-${last}` });
      }
    },
  };

  /* -- crosshair --------------------------------------------------------------------------------- */

  /* Steps are as wide as they lasted: half a step to either side is the step's time. */
  function toTime(steps, place) {
    const found = steps.find(([step]) => Math.abs(place - step) <= 0.5);
    if (!found) return null;
    const [, start, end] = found;
    return start + (place - found[0] + 0.5) * (end - start);
  }

  function toStep(steps, moment) {
    const found = steps.find(([, start, end]) => start <= moment && moment <= end);
    if (!found) return null;
    const [, start, end] = found;
    return found[0] - 0.5 + (moment - start) / Math.max(1, end - start);
  }

  function listAxes(plot) {
    const layout = plot._fullLayout;
    return Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name)).map((name) => layout[name])
      .filter((axis) => axis.visible !== false && axis._length);
  }

  const kindOf = (plot) => plot.layout?.meta?.axis;

  function listPlots() {
    return [...document.querySelectorAll(".js-plotly-plot")].filter((plot) => plot._fullLayout && kindOf(plot));
  }

  function hideAll() {
    document.querySelectorAll(".lp-crosshair").forEach((line) => { line.style.display = "none"; });
  }

  function showLine(plot, index, axis, pixel) {
    const place = plot.querySelector(".svg-container");
    if (!place) return;
    let line = place.querySelectorAll(".lp-crosshair")[index];
    if (!line) {
      line = document.createElement("i");
      line.className = "lp-crosshair";
      place.append(line);
    }
    const { t, h } = plot._fullLayout._size;
    Object.assign(line.style, {
      display: "block", left: `${axis._offset + pixel}px`, top: `${t}px`, height: `${h}px`,
    });
  }

  function draw(event) {
    const plot = event.target.closest?.(".js-plotly-plot");
    hideAll();
    if (!plot?._fullLayout || !kindOf(plot)) return;
    const x = event.clientX - plot.getBoundingClientRect().left;
    const axis = listAxes(plot).find((each) => x >= each._offset && x <= each._offset + each._length);
    if (!axis) return;
    const place = axis.p2c(x - axis._offset);
    const plots = listPlots();
    const steps = plots.map((each) => each.layout.meta.steps).find(Boolean) || [];
    for (const other of plots) {
      const [from, to] = [kindOf(plot), kindOf(other)];
      const there = from === to ? place
        : from === "step" && to === "time" ? toTime(steps, place)
        : from === "time" && to === "step" ? toStep(steps, place) : null;
      if (there === null) continue;
      listAxes(other).forEach((each, index) => {
        const pixel = each.c2p(there);
        if (pixel >= 0 && pixel <= each._length) showLine(other, index, each, pixel);
      });
    }
  }

  let planned = null;
  document.addEventListener("mousemove", (event) => {
    if (planned) {
      planned = event;
      return;
    }
    planned = event;
    window.requestAnimationFrame(() => {
      const newest = planned;
      planned = null;
      draw(newest);
    });
  }, { passive: true });
  document.addEventListener("mouseleave", hideAll);
})();
