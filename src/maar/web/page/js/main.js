// The page itself: log-in, navigation, theme, and the one place that tells the open page what changed.

import { Api } from "./api.js";
import { Colours } from "./colours.js";
import { h, show } from "./dom.js";
import { clock, duration } from "./format.js";
import { Live } from "./live.js";
import { cluster } from "./pages/cluster.js";
import { decisions } from "./pages/decisions.js";
import { job } from "./pages/job.js";
import { login } from "./pages/login.js";
import { queues } from "./pages/queues.js";
import { submit } from "./pages/submit.js";
import { waiting } from "./pages/waiting.js";
import { whatIf } from "./pages/whatif.js";
import { Store } from "./store.js";

const PAGES = {
  cluster: { title: "Cluster", open: cluster },
  queues: { title: "Queues", open: queues },
  waiting: { title: "Waiting", open: waiting },
  jobs: { title: "Job", open: job, hidden: true },
  decisions: { title: "Decisions", open: decisions },
  "what-if": { title: "What if", open: whatIf },
  submit: { title: "Submit", open: submit, writes: true },
};
const PAUSE = 400; // milliseconds between two updates of tables; the grid does not wait. Tuned by hand
const OLD = 30; // seconds after which the data is called old
const THEMES = ["auto", "light", "dark"];
const THEME = "maar.theme";

const main = document.getElementById("main");
const store = new Store();
const api = new Api();
let page;
let name;
let connected = false;

const app = {
  api,
  store,
  colours: undefined,
  kept: {}, // choices of the viewer, for as long as the tab is open
  can: { write: false },
  go(hash, quietly = false) {
    if (!quietly) location.hash = hash;
    else if (location.hash !== hash) {
      history.pushState(null, "", hash);
      route();
    }
  },
  later,
  enter,
};

const due = new Map();
/** Run `update` soon, but not more often than tables can be read; the last one wins. */
function later(key, update) {
  const known = due.get(key);
  if (known?.timer) {
    known.update = update;
    return;
  }
  const of = page;
  const one = { update, last: known?.last ?? -Infinity };
  const wait = Math.max(0, one.last + PAUSE - performance.now());
  one.timer = setTimeout(() => {
    one.timer = undefined;
    one.last = performance.now();
    if (page === of) one.update();
  }, wait);
  due.set(key, one);
}

const live = new Live(api, store, (on) => {
  connected = on;
  footer();
});

store.listen((change) => {
  page?.update(change);
  footer();
});

function footer() {
  const age = store.now() - store.asOf;
  const old = !connected || age > OLD;
  show(
    document.getElementById("foot"),
    h("span", { class: `live${connected ? "" : " off"}`, id: "live" }, connected ? "live" : "not connected"),
    store.asOf > 0 && `, as of ${clock(store.asOf, store.now())}`,
    store.asOf > 0 && old && age >= 1 && `, ${duration(age)} old`,
  );
}

function navigation() {
  const entries = Object.entries(PAGES).filter(([, one]) => !one.hidden && (!one.writes || app.can.write));
  const current = name === "jobs" ? "waiting" : name;
  show(document.getElementById("nav"), entries.map(([key, one]) => h("a", { href: `#/${key}`, "data-key": `nav ${key}`, "aria-current": key === current && "page" }, one.title)));
  const theme = sessionStorage.getItem(THEME) ?? "auto";
  show(
    document.getElementById("tools"),
    h("button", { type: "button", "data-key": "theme", onclick: () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]) }, `Theme: ${theme}`),
    api.token && h("button", { type: "button", "data-key": "out", onclick: leave, title: `Logged in as ${app.user}` }, "Log out"),
  );
}

function setTheme(theme) {
  sessionStorage.setItem(THEME, theme);
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  app.colours?.read();
  page?.themed?.();
  navigation();
}

function parts() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/").filter(Boolean);
  let words;
  try {
    words = rest.map(decodeURIComponent);
  } catch {
    words = [];
  }
  return { first: Object.hasOwn(PAGES, first ?? "") ? first : "cluster", words, query: new URLSearchParams(query) };
}

function open(make) {
  page?.close?.();
  page = undefined;
  due.clear();
  main.replaceChildren();
  page = make();
}

function route() {
  if (!store.cluster) return;
  const { first, words, query } = parts();
  if (first === name && page?.params && !query.size) {
    page.params(words);
    return;
  }
  const moved = name !== undefined;
  name = first;
  document.title = `${first === "jobs" ? words.join("/") : PAGES[first].title} · Maar`;
  open(() => PAGES[first].open(main, app, words, query) ?? { update() {} });
  navigation();
  if (moved) main.focus({ preventScroll: true });
}

function askToken(message) {
  live.stop();
  connected = false;
  store.cluster = undefined;
  name = undefined;
  document.title = "Log in · Maar";
  open(() => login(main, app, message));
  document.getElementById("nav").replaceChildren();
  show(document.getElementById("tools"));
  document.getElementById("foot").replaceChildren();
}

async function start() {
  performance.mark("maar:load");
  const who = await api.get("whoami");
  app.can.write = Boolean(who.writes);
  app.user = who.user;
  await live.begin();
  route();
  performance.mark("maar:shown");
  footer();
}

/** Log in. A token that is refused is not kept. */
async function enter(token) {
  api.onRefused = () => {};
  api.use(token);
  try {
    await start();
  } catch (error) {
    api.use("");
    throw error;
  } finally {
    api.onRefused = () => expired();
  }
}

function expired() {
  api.use("");
  askToken("Your token is no longer accepted. Log in again.");
}

function leave() {
  api.use("");
  app.kept = {};
  askToken("");
}

addEventListener("hashchange", route);
addEventListener("popstate", route);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  app.colours.read();
  page?.themed?.();
});
setInterval(footer, 5000);

setTheme(sessionStorage.getItem(THEME) ?? "auto");
app.colours = new Colours();
const had = api.token;
enter(had).catch((error) => {
  if (error.status === 401) askToken(had ? "Your token is no longer accepted. Log in again." : "");
  else {
    show(main, h("p", { class: "error", role: "alert" }, error.message), h("button", { type: "button", onclick: () => location.reload() }, "Try again"));
  }
});
