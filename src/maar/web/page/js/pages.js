// The one table of pages. A page is a function that fills an element, and may return what the open page does later:
// `update` after a change, `params` for another address of it, `lost`, `themed`, `close`.

import { cluster } from "./pages/cluster.js";
import { decisions } from "./pages/decisions.js";
import { job } from "./pages/job.js";
import { lost } from "./pages/lost.js";
import { queues } from "./pages/queues.js";
import { submit } from "./pages/submit.js";
import { waiting } from "./pages/waiting.js";
import { whatIf } from "./pages/whatif.js";

// `parts`: how many parts of an address may follow the name of the page, and what they must be.
export const PAGES = {
  cluster: { title: "Cluster", open: cluster, parts: [0, 1] },
  queues: { title: "Queues", open: queues, parts: [0, 0] },
  waiting: { title: "Waiting", open: waiting, parts: [0, 0] },
  jobs: { title: "Job", open: job, hidden: true, parts: [2, 2] },
  decisions: { title: "Decisions", open: decisions, parts: [0, 2], test: ([number]) => number === undefined || number === "newest" || /^\d+$/.test(number) },
  "what-if": { title: "What if", open: whatIf, parts: [0, 0], test: (_, query) => /^\d*$/.test(query.get("decision") ?? "") },
  submit: { title: "Submit", open: submit, writes: true, parts: [0, 0] },
};
export const NOWHERE = { title: "Page not found", open: lost };
