/* What charts of one page do together: one zoom for all. */
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
    zoomAll(kind, id, event) {
      if (!event || !["/run", "/cluster"].includes(location.pathname)) return;
      const range = findRange(event);
      if (range === undefined) return;
      /* Dash says nothing of an event that is the same as this chart's last one: two double-clicks are,
         whatever was zoomed on other charts between them. */
      window.dash_clientside.set_props(id, { relayoutData: null });
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
})();
