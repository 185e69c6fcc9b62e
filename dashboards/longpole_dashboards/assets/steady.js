/* Panels are drawn anew while people use them, and Dash then makes all of a panel's elements anew.
   What a person did with an element goes over to the one that takes its place: what was opened
   stays open, the focus stays, and a click that began on one ends on the other. A click on a chart
   that moves or is drawn anew meanwhile belongs to what was under the pointer when it was pressed. */
(function () {
  "use strict";

  const ACTIVE = "summary, button, a[href], [tabindex]";
  const opened = new Map();
  let focused = null;
  let pressed = null;

  /* What an element is, whatever element that is just now: null where it cannot be said. */
  function identify(element) {
    if (!element) return null;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const place = element.parentElement?.closest("[id]");
    const within = place ? `#${CSS.escape(place.id)} ` : "";
    if (element.matches("summary")) return `${within}> summary`;
    const marks = [...element.attributes]
      .filter(({ name }) => name === "href" || (name.startsWith("data-") && !name.startsWith("data-since")))
      .map(({ name, value }) => `[${name}="${CSS.escape(value)}"]`);
    return marks.length ? `${within}${element.localName}${marks.join("")}` : null;
  }

  function find(name) {
    try {
      return name && document.querySelector(name);
    } catch {
      return null;
    }
  }

  /* -- what was opened ----------------------------------------------------------------------- */

  document.addEventListener("toggle", ({ target }) => {
    if (target.matches?.("details[id]")) opened.set(target.id, target.open);
  }, true);

  function reopen(root) {
    if (!opened.size) return;
    const found = root.matches("details[id]") ? [root] : root.querySelectorAll("details[id]");
    for (const details of found) {
      const isOpen = opened.get(details.id);
      if (isOpen !== undefined && details.open !== isOpen) details.open = isOpen;
    }
  }

  /* -- where the focus is ---------------------------------------------------------------------- */

  document.addEventListener("focusin", ({ target }) => {
    focused = { element: target, name: target.matches(ACTIVE) ? identify(target) : null };
  });
  document.addEventListener("focusout", ({ target }) => {
    /* An element that is taken away loses the focus without anybody having moved it. */
    window.queueMicrotask(() => {
      if (focused?.element === target && target.isConnected) focused = null;
    });
  });

  function refocus() {
    if (!focused || focused.element.isConnected || document.activeElement !== document.body) return;
    find(focused.name)?.focus({ preventScroll: true });
  }

  new MutationObserver((changes) => {
    let isNew = false;
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        isNew = true;
        reopen(node);
      }
    }
    if (isNew) refocus();
  }).observe(document.documentElement, { childList: true, subtree: true });

  /* -- clicks ------------------------------------------------------------------------------------ */

  document.addEventListener("pointerdown", ({ target }) => {
    const element = target.closest?.(ACTIVE);
    pressed = element ? { element, name: identify(element) } : null;
  }, true);

  /* The browser gives such a click to what both elements stand in, or to nobody. */
  document.addEventListener("pointerup", (event) => {
    const began = pressed;
    pressed = null;
    if (!began || began.element.isConnected) return;
    const successor = find(began.name);
    const under = document.elementFromPoint(event.clientX, event.clientY);
    if (successor?.contains(under)) window.setTimeout(() => successor.isConnected && successor.click());
  }, true);

  document.addEventListener("click", ({ target }) => {
    const details = target.closest?.("summary")?.parentElement;
    if (details?.id) opened.set(details.id, !details.open);
  }, true);

  /* -- clicks on charts ---------------------------------------------------------------------------- */

  const MAX_TRAVEL_PX = 4;
  let held = null;

  document.addEventListener("pointerdown", (event) => {
    const plot = event.target.closest?.(".js-plotly-plot");
    held = plot && {
      plot, data: plot.data, top: plot.getBoundingClientRect().top, x: event.clientX, y: event.clientY,
      points: (plot._hoverdata || []).map(({ customdata }) => ({ customdata })),
    };
  }, true);

  document.addEventListener("pointerup", (event) => {
    const began = held;
    held = null;
    if (!began?.points.length || !began.plot.isConnected) return;
    const isClick = Math.hypot(event.clientX - began.x, event.clientY - began.y) < MAX_TRAVEL_PX;
    const isSteady = began.plot.data === began.data
      && Math.abs(began.plot.getBoundingClientRect().top - began.top) < 2;
    if (!isClick || isSteady) return;
    /* Plotly looks for what is under the pointer now: its answer is let go by. */
    const { plot } = began;
    const emit = plot.emit;
    plot.emit = (name, ...rest) => (name === "plotly_click" ? false : emit.call(plot, name, ...rest));
    window.setTimeout(() => { plot.emit = emit; }, 400);
    const graph = plot.closest("[id]");
    window.dash_clientside?.set_props?.(graph.id, { clickData: { points: began.points } });
  }, true);
})();
