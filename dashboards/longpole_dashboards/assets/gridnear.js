/* Tables are built when they come near, as charts are drawn (`near.js`): building one costs as much
   as a chart, and most begin below the window. Until then their place is there, empty. */
(function () {
  "use strict";

  const NEAR = "600px 0px";
  const LOOK_MS = 40;
  const CHART_PATHS = ["/step", "/cluster"];
  const react = window.React;
  const library = window.dash_ag_grid;
  if (!library?.AgGrid || !react) return;
  const Grid = library.AgGrid;

  function isInSight(place) {
    const { top, bottom } = place.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  }

  /* Before the first chart has a place, everything stands too high. */
  const isLaidOut = () =>
    !CHART_PATHS.includes(location.pathname) || document.querySelector(".js-plotly-plot");

  function watch(place, build) {
    if (window.longpoleNear.drawsAll()) {
      build();
      return undefined;
    }
    if (isLaidOut()) return observe(place, build);
    let end = () => window.clearInterval(timer);
    const timer = window.setInterval(() => {
      if (!isLaidOut()) return;
      window.clearInterval(timer);
      end = observe(place, build) || end;
    }, LOOK_MS);
    return () => end();
  }

  function observe(place, build) {
    if (isInSight(place)) {
      build();
      return undefined;
    }
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      if (isInSight(place)) build();
      else window.longpoleNear.afterSight(build);
    }, { rootMargin: NEAR });
    observer.observe(place);
    window.addEventListener("longpole-draw-all", build);
    return () => {
      observer.disconnect();
      window.removeEventListener("longpole-draw-all", build);
    };
  }

  function NearGrid(props) {
    const [isNear, setNear] = react.useState(false);
    const place = react.useRef(null);
    react.useLayoutEffect(() => {
      if (!isNear) return watch(place.current, () => setNear(true));
      return undefined;
    }, [isNear]);
    react.useEffect(() => {
      if (!isNear) return undefined;
      let isLeft = false;
      library.getApiAsync(props.id)
        .then((api) => isLeft || window.longpoleGrid.keepSort(props.id, api))
        /* It gives up after two minutes: the page was left before there was a table. */
        .catch(() => {});
      return () => { isLeft = true; };
    }, [isNear, props.id]);
    if (isNear) return react.createElement(Grid, props);
    const { id, className, style } = props;
    return react.createElement("div", { id, className, style, ref: place });
  }

  const near = { value: Object.assign(NearGrid, Grid), enumerable: true };
  /* What the library exports cannot be replaced in it. */
  window.dash_ag_grid = Object.create(library, { AgGrid: near });
})();
