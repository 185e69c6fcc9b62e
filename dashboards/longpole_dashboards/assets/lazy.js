/* Dash's components that load when they are needed say so through a function that was translated for
   browsers without generators. They ask for it by this name, in a library of a hundred kilobytes that
   changes the browser's own functions as well (`libraries.py`). */
(function () {
  "use strict";

  function* wrap(step) {
    const place = { prev: 0, next: 0, isOver: false, stop() { place.isOver = true; } };
    while (!place.isOver) {
      const found = step(place);
      if (!place.isOver) place.sent = yield found;
    }
  }

  window.regeneratorRuntime = window.regeneratorRuntime || { mark: (make) => make, wrap };
})();
