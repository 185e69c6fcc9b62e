/* Charts by keyboard: Tab goes to them, arrows move a cursor along what can be opened (along all that is
   drawn, where nothing can), Enter opens it, Escape leaves the chart. What the cursor stands on is said
   as it is for the pointer, and the crosshair follows. Nothing of it is made before a key is pressed: the
   place that screen readers read from is part of the page, for they miss what is there only as it is written. */
(function () {
  "use strict";

  const SAME_PX = 1.5;
  const PAGE = 10;
  const SAID = "lp-chart-said";
  /* Plotly draws labels a little later. */
  const LABELLED_MS = 150;

  /* The chart that has the cursor, and where: `points` belong to `calc`, the data that was drawn. */
  let cursor = null;
  let planned = 0;

  /* -- charts can be reached ------------------------------------------------------------------- */

  function titleOf(graph) {
    const panel = graph.closest(".lp-panel");
    const title = panel?.querySelector(".lp-panel-title")?.textContent.trim();
    return title || graph.id.replace(/-/g, " ");
  }

  /* What says that keys work on a chart: all of it goes where a chart becomes a message. */
  const MARKS = ["tabindex", "role", "aria-roledescription", "aria-label", "data-opens"];

  /* `figure` is what is shown there: a chart that only says why it is empty is not reached. */
  function makeReachable(place, figure) {
    const graph = place.closest(".dash-graph");
    if (!graph || figure?.layout?.meta?.blank) return;
    if (!figure?.data?.length) return MARKS.forEach((name) => graph.removeAttribute(name));
    if (graph.hasAttribute("tabindex")) return;
    graph.tabIndex = 0;
    graph.setAttribute("role", "application");
    graph.setAttribute("aria-roledescription", "chart");
    const opens = window.longpoleChartPoints.canLead(graph.id);
    graph.dataset.opens = opens ? "yes" : "no";
    graph.setAttribute("aria-label", `${titleOf(graph)}: arrow keys move, ${opens ? "Enter opens, " : ""}Escape leaves`);
  }

  /* -- where the cursor goes ------------------------------------------------------------------- */

  const nearest = (points, measure) =>
    points.reduce((best, each) => (best && measure(best) <= measure(each) ? best : each), null);

  const inReadingOrder = (points) => [...points].sort((a, b) => a.y - b.y || a.x - b.x);

  /* Bars that lie are read row by row. Everything else goes on to the next column, to the same line or
     colour in it, or to what is at the same height. */
  function goAside(points, at, direction) {
    if (at.lies) {
      const order = inReadingOrder(points);
      return order[order.indexOf(at) + direction] || null;
    }
    const ahead = points.filter((each) => each.subplot === at.subplot && (each.x - at.x) * direction > SAME_PX);
    const next = nearest(ahead, (each) => Math.abs(each.x - at.x));
    if (!next) return null;
    const column = ahead.filter((each) => Math.abs(each.x - next.x) <= SAME_PX);
    return nearest(column, (each) => Math.abs(each.y - at.y) + (each.curve === at.curve ? 0 : 1000));
  }

  function goAlong(points, at, direction) {
    const ahead = points.filter((each) => (each.y - at.y) * direction > SAME_PX);
    const near = nearest(ahead, (each) => Math.abs(each.x - at.x));
    if (!near) return null;
    const off = Math.abs(near.x - at.x) + SAME_PX;
    return nearest(ahead.filter((each) => Math.abs(each.x - at.x) <= off), (each) => Math.abs(each.y - at.y));
  }

  function goFar(points, at, direction) {
    let there = at;
    for (let count = 0; count < PAGE; count += 1) there = goAside(points, there, direction) || there;
    return there;
  }

  const firstOf = (points) => (points[0].lies ? inReadingOrder(points)[0] : nearest(points, ({ x }) => x));
  const lastOf = (points) => (points[0].lies ? inReadingOrder(points).at(-1) : nearest(points, ({ x }) => -x));

  const MOVES = {
    ArrowRight: (points, at) => (at ? goAside(points, at, 1) : firstOf(points)),
    ArrowLeft: (points, at) => (at ? goAside(points, at, -1) : lastOf(points)),
    ArrowDown: (points, at) => (at ? goAlong(points, at, 1) : firstOf(points)),
    ArrowUp: (points, at) => (at ? goAlong(points, at, -1) : lastOf(points)),
    PageDown: (points, at) => (at ? goFar(points, at, 1) : lastOf(points)),
    PageUp: (points, at) => (at ? goFar(points, at, -1) : firstOf(points)),
    Home: firstOf,
    End: lastOf,
  };

  /* -- what is shown of it ------------------------------------------------------------------------ */

  function getMark(plot) {
    const place = plot.querySelector(".svg-container");
    let mark = place.querySelector(".lp-chart-cursor");
    if (!mark) {
      mark = document.createElement("i");
      mark.className = "lp-chart-cursor";
      place.append(mark);
    }
    return mark;
  }

  function say(words) {
    document.getElementById(SAID).textContent = words;
  }

  function readLabels(plot) {
    const lines = [];
    for (const text of plot.querySelectorAll(".hoverlayer .hovertext text, .hoverlayer .axistext text")) {
      const parts = text.querySelectorAll("tspan.line");
      for (const part of parts.length ? parts : [text]) lines.push(part.textContent.trim());
    }
    return lines.filter(Boolean).join(", ");
  }

  function show({ graph, plot, at }) {
    Object.assign(getMark(plot).style, { display: "block", left: `${at.x}px`, top: `${at.y}px` });
    window.Plotly.Fx.hover(plot, [{ curveNumber: at.curve, pointNumber: at.at }], at.subplot);
    window.longpoleCrosshair.showAt(plot, at.axis.p2c(at.x - at.axis._offset));
    window.clearTimeout(planned);
    const place = window.longpoleChartPoints.place(graph.id, at.custom);
    planned = window.setTimeout(() => say([place, readLabels(plot)].filter(Boolean).join(": ")), LABELLED_MS);
  }

  function leave() {
    if (!cursor) return;
    const { plot } = cursor;
    cursor = null;
    window.clearTimeout(planned);
    const mark = plot.querySelector(".lp-chart-cursor");
    if (mark) mark.style.display = "none";
    if (plot._fullLayout) window.Plotly.Fx.unhover(plot);
    window.longpoleCrosshair.hideAll();
    say("");
  }

  /* -- charts that are drawn anew under the cursor -------------------------------------------------- */

  const isSame = (one, other) =>
    one.curve === other.curve && JSON.stringify(one.custom) === JSON.stringify(other.custom);

  /* The same bar, wherever it is now; else, for a new stage moves all curves on, another of the same step
     or sample; else what is where it was. */
  function find(points, before) {
    const { subjectOf } = window.longpoleChartPoints;
    const subject = subjectOf(before.custom);
    const likely = [
      (each) => before.custom !== undefined && isSame(each, before),
      (each) => subject !== undefined && subjectOf(each.custom) === subject,
    ];
    const found = likely.map((isIt) => points.filter(isIt)).find((some) => some.length) || points;
    return nearest(found, (each) => Math.hypot(each.x - before.x, each.y - before.y));
  }

  function take(graph, plot) {
    const isNew = cursor?.plot !== plot;
    if (isNew) leave();
    if (!isNew && cursor.calc === plot.calcdata) return cursor;
    const points = window.longpoleChartPoints.list(plot, graph.id);
    const at = cursor?.at && points.length ? find(points, cursor.at) : null;
    cursor = { graph, plot, points, at, calc: plot.calcdata };
    if (!plot.lpFollowed) {
      plot.lpFollowed = true;
      plot.on("plotly_afterplot", () => {
        /* Another size or part moves everything, though the data stay. */
        if (cursor?.plot !== plot || !cursor.at) return;
        cursor.calc = null;
        window.requestAnimationFrame(() => {
          if (cursor?.plot === plot && plot.isConnected && take(graph, plot).at) show(cursor);
        });
      });
    }
    return cursor;
  }

  /* -- keys -------------------------------------------------------------------------------------- */

  /* Through Plotly's own event: whoever listens to clicks hears of it as of any other. */
  function open({ graph, plot, at }, event) {
    if (!at || !window.longpoleChartPoints.leads(graph.id, at.custom)) return;
    const data = plot.data[at.curve];
    const point = {
      curveNumber: at.curve, pointNumber: at.at, customdata: at.custom, data, fullData: plot._fullData[at.curve],
    };
    plot.emit("plotly_click", { points: [point], event });
  }

  function act(event, graph, plot) {
    const place = take(graph, plot);
    if (event.key === "Enter") return open(place, event);
    if (!place.points.length) return;
    const there = MOVES[event.key](place.points, place.at);
    if (there) place.at = there;
    if (place.at) show(place);
  }

  /* Before the page's own keys: arrows go from step to step where no chart has the focus. */
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const graph = event.target;
    if (!graph.matches?.(".dash-graph[tabindex]")) return;
    if (event.key !== "Enter" && event.key !== "Escape" && !MOVES[event.key]) return;
    event.stopPropagation();
    event.preventDefault();
    if (event.key === "Escape") {
      leave();
      graph.blur();
      return;
    }
    window.longpoleNear.drawNow(graph.id);
    const plot = graph.querySelector(".js-plotly-plot");
    if (plot?._fullLayout && plot.calcdata) act(event, graph, plot);
  }, true);

  document.addEventListener("focusout", ({ target }) => {
    /* Charts that are taken away are left too; those that take their place begin anew. */
    if (cursor?.graph === target) leave();
  });

  window.longpoleChartKeys = { makeReachable };
})();
