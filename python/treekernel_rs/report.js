"use strict";
const { trees, fragments } = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const list = $("list"), view = $("view"), rows = [...document.querySelectorAll("tr[data-fragment]")];
let fragment = null, cell = null, current = 0, picture = 0, zoom = 1;

function make(tag, text, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.textContent = text;
  return made;
}

// Trees: the list, by all filters together.
const items = trees.map((tree, at) => {
  const item = make("li", tree.name, { id: `tree-${at}`, className: tree.right ? "right" : "wrong" });
  const said = tree.right ? tree.truth : `${tree.said} instead of ${tree.truth}`;
  const margin = tree.margin === null ? "" : `, margin ${tree.margin}`;
  item.append(make("small", `${said}, ${tree.size.toLocaleString()} nodes${margin}`));
  item.setAttribute("role", "option");
  item.addEventListener("click", () => choose(at));
  list.append(item);
  return item;
});

let order = [...trees.keys()];
function sort() {
  const by = { margin: (at) => trees[at].margin, size: (at) => -trees[at].size }[$("order").value];
  order = [...trees.keys()];
  if (by) order.sort((one, other) => by(one) - by(other));
  list.append(...order.map((at) => items[at]));
  refresh();
}

function refresh() {
  const asked = $("find").value.toLowerCase();
  const mistakes = $("mistakes").getAttribute("aria-pressed") === "true";
  trees.forEach((tree, at) => {
    items[at].hidden = (mistakes && tree.right)
      || (cell !== null && (tree.truth_code !== cell[0] || tree.said_code !== cell[1]))
      || (fragment !== null && !(at in fragments[fragment]))
      || !(tree.name + " " + tree.text).toLowerCase().includes(asked);
  });
  const left = order.filter((at) => !items[at].hidden);
  $("filter").textContent = `${left.length} of ${trees.length} trees`
    + (cell ? ", one cell of the table" : "") + (fragment !== null ? ", with the fragment" : "");
  for (const row of rows) row.setAttribute("aria-selected", Number(row.dataset.fragment) === fragment);
  for (const button of document.querySelectorAll("button[data-cell]"))
    button.setAttribute("aria-pressed", cell !== null && button.dataset.cell === cell.join());
  if (left.length) choose(left.includes(current) ? current : left[0]);
  else { view.replaceChildren(make("p", "No tree matches these filters.")); $("near").replaceChildren(); $("classes").replaceChildren(); }
}

