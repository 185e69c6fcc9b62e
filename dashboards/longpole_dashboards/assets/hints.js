/* Definitions behind words, `data-hint`: one box for all of them, shown for the pointer and the focus. */
(function () {
  "use strict";

  const DELAY_MS = 150;
  const GAP_PX = 8;
  const EDGE_PX = 6;
  const ID = "lp-hint";
  let shownFor = null;
  let planned = 0;

  function getBox() {
    let box = document.getElementById(ID);
    if (!box) {
      box = document.createElement("div");
      box.id = ID;
      box.className = "lp-hint";
      box.setAttribute("role", "tooltip");
      document.body.append(box);
    }
    return box;
  }

  function place(box, target) {
    const around = target.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    const middle = around.left + around.width / 2;
    const left = Math.max(EDGE_PX, Math.min(middle - width / 2, window.innerWidth - width - EDGE_PX));
    const isAbove = around.top - height - GAP_PX >= EDGE_PX;
    const top = isAbove ? around.top - height - GAP_PX : around.bottom + GAP_PX;
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
    box.style.setProperty("--arrow", `${middle - left}px`);
    box.dataset.side = isAbove ? "above" : "below";
  }

  function show(target) {
    if (!target.isConnected) return;
    hide();
    const box = getBox();
    box.textContent = target.dataset.hint;
    box.dataset.shown = "yes";
    place(box, target);
    target.setAttribute("aria-describedby", ID);
    shownFor = target;
  }

  function hide() {
    window.clearTimeout(planned);
    if (!shownFor) return;
    shownFor.removeAttribute("aria-describedby");
    shownFor = null;
    delete getBox().dataset.shown;
  }

  function plan(event) {
    const target = event.target.closest?.("[data-hint]");
    if (!target) {
      /* The box itself may be pointed at: its words can be read and copied. */
      if (event.type === "pointerover" && !event.target.closest?.(`#${ID}`)) hide();
      return;
    }
    if (target === shownFor) return;
    window.clearTimeout(planned);
    planned = window.setTimeout(() => show(target), event.type === "pointerover" ? DELAY_MS : 0);
  }

  document.addEventListener("pointerover", plan);
  document.addEventListener("focusin", plan);
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
})();
