// The API of `maar web`. The token is kept in this tab only (sessionStorage), never in a cookie, and goes with every
// request in a header; that is why the stream is read through `fetch`, since EventSource sends no header.

const BASE = "api/v1/";
const KEPT = "maar.token";
const AT_ONCE = 10000; // items of one answer
const SILENT = 12_000; // milliseconds without a sign of life, of which `maar web` sends one every 5 seconds
const PAUSE = { first: 500, most: 15000 }; // milliseconds between two tries of the stream, tuned by hand

/** An answer that is not a success. */
export class Refused extends Error {
  constructor(status, message, path = "") {
    super(path ? `${path}: ${message}` : message);
    this.status = status;
  }
}

export class Api {
  constructor() {
    this.token = sessionStorage.getItem(KEPT) ?? "";
    this.onRefused = () => {};
  }

  use(token) {
    this.token = token;
    if (token) sessionStorage.setItem(KEPT, token);
    else sessionStorage.removeItem(KEPT);
  }

  headers(more = {}) {
    return this.token ? { ...more, Authorization: `Bearer ${this.token}` } : more;
  }

  async request(method, path, { body, query, signal } = {}) {
    const url = new URL(BASE + path, document.baseURI);
    for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== "") url.searchParams.set(name, value);
    const options = { method, headers: this.headers({ Accept: "application/json" }), signal, cache: "no-store", credentials: "omit" };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response;
    try {
      response = await fetch(url, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "maar web does not answer");
    }
    if (!response.ok) throw await this.refused(response);
    return response.status === 204 ? null : response.json();
  }

  async refused(response) {
    let found = {};
    try {
      found = await response.json();
    } catch {
      // no JSON: the status must do
    }
    const error = new Refused(response.status, found.error ?? `the answer is ${response.status} ${response.statusText}`, found.field);
    if (response.status === 401) this.onRefused(error);
    return error;
  }

  get(path, query, signal) {
    return this.request("GET", path, { query, signal });
  }

  /** All items of a list, page by page. */
  async all(path) {
    let items = [];
    let next = 0;
    do {
      const answer = await this.get(path, { limit: AT_ONCE, offset: next });
      items = items.length ? items.concat(answer.items) : answer.items;
      next = answer.next ?? 0;
    } while (next);
    return items;
  }

  /** Call `take({event, data})` for each event, for ever: it connects again when the connection ends or is silent. */
  async stream(take, state, signal) {
    let pause = PAUSE.first;
    while (!signal.aborted) {
      const silent = new AbortController();
      let timer;
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENT);
      };
      try {
        alive();
        const headers = this.headers({ Accept: "text/event-stream" });
        const options = { headers, signal: AbortSignal.any([signal, silent.signal]), cache: "no-store", credentials: "omit" };
        const response = await fetch(new URL(`${BASE}stream`, document.baseURI), options);
        if (!response.ok) throw await this.refused(response);
        state(true);
        pause = PAUSE.first;
        for await (const event of events(response.body)) {
          alive();
          if (event.data) take({ event: event.event, data: JSON.parse(event.data) });
        }
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
      } finally {
        clearTimeout(timer);
      }
      if (signal.aborted) return;
      state(false);
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
      pause = Math.min(pause * 2, PAUSE.most);
    }
  }
}

/** Server-sent events from a body. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) yield parse(part);
  }
}

function parse(text) {
  const found = { event: "message", data: "" };
  for (const line of text.split(/\r?\n/)) {
    const at = line.indexOf(":");
    if (at === 0) continue;
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "data") found.data += (found.data ? "\n" : "") + value;
    else if (name === "event") found.event = value;
  }
  return found;
}
