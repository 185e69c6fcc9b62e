/* How table cells look. Cells that show ages carry `data-since-ms`; longpole.js writes them. */
(function () {
  "use strict";

  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const h = (...parts) => window.React.createElement(...parts);
  const ABSENT = "–";

  functions.longpoleGridTheme = (agGrid) =>
    agGrid.themeQuartz
      .withPart(agGrid.colorSchemeVariable)
      .withParams({
        fontFamily: "inherit",
        fontSize: 12.5,
        spacing: 5,
        backgroundColor: "var(--lp-surface)",
        foregroundColor: "var(--lp-text)",
        borderColor: "var(--lp-line)",
        rowBorder: { color: "var(--lp-grid)" },
        columnBorder: false,
        wrapperBorder: false,
        headerBackgroundColor: "var(--lp-surface)",
        headerTextColor: "var(--lp-faint)",
        headerFontWeight: 500,
        headerFontSize: 11,
        rowHoverColor: "var(--lp-raised)",
        selectedRowBackgroundColor: "var(--lp-raised)",
        accentColor: "var(--lp-accent)",
        oddRowBackgroundColor: "transparent",
      });

  function follow(event, href) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    window.longpole.go(href);
  }

  cells.LongpoleRun = ({ data }) =>
    h(
      "a",
      { className: "lp-cell-run", href: data.href, onClick: (event) => follow(event, data.href) },
      h("b", { title: data.name }, data.name),
      h("span", null, data.about),
      /* Its own column lies beyond the edge of a phone. */
      h("span", { className: "lp-cell-waits" },
        h("i", { className: `lp-state lp-state-${data.state}` }, data.state), data.waits && `, ${data.waits}`)
    );

  /* On a phone a run's cell says its state: columns that would lie beyond the edge go. */
  const phone = window.matchMedia("(max-width: 760px)");
  /* A table's order stands in the address, under the name of its table. */
  const SORTS = { "runs-grid": "sort", "step-samples": "sort", "cluster-nodes": "nodes-sort", "cluster-gpus": "gpus-sort" };

  const writtenSort = (api) =>
    api.getColumnState().filter(({ sort }) => sort)
      .sort((a, b) => a.sortIndex - b.sortIndex)
      .map(({ colId, sort }) => `${colId}:${sort}`).join(",");

  function readSort(api, text) {
    return text.split(",").map((part) => part.split(":")).flatMap(([colId, sort], sortIndex) =>
      ["asc", "desc"].includes(sort) && api.getColumn(colId)?.getColDef().sortable !== false && api.getColumn(colId)
        ? [{ colId, sort, sortIndex }] : []);
  }

  function keepSort(id, api) {
    const name = SORTS[id];
    if (!name) return;
    const { pathname } = location;
    const follow = () => {
      if (api.isDestroyed()) {
        for (const event of ["popstate", "_dashprivate_pushstate"]) window.removeEventListener(event, follow);
        return;
      }
      const text = new URLSearchParams(location.search).get(name) || "";
      if (location.pathname !== pathname || text === writtenSort(api)) return;
      api.applyColumnState({ state: readSort(api, text), defaultState: { sort: null } });
    };
    follow();
    for (const event of ["popstate", "_dashprivate_pushstate"]) window.addEventListener(event, follow);
    api.addEventListener("sortChanged", () => {
      if (location.pathname === pathname) window.longpole.setQueries({ [name]: writtenSort(api) || null });
    });
  }

  /* The list of runs as it is now: each visit makes a new one. */
  let newest = null;

  function fold() {
    if (newest?.isDestroyed()) newest = null;
    newest?.setColumnsVisible(["state"], !phone.matches);
  }

  phone.addEventListener("change", fold);
  window.longpoleGrid = {
    keepSort,
    fit(api) {
      if (api === newest) return;
      newest = api;
      fold();
    },
  };

  cells.LongpoleState = ({ value }) => h("span", { className: `lp-state lp-state-${value}` }, value);

  cells.LongpoleOpenStep = ({ data }) => {
    const step = data.step === null ? ABSENT : String(data.step);
    if (!data.open) return h("span", null, step);
    const age = (window.longpole.serverNowMs() - data.open_since_ms) / 1000;
    const late = data.open_longest_s && age > data.open_longest_s + data.open_grace_s;
    return h(
      "div",
      { className: "lp-cell-two" },
      h("b", null, step),
      h(
        "span",
        { className: late ? "lp-late" : "" },
        `${data.open}, `,
        h("span", { "data-since-ms": data.open_since_ms })
      )
    );
  };

  cells.LongpoleAge = ({ value }) =>
    value === null || value === undefined
      ? h("span", { className: "lp-dim" }, ABSENT)
      : h("span", { "data-since-ms": value });

  cells.LongpoleMoment = ({ value }) => {
    const moment = new Date(value);
    const day = moment.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const time = moment.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    return h("span", { className: "lp-dim" }, `${day}, ${time}`);
  };

  cells.LongpoleText = ({ data, colDef }) => {
    const text = data[`${colDef.field}_text`];
    return h("span", { className: text === ABSENT ? "lp-dim" : "" }, text);
  };

  cells.LongpoleSpark = ({ data, colDef }) =>
    h(
      "div",
      { className: "lp-cell-spark" },
      data.spark ? h("img", { src: data.spark, alt: "" }) : null,
      h("b", null, data[`${colDef.field}_text`])
    );

  cells.LongpoleVerdict = ({ data }) => {
    if (!data.verdict) return h("span", { className: "lp-dim" }, "not judged");
    return h(
      "span",
      { className: "lp-verdict-badge", title: data.verdict_title, style: { "--family": data.verdict_colour } },
      data.verdict_text,
      h("em", { title: `${data.confidence} confidence`, role: "img", "aria-label": `${data.confidence} confidence` },
        { high: "●●●", medium: "●●○", low: "●○○" }[data.confidence] || "")
    );
  };

  cells.LongpoleSample = ({ value }) => {
    const run = new URLSearchParams(window.location.search).get("run") || "";
    const href = `/trajectory?run=${encodeURIComponent(run)}&id=${encodeURIComponent(value)}`;
    return h(
      "a",
      { className: "lp-link lp-mono", href, title: "Open this sample's page",
        onClick: (event) => { event.stopPropagation(); follow(event, href); } },
      value
    );
  };

  cells.LongpoleAlerts = ({ value, data }) =>
    value
      ? h("a", { className: "lp-badge", "data-severity": "some", href: data.alerts_href,
          title: `${value} firing`,
          onClick: (event) => { event.stopPropagation(); follow(event, data.alerts_href); } }, value)
      : h("span", { className: "lp-dim" }, value === 0 ? "0" : ABSENT);

  cells.LongpoleSeen = ({ data }) =>
    h("span", { className: data.silent ? "lp-silent" : "" },
      h("span", { "data-since-ms": data.seen_ms }), " ago");

  cells.LongpoleTrouble = ({ value }) =>
    value ? h("span", { className: "lp-trouble" }, value) : h("span", { className: "lp-dim" }, "no");

  const SIGNS = { silent: "✕", throttled: "▲", idle: "○" };
  cells.LongpoleCondition = ({ value, data }) =>
    h("span", { className: `lp-condition lp-condition-${value}` },
      h("i", null, SIGNS[value] || ""), data.condition_text);

  cells.LongpoleRuns = ({ value }) => {
    if (!value || !value.length) return h("span", { className: "lp-dim" }, "nobody");
    return h("span", { className: "lp-cell-runs" },
      value.flatMap((run, index) => [
        index ? ", " : null,
        h("a", { key: run.href, className: "lp-link", href: run.href,
          onClick: (event) => { event.stopPropagation(); follow(event, run.href); } },
          run.estimated ? h("em", { title: "estimated: nothing joined it to its run" }, "≈ ") : null, run.name),
      ])
    );
  };

  cells.LongpoleParts = ({ value }) =>
    h(
      "div",
      { className: "lp-cell-parts" },
      (value || []).map((part) =>
        h("i", { key: part.kind, title: part.kind, style: { width: `${part.share * 100}%`, background: part.colour } })
      )
    );
})();
