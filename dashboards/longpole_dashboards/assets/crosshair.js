/* A crosshair at the same place on every chart of a page that shares its axis: where the mouse is,
   where a finger was, or where the keys went (`chartkeys.js`). Charts say by `meta.axis` what their
   horizontal axis is; steps stand on an axis of time where a chart says when each of them ran. */
(function () {
  "use strict";

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

  /* `place` is on the axis of `plot`, as its calculated data are. */
  function showAt(plot, place) {
    hideAll();
    if (!kindOf(plot)) return;
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

  function follow(event) {
    const plot = event.target.closest?.(".js-plotly-plot");
    if (!plot?._fullLayout || !kindOf(plot)) return hideAll();
    const x = event.clientX - plot.getBoundingClientRect().left;
    const axis = listAxes(plot).find((each) => x >= each._offset && x <= each._offset + each._length);
    if (axis) showAt(plot, axis.p2c(x - axis._offset));
    else hideAll();
  }

  let planned = null;
  function plan(event) {
    if (planned) {
      planned = event;
      return;
    }
    planned = event;
    window.requestAnimationFrame(() => {
      const newest = planned;
      planned = null;
      follow(newest);
    });
  }

  document.addEventListener("pointermove", plan, { passive: true });
  /* A finger that touches does not move first; what it touched stays marked when it is lifted. */
  document.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse") plan(event);
  }, { passive: true, capture: true });
  document.addEventListener("mouseleave", hideAll);

  window.longpoleCrosshair = { showAt, hideAll };
})();
