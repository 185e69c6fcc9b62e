/* Elements in one piece, as `components/plain.py` writes them: [element, attributes, content ...]. */
(function () {
  "use strict";

  const { createElement, Fragment, useRef } = window.React;

  function follow(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button) return;
    event.preventDefault();
    window.longpole.go(event.currentTarget.getAttribute("href"));
  }

  function build(node) {
    if (!Array.isArray(node)) return node;
    const [kind, attributes] = node;
    const content = [];
    for (let at = 2; at < node.length; at += 1) content.push(build(node[at]));
    if (!kind) return createElement(Fragment, null, ...content);
    if (kind === "link") return createElement("a", { ...attributes, onClick: follow }, ...content);
    return createElement(kind, attributes, ...content);
  }

  /* Other content is other elements: what was focused or opened must not become something else under
     somebody's hands. `steady.js` finds what takes its place. */
  function Plain({ content }) {
    const shown = useRef({ content, version: 0 });
    if (shown.current.content !== content) {
      shown.current = { content, version: shown.current.version + 1 };
    }
    return createElement(Fragment, { key: shown.current.version }, build(content));
  }

  window.longpole_components = { Plain };
})();
