/* What the browser does by itself with GPUs on the cluster page. */
(function () {
  "use strict";

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.longpoleHardware = {
    /* A row's id is `node/uuid`; the one that is chosen already is let go. */
    chooseGpuRow(cell) {
      if (!cell?.rowId || location.pathname !== "/cluster" || cell.colId === "runs") return;
      const at = cell.rowId.lastIndexOf("/");
      const gpu = cell.rowId.slice(at + 1);
      const query = new URLSearchParams(location.search);
      if (query.get("gpu") === gpu) query.delete("gpu");
      else {
        query.set("node", cell.rowId.slice(0, at));
        query.set("gpu", gpu);
      }
      window.longpole.go(`${location.pathname}?${query}`, true);
    },
  };
})();
