// The page itself: log-in, navigation, theme, and the one place that tells the open page what changed.

import { Api } from "./api.js";
import { Colours } from "./colours.js";
import { h, show } from "./dom.js";
import { clock, duration } from "./format.js";
import { Live } from "./live.js";
import { NOWHERE, PAGES } from "./pages.js";
import { login } from "./pages/login.js";
import { Store } from "./store.js";

const LOST = "lost"; // the name of the page for addresses that lead nowhere
const PAUSE = 400; // milliseconds between two updates of tables; the grid does not wait. Tuned by hand
const OLD = 30; // seconds after which the data is called old
const SILENT = 150; // seconds without news from the cluster after which it is called away. On a quiet cluster a minute is normal
const GRACE = 2000; // milliseconds in which the page connects again without a word. Tuned by hand
const AGAIN = 3000; // milliseconds between two tries to load everything
const THEMES = ["auto", "light", "dark"];
const THEME = "maar.theme";

const main = document.getElementById("main");
const store = new Store();
const api = new Api();
let page;
let name;
let connected = false;
let ended; // when the connection ended, in milliseconds of this page

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
  if (on) {
    ended = undefined;
    store.connected();
  } else {
    ended ??= performance.now();
    store.disconnected();
    setTimeout(footer, GRACE + 50);
  }
  page?.lost?.();
  footer();
});

store.listen((change) => {
  if (change.queues) app.colours.queues.keep(store.queueNames());
  page?.update(change);
  footer();
});

/** Say that the data is no longer current, and grey it out; nothing while it is. */
function notice() {
  const age = store.now() - store.asOf;
  const cut = store.cluster && ended !== undefined && performance.now() - ended >= GRACE;
  const words = cut
    ? `No connection to Maar since ${clock(store.lost, store.now())}; data is from ${clock(store.asOf, store.now())}. Connecting again.`
    : store.cluster && age > SILENT
      ? `Maar has heard nothing from the cluster since ${clock(store.asOf, store.now())}; data is from then.`
      : "";
  const place = document.getElementById("notice");
  if (place.textContent !== words) show(place, words);
  place.hidden = !words;
  main.classList.toggle("stale", Boolean(words));
}

function footer() {
  notice();
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
  const found = { first: first ?? "cluster", words: rest, query: new URLSearchParams(query) };
  try {
    found.words = rest.map(decodeURIComponent);
  } catch {
    return { ...found, first: LOST };
  }
  const known = Object.hasOwn(PAGES, found.first) ? PAGES[found.first] : undefined;
  const [least, most] = known?.parts ?? [0, 0];
  const leads = known && rest.length >= least && rest.length <= most && (known.test?.(found.words, found.query) ?? true) && (!known.writes || app.can.write);
  return leads ? found : { ...found, first: LOST };
}

function open(make) {
  page?.close?.();
  page = undefined;
  due.clear();
  show(main);
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
  const found = first === LOST ? NOWHERE : PAGES[first];
  document.title = `${first === "jobs" ? words.join("/") : found.title} · Maar`;
  open(() => found.open(main, app, words, query) ?? { update() {} });
  navigation();
  if (moved) main.focus({ preventScroll: true });
}

function askToken(message) {
  live.stop();
  connected = false;
  ended = undefined;
  store.cluster = undefined;
  notice();
  name = undefined;
  document.title = "Log in · Maar";
  open(() => login(main, app, message));
  show(document.getElementById("nav"));
  show(document.getElementById("tools"));
  show(document.getElementById("foot"));
}

async function start() {
  performance.mark("maar:load");
  const who = await api.get("whoami");
  app.can.write = Boolean(who.writes);
  app.user = who.user;
  await live.begin();
  app.colours.queues.keep(store.queueNames());
  route();
  performance.mark("maar:shown");
  footer();
}

/** Log in. A token that is refused is not kept; that of a server that does not answer is. */
async function enter(token) {
  api.onRefused = () => {};
  api.use(token);
  try {
    await start();
  } catch (error) {
    if (error.status === 401) api.use("");
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
setInterval(footer, 1000);

setTheme(sessionStorage.getItem(THEME) ?? "auto");
app.colours = new Colours();

/** Load everything; while `maar web` does not answer, try again. */
async function load() {
  const had = api.token;
  try {
    await enter(had);
  } catch (error) {
    if (error.status === 401) askToken(had ? "Your token is no longer accepted. Log in again." : "");
    else {
      live.stop();
      show(main, h("p", { class: "error", role: "alert" }, error.message), h("p", { class: "dim" }, "The page tries again by itself."));
      setTimeout(load, AGAIN);
    }
  }
}
load();
