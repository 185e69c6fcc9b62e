/* What the browser does by itself on the pages of samples, comparisons, the cluster and alerts. */
(function () {
  "use strict";

  const NO_UPDATE = () => window.dash_clientside.no_update;
  const go = (href, replace) => window.longpole.go(href, replace);

  function withQuery(changes) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    return text ? `${location.pathname}?${text}` : location.pathname;
  }

  /* -- alerts ------------------------------------------------------------------------------ */

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    const { act, alert, rule, run, entity, words, silence } = button.dataset;
    const data = { act, alert, rule, run, entity, words, silence, at: Date.now() };
    window.dash_clientside.set_props("alerts-ask", { data });
  });

  /* What a silence may be for: a rule by itself has no run, a server no entity of its own. */
  function showScopes(ask) {
    const shown = {
      here: Boolean(ask.alert),
      run: Boolean(ask.run) && Boolean(ask.entity) && ask.entity !== ask.run,
      rule: true,
      entity: Boolean(ask.alert) && Boolean(ask.run || ask.entity),
    };
    for (const [name, isShown] of Object.entries(shown)) {
      const radio = document.getElementById(`alerts-scope-${name}`)?.closest(".mantine-Radio-root");
      if (radio) radio.style.display = isShown ? "" : "none";
    }
  }

  window.longpolePages = {
    /* Something was done here: look again, without waiting for news. */
    nudge(groups, done) {
      if (!done) return;
      for (const group of groups) {
        const data = { version: `done-${Date.now()}`, sent_ms: Date.now() };
        window.dash_clientside.set_props(`${group}-pulse`, { data });
      }
    },
  };

  /* An address that names a part of its page leads there, once that part is drawn. */
  function followAnchor() {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    const { hash } = location;
    let tries = 240, steady = 0, before = null;
    const callOff = () => { tries = 1; };
    for (const act of ["wheel", "touchstart", "keydown", "pointerdown"]) {
      window.addEventListener(act, callOff, { once: true, passive: true });
    }
    /* What is drawn above it later moves it away: it is followed until it stands, or somebody acts. */
    const timer = window.setInterval(() => {
      const place = document.getElementById(name);
      const isDrawn = place && (place.querySelector(".main-svg") || place.childElementCount);
      if (isDrawn && tries > 1 && location.hash === hash) {
        const panel = place.closest(".lp-panel") || place;
        const { top } = panel.getBoundingClientRect();
        steady = before !== null && Math.abs(top - before) < 2 ? steady + 1 : 0;
        if (!steady) panel.scrollIntoView({ block: "center" });
        before = panel.getBoundingClientRect().top;
      }
      if (--tries <= 0 || steady >= 12 || location.hash !== hash) window.clearInterval(timer);
    }, 250);
  }
  window.addEventListener("load", followAnchor);
  window.addEventListener("_dashprivate_pushstate", followAnchor);

  /* -- callbacks --------------------------------------------------------------------------- */

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.longpolePages = {
    openSibling(clicked) {
      const sample = window.longpole.asWritten(clicked?.points?.[0]?.customdata?.[2]);
      const run = new URLSearchParams(location.search).get("run");
      if (sample && run && location.pathname === "/trajectory") {
        go(`/trajectory?run=${encodeURIComponent(run)}&id=${encodeURIComponent(sample)}`);
      }
    },

    chooseNode(clicked) {
      const node = window.longpole.asWritten(clicked?.points?.[0]?.customdata);
      if (typeof node === "string" && node && location.pathname === "/cluster") {
        go(withQuery({ node }), true);
      }
    },

    chooseNodeRow(cell) {
      if (!cell?.rowId || location.pathname !== "/cluster" || cell.colId === "runs") return;
      const chosen = new URLSearchParams(location.search).get("node");
      go(withQuery({ node: chosen === cell.rowId ? null : cell.rowId }), true);
    },

    /* The dialog opens for a button of an alert, and closes when it was done or called off. */
    openDialog(ask, _cancelled, _done) {
      const triggered = window.dash_clientside.callback_context.triggered_id;
      const keep = Array(7).fill(NO_UPDATE());
      if (triggered === "alerts-cancel" || triggered === "alerts-done") return [false, ...keep];
      if (!ask || triggered !== "alerts-ask" || ["lift", "delete", "edit"].includes(ask.act)) return [NO_UPDATE(), ...keep];
      const silences = ask.act === "silence";
      window.requestAnimationFrame(() => window.requestAnimationFrame(() => showScopes(ask)));
      return [
        true,
        silences ? "Silence" : "Acknowledge",
        ask.words || "",
        { display: silences ? "block" : "none" },
        silences ? "Silence" : "Acknowledge",
        ask.alert ? "here" : "rule",
        "",
        "",
      ];
    },

    sayUntil(duration) {
      const end = new Date(window.longpole.serverNowMs() + Number(duration) * 1000);
      const day = end.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" });
      const time = end.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
      return `until ${day}, ${time}`;
    },

    /* Two runs were marked in the list: they can be compared, the older one as the one before. */
    compareRuns(rows) {
      const button = document.getElementById("runs-compare");
      if (!button) return NO_UPDATE();
      const ready = (rows || []).length === 2;
      button.dataset.shown = (rows || []).length ? "yes" : "no";
      button.setAttribute("aria-disabled", String(!ready));
      if (!ready) delete button.dataset.href;
      button.textContent = ready ? "Compare the two" : "Choose two to compare";
      if (ready) {
        const [before, after] = [...rows].sort((a, b) => a.started_ms - b.started_ms);
        button.dataset.href =
          `/compare?a=${encodeURIComponent(after.id)}&b=${encodeURIComponent(before.id)}`;
      }
      return NO_UPDATE();
    },

    compareGo(clicks) {
      const button = document.getElementById("runs-compare");
      if (clicks && button?.dataset.href) go(button.dataset.href);
    },

    sampleLink(search) {
      const query = new URLSearchParams(search);
      const [run, sample] = [query.get("run"), query.get("sample")];
      if (location.pathname !== "/step" || !run || !sample) return NO_UPDATE();
      return `/trajectory?run=${encodeURIComponent(run)}&id=${encodeURIComponent(sample)}`;
    },
  };
})();
