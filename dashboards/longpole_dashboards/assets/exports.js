/* Saving what a panel shows, and copying the address of a view. */
(function () {
  "use strict";

  const COPIED_MS = 1800;

  function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const fileName = (name, ending) => `${name.trim().toLowerCase().replace(/[^a-z0-9]+/g, "-")}.${ending}`;

  /* Spreadsheets run what begins like a formula; a number with its unit is none. */
  const SIGNED_NUMBER = /^[+-][0-9][0-9.,]*( ?[A-Za-z%/]{1,16})?$/;
  const disarm = (text) => (/^\s*[=@+\-\t\r]/.test(text) && !SIGNED_NUMBER.test(text) ? `'${text}` : text);

  function quote(text) {
    const harmless = disarm(text);
    return /[",\n]/.test(harmless) ? `"${harmless.replace(/"/g, '""')}"` : harmless;
  }

  function saveTable(id, name, head) {
    const place = document.getElementById(id);
    if (!place) return;
    if (place.querySelector(".ag-root")) {
      window.dash_ag_grid.getApiAsync(id).then((api) =>
        api.exportDataAsCsv({
          fileName: fileName(name, "csv"),
          processCellCallback: ({ value }) =>
            value === null || value === undefined || typeof value === "object"
              ? ""
              : typeof value === "number"
                ? String(value)
                : disarm(String(value)),
        })
      );
      return;
    }
    const line = (texts) => texts.map((text) => quote(text.trim().replace(/\s+/g, " "))).join(",");
    const rows = head
      ? [JSON.parse(head), ...[...place.querySelectorAll("[data-cells]")].map(({ dataset }) => JSON.parse(dataset.cells))].map(line)
      : [...place.querySelectorAll("table tr, .lp-facts > div")].map((row) =>
          line([...(row.cells || row.children)].map((cell) => cell.dataset.value ?? cell.innerText))
        );
    /* The mark tells spreadsheets that it is UTF-8. */
    save(fileName(name, "csv"), `\ufeff${rows.join("\n")}\n`, "text/csv");
  }

  /* The paper of a chart is transparent on the page; a saved one stands by itself. */
  function saveChart(id, name, format) {
    window.longpoleNear.drawNow(id);
    const plot = document.querySelector(`#${id} .js-plotly-plot`);
    if (!plot || !window.Plotly) return;
    const ground = getComputedStyle(document.documentElement).getPropertyValue("--lp-surface").trim();
    const layout = { ...plot.layout, paper_bgcolor: ground };
    const { width, height } = plot._fullLayout;
    /* Twice as many dots as on the page: pictures are pasted into slides. */
    const scale = format === "png" ? 2 : 1;
    window.Plotly.downloadImage(
      { data: plot.data, layout },
      { format, width, height, scale, filename: fileName(name, "").slice(0, -1) }
    );
  }

  /* Plotly's own button would save a chart without ground, called `newplot`. */
  function savePicture(event) {
    const button = event.target.closest?.(".modebar-btn[data-title^='Download plot']");
    const graph = button?.closest(".dash-graph");
    if (!graph) return;
    event.stopPropagation();
    const title = button.closest(".lp-panel")?.querySelector(".lp-panel-title")?.innerText;
    saveChart(graph.id, title || graph.id, "png");
  }

  document.addEventListener("click", savePicture, true);

  /* Browsers hand out the clipboard on localhost and over https only. */
  function copy(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone ? Promise.resolve() : Promise.reject(new Error("not copied"));
  }

  function copyAddress(button) {
    copy(location.href).then(
      () => (button.dataset.copied = "copied"),
      () => (button.dataset.copied = "not copied: take it from the address bar")
    );
    window.setTimeout(() => delete button.dataset.copied, COPIED_MS);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-csv], [data-png], [data-svg], #copy-link");
    if (!button) return;
    if (button.id === "copy-link") copyAddress(button);
    else if (button.dataset.csv) saveTable(button.dataset.csv, button.dataset.name, button.dataset.head);
    else if (button.dataset.png) saveChart(button.dataset.png, button.dataset.name, "png");
    else saveChart(button.dataset.svg, button.dataset.name, "svg");
  });
})();
