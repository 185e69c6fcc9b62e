/* Charts are drawn when they come near: those in sight at once, those a screen away once nothing in
   sight has been drawn for a while, all others when somebody scrolls to them. Until then their place,
   which has its height from the start, shows where they will be. What changes meanwhile is only
   remembered. */
(function () {
  "use strict";

  const NEAR_PX = 700;
  const SETTLE_MS = 60;
  const AFTER_SIGHT_MS = 1500;
  const IDLE_WITHIN_MS = 1000;
  const PAUSE_MS = 400;
  const LONGEST_WAIT_MS = 3000;
  let drawnMs = 0;
  let drawsAll = false;
  let react = null;

  /* Place of a chart -> what to draw there, and the listeners that were asked for before it was. */
  const held = new Map();
  const sights = new WeakMap();
  const asked = new WeakMap();

  const isBlank = (figure) => Boolean(figure?.layout?.meta?.blank);

  const observer = new IntersectionObserver((entries) => {
    /* On a busy machine one place may come several times at once: what was seen last counts. */
    const last = new Map(entries.map((entry) => [entry.target, entry]));
    const seen = [...last.values()];
    seen.sort((a, b) => a.boundingClientRect.top - b.boundingClientRect.top);
    for (const { target, isIntersecting, boundingClientRect: box } of seen) {
      const inSight = isIntersecting && box.top < window.innerHeight && box.bottom > 0;
      sights.set(target, inSight ? "sight" : isIntersecting ? "near" : "far");
      if (!target.isConnected) forget(target);
      else if (held.has(target) && isIntersecting) plan(target);
    }
  }, { rootMargin: `${NEAR_PX}px 0px` });

  function forget(place) {
    observer.unobserve(place);
    sights.delete(place);
    held.delete(place);
  }

  let nearTimer = 0;

  function plan(place) {
    const inSight = sights.get(place) === "sight";
    if (inSight || !nearTimer) {
      window.clearTimeout(nearTimer);
      nearTimer = window.setTimeout(drawNear, AFTER_SIGHT_MS);
    }
    if (inSight) window.setTimeout(() => drawHeld(place));
  }

  function drawNear() {
    nearTimer = 0;
    for (const place of held.keys()) {
      if (sights.get(place) === "far") continue;
      const draw = () => drawHeld(place);
      if (window.requestIdleCallback) window.requestIdleCallback(draw, { timeout: IDLE_WITHIN_MS });
      else window.setTimeout(draw);
    }
  }

  /* -- what waits for the charts in sight -------------------------------------------------------- */

  const waiting = [];
  let firstWaitMs = 0;

  function isSeenSoon() {
    const places = [...document.querySelectorAll(".dash-graph .js-plotly-plot, .dash-graph:empty")];
    return places.some((place) => {
      const { top, bottom, width } = place.getBoundingClientRect();
      return width && bottom > 0 && top < window.innerHeight && !place._fullLayout && held.has(place);
    });
  }

  function endWait() {
    const isOver = performance.now() - firstWaitMs > LONGEST_WAIT_MS;
    if (!isOver && (performance.now() - drawnMs < PAUSE_MS || isSeenSoon())) {
      window.setTimeout(endWait, PAUSE_MS);
      return;
    }
    for (const act of waiting.splice(0)) act();
  }

  function afterSight(act) {
    if (waiting.push(act) > 1) return;
    firstWaitMs = drawnMs = performance.now();
    window.setTimeout(endWait, PAUSE_MS);
  }

  function drawHeld(place) {
    const figure = held.get(place);
    if (!figure) return;
    held.delete(place);
    if (place.isConnected) draw(place, figure);
  }

  function draw(place, figure) {
    drawnMs = performance.now();
    const before = asked.get(place) || [];
    if (asked.has(place)) delete place.on;
    asked.delete(place);
    const drawn = react(place, figure);
    for (const [name, listener] of before) place.on(name, listener);
    return drawn;
  }

  /* Dash listens to a chart as soon as it takes it for drawn. */
  function standIn(place) {
    if (place.on) return;
    const listeners = [];
    asked.set(place, listeners);
    place.on = (name, listener) => listeners.push([name, listener]);
  }

  function show(place, figure) {
    if (!sights.has(place)) {
      sights.set(place, "far");
      observer.observe(place);
    }
    held.delete(place);
    window.longpoleChartKeys.makeReachable(place, figure);
    if (!isBlank(figure) && (drawsAll || (place._fullLayout && sights.get(place) === "sight"))) {
      return draw(place, figure);
    }
    standIn(place);
    if (!isBlank(figure)) {
      held.set(place, figure);
      if (sights.get(place) !== "far") plan(place);
    }
    return Promise.resolve(place);
  }

  /* Dash asks for it several times for every new chart; it is drawn anew for another size only. */
  function fit(place, resize) {
    return new Promise((resolve) => {
      window.setTimeout(() => {
        const layout = place._fullLayout;
        const isSame = !layout || !place.isConnected
          || (layout.width === place.clientWidth && layout.height === place.clientHeight);
        resolve(isSame ? place : resize(place).catch(() => place));
      }, SETTLE_MS);
    });
  }

  function take(plotly) {
    react = plotly.react;
    plotly.react = (place, figure) => show(place, figure);
    const resize = plotly.Plots.resize;
    plotly.Plots.resize = (place) => fit(place, resize);
  }

  let found;
  Object.defineProperty(window, "Plotly", {
    configurable: true,
    enumerable: true,
    get: () => found,
    set: (plotly) => {
      if (plotly && plotly !== found) take(plotly);
      found = plotly;
    },
  });

  window.longpoleNear = {
    /* Call something once the charts in sight are drawn. */
    afterSight,
    /* From now on everything is drawn, wherever it is: for paper, and for pictures of whole pages. */
    drawAll() {
      drawsAll = true;
      window.dispatchEvent(new CustomEvent("longpole-draw-all"));
      for (const place of [...held.keys()]) drawHeld(place);
    },
    drawsAll: () => drawsAll,
    /* Draw one chart now, by the id of its place. */
    drawNow(id) {
      for (const place of held.keys()) if (place.closest(`#${CSS.escape(id)}`)) return drawHeld(place);
    },
  };
  window.addEventListener("beforeprint", window.longpoleNear.drawAll);
})();