function choose(at) {
  if (at !== current) picture = 0;
  current = at;
  items.forEach((item, other) => item.setAttribute("aria-selected", other === at));
  list.setAttribute("aria-activedescendant", items[at].id);
  const top = items[at].offsetTop - list.offsetTop;
  if (top < list.scrollTop || top + items[at].offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top;
  show();
}

// One tree: its picture, what is marked in it, its neighbours.
function show() {
  const tree = trees[current];
  picture = Math.min(picture, tree.pictures.length - 1);
  view.innerHTML = tree.pictures[picture][1];
  $("classes").replaceChildren(...tree.pictures.map(([label], at) => {
    const button = make("button", label, { onclick: () => { picture = at; show(); } });
    button.setAttribute("aria-pressed", at === picture);
    return button;
  }));
  if (fragment !== null && current in fragments[fragment]) {
    const hit = new Set(fragments[fragment][current].map(String));
    for (const node of view.querySelectorAll("[data-node]")) {
      node.classList.add(hit.has(node.dataset.node) ? "hit" : "faint");
    }
  }
  // A large tree is shown in part, so that it can be read: what is marked in it, or its root.
  if (fit() < 0.3) {
    scale(0.6);
    const node = view.querySelector(".hit") ?? view.querySelector("[data-node]");
    const box = view.getBoundingClientRect(), place = node.getBoundingClientRect();
    view.scrollBy(place.x - box.x - box.width / 2, place.y - box.y - 40);
  }
  const near = $("near");
  near.replaceChildren();
  if (tree.near.length) {
    near.append(make("h3", "Nearest trees"));
    const table = make("table", "", { className: "wide" });
    for (const [label, value, text] of tree.near) {
      const row = make("tr", "");
      row.append(make("td", value), make("td", label, { className: "text" }), make("td", "", { className: "text" }));
      row.lastChild.append(make("code", text));
      table.append(row);
    }
    const box = make("div", "", { className: "box" });
    box.append(table);
    near.append(box);
  }
}

function scale(wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  const svg = view.querySelector("svg");
  if (!svg) return;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const before = zoom;
  zoom = Math.min(Math.max(wanted, 0.002), 4);
  const [left, top] = [(view.scrollLeft + x) / before, (view.scrollTop + y) / before];
  svg.setAttribute("width", width * zoom);
  svg.setAttribute("height", height * zoom);
  view.scrollTo(left * zoom - x, top * zoom - y);
  $("zoom").textContent = `${(100 * zoom).toPrecision(2) * 1} %`;
}

function fit() {
  const svg = view.querySelector("svg");
  if (!svg) return 1;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  scale(Math.min(1, view.clientWidth / width, view.clientHeight / height));
  return zoom;
}

const actions = { in: () => scale(zoom * 1.4), out: () => scale(zoom / 1.4), fit, full: () => scale(1) };
for (const [id, act] of Object.entries(actions)) $(id).addEventListener("click", act);
view.addEventListener("keydown", (event) => {
  const act = { "+": actions.in, "=": actions.in, "-": actions.out, 0: fit, 1: actions.full }[event.key];
  if (act && !event.ctrlKey && !event.metaKey) { act(); event.preventDefault(); }
});
view.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  const box = view.getBoundingClientRect();
  scale(zoom * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  event.preventDefault();
}, { passive: false });
view.addEventListener("pointerdown", (event) => {
  if (event.pointerType !== "mouse" || event.button) return;
  const move = (to) => view.scrollBy(-to.movementX, -to.movementY);
  view.addEventListener("pointermove", move);
  window.addEventListener("pointerup", () => view.removeEventListener("pointermove", move), { once: true });
});
list.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  let at = order.indexOf(current) + step;
  while (items[order[at]]?.hidden) at += step;
  if (at in order) choose(order[at]);
});

// Filters: words, mistakes, a cell of the table of classes, a fragment.
$("find").addEventListener("input", refresh);
$("order").addEventListener("input", sort);
if (trees.some((tree) => tree.margin === null)) $("order").querySelector("[value=margin]").remove();
$("mistakes").addEventListener("click", (event) => {
  event.target.setAttribute("aria-pressed", event.target.getAttribute("aria-pressed") !== "true");
  refresh();
});
$("all").addEventListener("click", () => {
  fragment = cell = null;
  $("find").value = "";
  $("mistakes").setAttribute("aria-pressed", false);
  refresh();
});
for (const button of document.querySelectorAll("button[data-cell]")) {
  button.addEventListener("click", () => {
    cell = button.dataset.cell.split(",").map(Number);
    fragment = null;
    refresh();
    $("single").scrollIntoView();
  });
}
for (const row of rows) {
  row.querySelector("button").addEventListener("click", () => {
    fragment = Number(row.dataset.fragment);
    cell = null;
    refresh();
    $("single").scrollIntoView();
  });
}
function narrow() {
  const asked = $("search").value.toLowerCase(), side = $("side").value, whose = $("class").value;
  for (const row of rows) {
    row.hidden = !row.textContent.toLowerCase().includes(asked)
      || (side && row.dataset.side !== side) || (whose && row.dataset.class !== whose);
  }
  $("found").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} fragments`;
}
if (rows.length) {
  for (const id of ["search", "side", "class"]) $(id).addEventListener("input", narrow);
  narrow();
}
refresh();
