/* What the browser does by itself: time that passes, addresses, theme, the gate of live updates. */
(function () {
  "use strict";

  const LOST_AFTER_MS = 7000;
  /* The push connection is tried again for a few minutes only, then never: a page that was lost for
     this long begins anew once the server answers. Its address holds all of its state. */
  const RELOAD_AFTER_MS = 60000;
  /* Two heartbeats that did not come. */
  const ASK_AFTER_MS = 4000;
  const ASK_AGAIN_MS = 5000;
  const ANSWER_TIMEOUT_MS = 15000;
  const QUIET_AFTER_MS = 60000;
  const SLOW_AFTER_MS = 1500;
  const NO_UPDATE = () => window.dash_clientside.no_update;

  /* Ages are measured on the server's clock: its offset comes with every tick. */
  let serverOffsetMs = 0;
  let heardMs = 0;
  let lastTick = null;
  let shownTick = null;
  let isPaused = false;
  let isSignedOut = false;
  const serverNowMs = () => Date.now() + serverOffsetMs;

  function formatDuration(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  }

  /* What a chart holds for Plotly, as its sender wrote it: see `figures/figure.py`. */
  function asWritten(value) {
    return typeof value === "string" ? value.replaceAll("&lt;", "<") : value;
  }

  function formatClock(ms) {
    return new Date(ms).toLocaleTimeString("en-GB");
  }

  /* -- time that passes ------------------------------------------------------------------ */

  /* Only what differs: what is written here is itself a change that is watched for. */
  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function mark(element, name, isSo) {
    const value = isSo ? "yes" : "no";
    if (element.dataset[name] !== value) element.dataset[name] = value;
  }

  function tickAges() {
    document.querySelectorAll("[data-since-ms]:not(.lp-gauge)").forEach((element) => {
      write(element, formatDuration((serverNowMs() - Number(element.dataset.sinceMs)) / 1000));
    });
    document.querySelectorAll(".lp-gauge").forEach(tickGauge);
    document.querySelectorAll(".lp-now[data-level]").forEach((now) => {
      if (!now.querySelector(".lp-gauge")) delete now.dataset.level;
    });
    /* What is not there has nothing to show but that. */
    document.querySelectorAll(".lp-page").forEach((page) => {
      const isMissing = page.querySelector(":scope > .lp-notice-slot > .lp-notice-missing") ? "yes" : "no";
      if (page.dataset.missing !== isMissing) page.dataset.missing = isMissing;
    });
  }

  /* The gauge ends at the age or a quarter past the longest, so that the marks never leave it. */
  function tickGauge(gauge) {
    const age = Math.max(0, (serverNowMs() - Number(gauge.dataset.sinceMs)) / 1000);
    const usual = Number(gauge.dataset.usualS) || null;
    const longest = Number(gauge.dataset.longestS) || null;
    const hang = Number(gauge.dataset.hangFactor);
    const end = Math.max(age, longest ? longest * 1.25 : age || 1);
    gauge.style.setProperty("--age", age / end);
    gauge.style.setProperty("--usual", usual ? usual / end : -1);
    gauge.style.setProperty("--longest", longest ? longest / end : -1);
    let level = "usual";
    let words = "";
    const grace = Number(gauge.dataset.graceS);
    if (longest && age > longest + grace) {
      level = age > longest * hang + grace * hang ? "hang" : "late";
      words = `${(age / longest).toFixed(1)} × the longest so far`;
      if (level === "hang") words += ": it may hang";
    }
    for (const element of [gauge, gauge.closest(".lp-now")]) {
      if (element && element.dataset.level !== level) element.dataset.level = level;
    }
    write(gauge.querySelector("[data-age]"), formatDuration(age));
    write(gauge.querySelector(".lp-gauge-words"), words);
  }

  /* How fresh the page is: in the header, and as a notice when the server is gone. */
  function showConnection() {
    const pill = document.getElementById("connection-pill");
    if (!pill) return;
    const [state, text, notice] = describeConnection();
    if (pill.dataset.state !== state) pill.dataset.state = state;
    write(document.getElementById("connection"), text);
    writeNotice(document.getElementById("connection-notice"), notice);
    const isBehind = isPaused || hasTime();
    mark(document.getElementById("jump"), "shown", isBehind);
    mark(document.getElementById("pause"), "paused", isPaused);
  }

  function writeNotice(place, words) {
    if ((place.dataset.words || "") === words) return;
    place.dataset.words = words;
    place.replaceChildren(...(words ? [words] : []));
    if (!isSignedOut) return;
    const link = document.createElement("a");
    link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
    link.className = "lp-link";
    link.textContent = "Sign in";
    place.append(" ", link);
  }

  function describeConnection() {
    if (!heardMs) return ["connecting", "connecting", ""];
    const asOfMs = shownTick ? shownTick.as_of_ms : 0;
    const asOf = asOfMs ? `data as of ${formatClock(asOfMs)}` : "waiting for data";
    if (isSignedOut) {
      return ["signed-out", `signed out, ${asOf}`, "You are signed out: nothing new is shown here."];
    }
    const silentS = (Date.now() - heardMs) / 1000;
    if (silentS * 1000 > LOST_AFTER_MS) {
      const notice = `Connection to the server lost ${formatDuration(silentS)} ago. Trying again.`;
      return ["lost", asOf, notice];
    }
    /* The server lives, and says why it does not know of everything. */
    const blind = lastTick?.blind || "";
    const waitedS = longestWaitS();
    if (waitedS * 1000 > SLOW_AFTER_MS) {
      return ["live", `loading for ${formatDuration(waitedS)}, ${asOf}`, blind];
    }
    if (isPaused) return ["paused", `paused, ${asOf}`, blind];
    if (asOfMs && serverNowMs() - asOfMs > QUIET_AFTER_MS) return ["quiet", `no new ${asOf}`, blind];
    return [blind ? "quiet" : "live", asOf, blind];
  }

  /* Questions that the server has not answered yet, by when they were asked. */
  const waitedFor = new Set();
  const plainFetch = window.fetch.bind(window);

  window.fetch = (...request) => {
    const answer = plainFetch(...request);
    if (String(request[0]?.url ?? request[0]).includes("_dash-update-component")) {
      const asked = { ms: Date.now() };
      const done = (answered) => {
        waitedFor.delete(asked);
        if (answered?.status === 401) isSignedOut = true;
      };
      waitedFor.add(asked);
      answer.then(done, done);
    }
    return answer;
  };

  function longestWaitS() {
    const oldest = waitedFor.values().next().value;
    return oldest ? (Date.now() - oldest.ms) / 1000 : 0;
  }

  let tickPlanned = false;

  function planTick() {
    if (tickPlanned) return;
    tickPlanned = true;
    window.requestAnimationFrame(() => {
      tickPlanned = false;
      tickAges();
    });
  }

  let askedMs = 0;

  /* Nothing is heard: the server is gone, or it does not know any more who looks at this page. */
  function askForServer() {
    const nowMs = Date.now();
    const silentMs = () => (heardMs ? Date.now() - heardMs : 0);
    if (!(isSignedOut || silentMs() > ASK_AFTER_MS) || nowMs - askedMs < ASK_AGAIN_MS) return;
    askedMs = nowMs;
    fetch("/api/v1/me", { cache: "no-store" })
      .then(({ status }) => {
        const isBack = isSignedOut && status < 400;
        isSignedOut = status === 401;
        if (isBack || (status < 500 && silentMs() > RELOAD_AFTER_MS)) location.reload();
      })
      .catch(() => {});
  }

  document.body.dataset.agThemeMode = document.documentElement.dataset.agThemeMode;

  window.setInterval(() => {
    tickAges();
    showConnection();
    askForServer();
  }, 1000);
  new MutationObserver(planTick).observe(
    document.documentElement,
    { childList: true, subtree: true, attributes: true, attributeFilter: ["data-since-ms"] }
  );

  /* -- addresses ------------------------------------------------------------------------- */

  function go(href, replace) {
    if (href === location.pathname + location.search) return;
    history[replace ? "replaceState" : "pushState"]({}, "", href);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    showConnection();
    if (!replace) window.scrollTo(0, 0);
  }

  function setQuery(name, value, replace) {
    const query = new URLSearchParams(location.search);
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
    go(`${location.pathname}?${query.toString()}`, replace);
  }

  function setQueries(changes) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) query.delete(name);
      else query.set(name, value);
    }
    go(`${location.pathname}?${query.toString()}`, true);
  }

  const getQuery = (name) => new URLSearchParams(location.search).get(name);
  /* Whether a part was chosen on a chart: the page does not show the newest. */
  const hasTime = (search = location.search) => ["time", "zoom"].some((name) => new URLSearchParams(search).has(name));

  function stepHref(run, step) {
    return `/step?run=${encodeURIComponent(run)}&step=${step}`;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [role=radiogroup], .ag-root, .mantine-Drawer-content")) return;
    if (event.key === "ArrowLeft") document.getElementById("step-previous")?.click();
    else if (event.key === "ArrowRight") document.getElementById("step-following")?.click();
    else if (event.key === " " && !event.target.closest("button, a")) {
      event.preventDefault();
      document.getElementById("pause")?.click();
    }
  });

  /* -- where one is ------------------------------------------------------------------------ */

  const PLACES = { "/": "nav-runs", "/run": "nav-runs", "/step": "nav-runs", "/trajectory": "nav-runs",
    "/compare": "nav-runs", "/cluster": "nav-cluster", "/alerts": "nav-alerts" };
  const TITLES = { "/": "Runs", "/cluster": "Cluster", "/alerts": "Alerts" };
  let numFiring = 0;
  let placeName = "";

  function showPlace(pathname, trail) {
    document.querySelectorAll(".lp-nav").forEach((link) => {
      if (link.id === PLACES[pathname]) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    placeName = [...trail].reverse().join(" · ") || TITLES[pathname] || "";
    showTitle();
  }

  /* A tab that lies behind others says by its name that something fires. */
  function showTitle() {
    const words = [placeName, "Longpole"].filter(Boolean).join(" · ");
    document.title = numFiring ? `(${numFiring}) ${words}` : words;
  }

  /* What is below the window waits until everything in it is drawn. */
  const putOff = new Set();

  function askLater(id, { version }) {
    if (putOff.has(id)) return;
    putOff.add(id);
    window.longpoleNear.afterSight(() => {
      putOff.delete(id);
      window.dash_clientside.set_props(id, { data: { version, sent_ms: Date.now() } });
    });
  }

  window.longpole = {
    go,
    setQueries,
    asWritten,
    formatDuration,
    serverNowMs,
    /* A control was moved: write it into the address, unless it says so already. */
    choose(path, name, value, fallback) {
      if (location.pathname !== path || value === null || value === undefined) return;
      const chosen = { [name]: value === fallback ? null : value };
      if (name === "span") {
        /* Who asks for the last minutes leaves the time that was chosen on a chart. */
        if (value && (hasTime() || (getQuery(name) ?? fallback) !== value)) {
          setQueries({ ...chosen, time: null, zoom: null });
        }
      } else if ((getQuery(name) ?? fallback) !== value) setQueries(chosen);
    },
    /* The address changed: move the control. */
    chosen(path, search, name, fallback) {
      if (location.pathname !== path) return NO_UPDATE();
      /* While a time is shown that was chosen on a chart, no minutes are: each of them can be. */
      if (name === "span" && hasTime(search)) return "";
      return new URLSearchParams(search).get(name) ?? fallback;
    },
    /* A chart was zoomed: remember it, and on which revision of the chart. */
    zoomed(store, id, event, before) {
      if (!event) return;
      const kept = { ...(before || {}) };
      if (event["xaxis.autorange"] || event.autosize || event["xaxis.range"]) delete kept[id];
      const span = event["xaxis.range"] || [event["xaxis.range[0]"], event["xaxis.range[1]"]];
      if (span[0] !== undefined && span[1] !== undefined) {
        const plot = document.querySelector(`#${id} .js-plotly-plot`);
        kept[id] = { revision: plot?.layout?.uirevision, range: span };
      }
      window.dash_clientside.set_props(store, { data: kept });
    },
    /* One question at a time: the next pulse waits for the answer to the last one. */
    pulse(id, live, answer, pulse) {
      const newest = live || answer || { version: "first" };
      if (pulse?.version === "later") {
        askLater(id, newest);
        return NO_UPDATE();
      }
      if (!pulse && answer) {
        /* The page came with its first answers. */
        if (answer.version === newest.version) return NO_UPDATE();
      } else if (pulse) {
        const answered = answer && answer.version === pulse.version;
        if (!answered && Date.now() - pulse.sent_ms < ANSWER_TIMEOUT_MS) return NO_UPDATE();
        if (pulse.version === newest.version) return NO_UPDATE();
      }
      const data = { version: newest.version, sent_ms: Date.now() };
      window.dash_clientside.set_props(id, { data });
      return NO_UPDATE();
    },
  };

  /* -- callbacks ------------------------------------------------------------------------- */

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.longpole = {
    zone() {
      const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
      return { name, offset_min: -new Date().getTimezoneOffset() };
    },

    /* The newest tick goes on to the pages, unless the viewer holds them still. */
    forward(tick, paused, live) {
      if (!tick) return NO_UPDATE();
      if (tick !== lastTick) {
        /* Whichever comes back first, the connection or the server's word that it is well. */
        if (heardMs && Date.now() - heardMs > RELOAD_AFTER_MS) {
          location.reload();
          return NO_UPDATE();
        }
        lastTick = tick;
        heardMs = Date.now();
        serverOffsetMs = tick.now_ms - heardMs;
      }
      isPaused = Boolean(paused);
      const goesOn = !paused && !(live && live.version === tick.version);
      if (goesOn) shownTick = tick;
      showConnection();
      return goesOn ? tick : NO_UPDATE();
    },

    pause(pauseClicks, jumpClicks, paused) {
      const triggered = window.dash_clientside.callback_context.triggered_id;
      if (!triggered || !(pauseClicks || jumpClicks)) return NO_UPDATE();
      if (triggered === "jump") {
        setQueries({ time: null, zoom: null });
        return false;
      }
      return !paused;
    },

    toggleTheme(clicks, theme) {
      if (!clicks) return NO_UPDATE();
      return theme === "light" ? "dark" : "light";
    },

    applyTheme(theme) {
      const chosen = theme || "dark";
      document.documentElement.dataset.agThemeMode = chosen;
      document.body.dataset.agThemeMode = chosen;
      return chosen;
    },

    crumbs(pathname, search) {
      const query = new URLSearchParams(search);
      const run = query.get("run") || "";
      const trail = {
        "/run": [query.get("id")],
        "/step": [run, query.get("step") && `step ${query.get("step")}`],
        "/trajectory": [run, query.get("id") && `sample ${query.get("id")}`],
        "/compare": ["compare"],
      }[pathname]?.filter(Boolean) || [];
      showPlace(pathname, trail);
      return trail.map((name) => `/  ${name}`).join("  ");
    },

    badge(tick) {
      const badge = document.getElementById("alerts-badge");
      if (!tick || !badge) return;
      numFiring = tick.firing || 0;
      write(badge, numFiring ? String(numFiring) : "");
      badge.dataset.severity = tick.severity || "none";
      badge.title = numFiring
        ? `${numFiring} firing${tick.severity ? "" : ", all looked after"}`
        : "nothing fires";
      showTitle();
    },

    openRow(cell) {
      if (cell && cell.rowId && cell.colId !== "ag-Grid-SelectionColumn") go(`/run?id=${encodeURIComponent(cell.rowId)}`);
    },

    searchRuns(text) {
      if (location.pathname !== "/") return;
      const words = text || "";
      if ((getQuery("q") || "") !== words) setQuery("q", words, true);
      window.dash_ag_grid?.getApiAsync("runs-grid").then((api) => {
        window.longpoleGrid.fit(api);
        api.setGridOption("quickFilterText", words);
      });
    },

    openStep(clicked, search) {
      /* Bars say more than their step; cells of a picture say their step alone. */
      const steps = clicked?.points?.map(({ customdata }) => (Array.isArray(customdata) ? customdata[0] : customdata));
      const step = steps?.find(Number.isInteger);
      const run = new URLSearchParams(search).get("id");
      if (step !== undefined && run !== null && location.pathname === "/run") go(stepHref(run, step));
    },

    openSample(cell) {
      if (cell && cell.rowId && location.pathname === "/step") setQuery("sample", cell.rowId, false);
    },

    openSampleBar(clicked) {
      const point = clicked?.points?.find((one) => one.customdata?.[3] === "sample");
      if (point && location.pathname === "/step") setQuery("sample", asWritten(point.customdata[0]), false);
    },

    sampleOpened(search) {
      if (location.pathname !== "/step") return NO_UPDATE();
      return new URLSearchParams(search).get("sample") !== null;
    },

    closeSample(opened) {
      if (opened === false && location.pathname === "/step" && getQuery("sample") !== null) {
        setQuery("sample", null, true);
      }
    },
  };
})();
