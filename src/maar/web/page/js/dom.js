// Elements from code. Text is always set as text, so nothing that a tenant writes becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return put(element, children);
}

/** What can be shown of a child: nothing of a condition that does not hold or a value that is missing. */
function shown(child) {
  if (child === undefined || child === null || child === "" || typeof child === "boolean" || Number.isNaN(child)) return undefined;
  return child instanceof Node ? child : String(child);
}

/** Append children. It is the only way in which pages do that: `append` of the browser writes `false` as text. */
export function put(root, ...children) {
  for (const child of children.flat(Infinity).map(shown)) if (child !== undefined) root.append(child);
  return root;
}

/** An HTML element. `on...` attributes are listeners; `css` sets properties, which the content policy allows. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Replace what is in `root`, and keep the focus on the element with the same `data-key` or id. */
export function show(root, ...children) {
  const active = document.activeElement;
  const inside = active && active !== root && root.contains(active);
  const key = inside ? active.dataset.key : undefined;
  const id = inside ? active.id : undefined;
  const fresh = document.createDocumentFragment();
  put(fresh, children);
  root.replaceChildren(fresh);
  if (!key && !id) return;
  const again = key ? root.querySelector(`[data-key="${CSS.escape(key)}"]`) : root.querySelector(`#${CSS.escape(id)}`);
  again?.focus({ preventScroll: true });
}

/** A sentence of Maar: literals in backticks become code. */
export function sentence(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** Tell screen readers. */
export function say(words) {
  document.getElementById("said").textContent = words;
}

/** A table with a caption for screen readers; `rows` are lists of cells. */
export function table(caption, heads, rows, options = {}) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption, "data-key": `table:${caption}` },
    h(
      "table",
      { class: options.class },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.length ? rows : h("tr", {}, h("td", { colspan: heads.length, class: "dim" }, options.empty ?? "None."))),
    ),
  );
}
