// The page: live by a stream of views, or with the data of a report in it. It is drawn anew with each view.

const $ = (id) => document.getElementById(id);

// make fills an element. Text is always set as text: names are other people's.
function make(node, attrs, children) {
	for (const [k, v] of Object.entries(attrs || {})) {
		if (v === true) node.setAttribute(k, "");
		else if (v !== undefined && v !== false && v !== null) node.setAttribute(k, v);
	}
	node.append(...children.flat(2).filter((c) => c !== undefined && c !== null && c !== false));
	return node;
}
const el = (tag, attrs, ...children) => make(document.createElement(tag), attrs, children);
const svg = (tag, attrs, ...children) => make(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);
const sub = (...text) => el("span", { class: "sub" }, ...text);
const note = (...text) => el("p", { class: "note" }, ...text);
const code = (text) => el("code", {}, text);
const nothing = (text) => el("span", { class: "cold" }, text);

const plain = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const fixed = (v, digits) => Math.abs(v).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const minus = (v, digits) => (Number(v.toFixed(digits)) < 0 ? "−" : "");
const dollars = (v) => minus(v, 2) + "$" + fixed(v, 2);
const tokens = (v) => (Math.abs(v) < 10000 ? plain.format(Math.round(v)) : short.format(v)).replace("-", "−");
const percent = (v) => minus(100 * v, 1) + fixed(100 * v, 1) + " %";
const count = (n, one, many) => plain.format(n) + " " + (n === 1 ? one : many || one + "s");
const share = (part, whole) => (whole ? part / whole : 0);
const time = (ms) => (ms >= 1000 ? (ms / 1000).toFixed(1) + " s" : ms >= 10 ? Math.round(ms) + " ms" : ms.toFixed(1) + " ms");
const clock = (t) => new Date(t).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = (t) => new Date(t).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const when = (t) => (Date.now() + skew - Date.parse(t) < 20 * 3600e3 ? clock(t) : `${day(t)}, ${clock(t)}`);

// What a sum came to: in dollars where prices are known, else in uncached input tokens.
function worth(s) {
	const priced = s.client_usd > 0;
	const own = priced ? s.client_usd : s.client_cost;
	const actual = priced ? s.usd : s.cost;
	return { priced, own, actual, saved: own - actual, would: (priced ? s.would_save_usd : s.would_save) || 0 };
}
const amount = (w, v) => (w.priced ? dollars(v) : tokens(v) + " tok");
const prompt = (t) => t.uncached + t.write_5m + t.write_1h + t.read;
const tone = (v) => (v > 0 ? "gain" : v < 0 ? "loss" : "");

const report = $("data") && JSON.parse($("data").textContent);
const phone = matchMedia("(max-width: 46rem)");
let view = null; // of this moment; a report has none
let period = null; // what is shown of the range
let range = "today";
let by = ""; // the dimension that is shown
let skew = 0; // of this clock against the server's
let words = ""; // searched for
const sorted = {}; // the column of each table: its number, from 1 on, negative for the smallest first
const open = {}; // the lists that are unfolded

const ranges = { today: "Today", "7d": "7 days", "30d": "30 days", month: "This month" };
const dimensions = { user: "User", group: "Group", project: "Project", client: "Client", model: "Model" };
const nameOf = (key) => dimensions[key] || key[0].toUpperCase() + key.slice(1);

// The sections below the summary, in their order. show returns the content, and an empty list where there is nothing to tell.
const panels = [
	{ id: "todo", title: "What to do", show: showAdvice },
	{ id: "proof", title: "Beside the control group", show: showProof, head: () => note(count(period.holdout.edited, "edited session") + ", " + plain.format(period.holdout.control) + " passed unedited") },
	{ id: "groups", title: "Who and what", show: showGroups, head: groupsHead },
	{ id: "sessions", title: "Sessions", show: showSessions, head: sessionsHead },
	{ id: "budgets", title: "Budgets", show: showBudgets, head: () => note("dollars at list prices; what is unpriced counts in tokens only") },
	{ id: "plans", title: "Subscriptions", show: showWindows, head: () => note("~ is an estimate, by the window's growth per dollar at list prices") },
	{ id: "errors", title: "Errors and refusals", show: showErrors },
	{ id: "causes", title: "Where savings and misses come from", show: showCauses },
	{ id: "queues", title: "Local servers", show: showQueues },
	{ id: "system", title: "Underneath", show: showHealth },
];

// put replaces what differs, and nothing else: focus and selections stay.
function put(node, ...children) {
	const fresh = document.createElement(node.tagName);
	fresh.append(...children.flat(2).filter(Boolean));
	if (fresh.innerHTML === node.innerHTML) return;
	const focus = node.contains(document.activeElement) && document.activeElement.dataset.k;
	node.replaceChildren(...fresh.childNodes);
	if (focus) [...node.querySelectorAll("[data-k]")].find((n) => n.dataset.k === focus)?.focus();
}

// Clicks on what is drawn anew, by the name in data-k.
const clicks = {};
function button(k, attrs, click, ...children) {
	clicks[k] = click;
	return el("button", { type: "button", "data-k": k, ...attrs }, ...children);
}
document.addEventListener("click", (e) => clicks[e.target.closest("button[data-k]")?.dataset.k]?.());

function show() {
	if (!period) return;
	showSummary();
	for (const p of panels) {
		const content = p.show().flat().filter(Boolean);
		const section = $(p.id);
		section.hidden = !content.length;
		if (p.head) put(section.querySelector(".tools"), content.length ? p.head() : []);
		put(section.querySelector(".body"), content);
	}
	showStrip();
	tick();
	document.documentElement.dataset.ready = "yes";
}

// The state in one line. What fails is red, here and in the title of the tab.
function showStrip() {
	const items = [];
	if (view) {
		const of = (name) => view.health.filter((h) => h.name === name);
		const worst = (all) => ["failing", "slow", "ok"].find((s) => all.some((h) => h.state === s)) || "off";
		const bad = (all, text) => all.filter((h) => h.state === "failing" || h.state === "slow").map((h) => h.of || h.name).join(", ") || text;
		const up = of("Upstream"), rest = view.health.filter((h) => h.name !== "Upstream");
		items.push(["Upstreams", worst(up), bad(up, up.length === 1 ? up[0].of || "none yet" : plain.format(up.length)), "#system"]);
		if (view.queues.length) {
			const sum = (f) => view.queues.reduce((n, q) => n + f(q), 0);
			items.push(["Local servers", "ok", `${sum((q) => q.running)} of ${count(sum((q) => q.slots), "slot")} busy`, "#queues"]);
			const waiting = sum((q) => q.waiting), wait = Math.max(...view.queues.map((q) => q.expected));
			items.push(["Queue", wait > 120 ? "slow" : "ok", waiting ? `${plain.format(waiting)} waiting` : "empty", "#queues"]);
		}
		items.push(["Stores", worst(rest), bad(rest, "well"), "#system"]);
	}
	const t = period.total, lately = (view ? view.today : period).trend.slice(-2);
	const failed = lately.reduce((n, h) => n + h.failed, 0), all = lately.reduce((n, h) => n + h.turns, 0);
	const rate = view ? share(failed, all) : 0;
	items.push(["Refused", t.refused ? "slow" : "ok", plain.format(t.refused), "#errors"]);
	items.push(["Failed", rate > 0.5 && failed > 4 ? "failing" : rate > 0.1 && failed > 4 ? "slow" : "ok", `${plain.format(t.failed + t.interrupted)} of ${plain.format(t.turns)}`, "#errors"]);
	put($("strip"), items.map(([name, state, text, to]) => el("li", { class: state }, el("a", { href: $(to.slice(1)).hidden ? "#today" : to, "data-k": "strip " + name }, el("span", { class: "dot " + state }), el("span", {}, name), el("b", {}, text), state === "failing" || state === "slow" ? el("span", { class: "hidden" }, " " + state) : ""))));
	const w = worth(t), title = `${items.some((i) => i[1] === "failing") ? "⚠ " : ""}${amount(w, w.saved)} saved · llm_cache`;
	if (document.title !== title) document.title = title;
}

function showSummary() {
	const s = period.total, w = worth(s), b = period.before && worth(period.before), known = b && b.own > 0 && b.priced === w.priced;
	const saved = $("saved");
	saved.textContent = w.priced || !s.turns ? dollars(w.saved) : tokens(w.saved);
	saved.className = "figure " + (w.saved < 0 ? "loss" : w.saved > 0 ? "" : "none");
	const name = report ? "" : range === "today" ? " today" : range === "month" ? " this month" : " in " + ranges[range];
	put($("today-title"), `Saved${name}`);
	put($("share"), !s.turns ? `No request has come yet${name}.` : w.priced
		? `${percent(share(w.saved, w.own))} of the ${dollars(w.own)} that the clients' own bytes would have cost.`
		: `uncached input tokens: ${percent(share(w.saved, w.own))} of ${tokens(w.own)}. No price is known for these models.`,
		known && ` In the time before it was ${percent(share(b.saved, b.own))}.`);
	const basis = [report ? `${period.since.slice(0, 16).replace("T", " ")} to ${period.until.slice(0, 16).replace("T", " ")} ${period.zone}.`
		: `Since ${range === "today" ? "" : period.since.slice(0, 10) + " "}${period.since.slice(11, 16)} ${period.zone}.`]; // by the server's clock, as it writes it
	if (view && !view.stored) basis.push("Turns before are not on record: there is no audit store.");
	if (s.turns && s.unpriced && w.priced) basis.push(`${plain.format(s.unpriced)} of ${count(s.turns, "turn")} unpriced: in dollars they count nothing.`);
	if (s.turns && s.assumed && w.priced) basis.push(`${plain.format(s.assumed)} of ${count(s.turns, "turn")} at the prices of the dearest model of the family, since their own are not known.`);
	if (s.estimated) basis.push(`${count(s.estimated, "turn")} estimated: the upstream reported no usage, or the answer was cut.`);
	if (period.coalesced) basis.push(`${count(period.coalesced, "turn")} have lost their details and are in sums only.`);
	put($("basis"), basis.join(" "));

	const about = s.read_estimated > 0 ? "~" : "";
	const fact = (name, value, text) => el("div", {}, el("dt", {}, name), el("dd", {}, el("span", { class: "value" }, value), sub(text)));
	const change = known ? `${b.actual < w.actual ? "+" : ""}${percent(w.actual / b.actual - 1)} against the time before` : "";
	const [, first, , added] = period.latencies, p = (l) => fact(l === first ? "First token" : "Added time", l.p50_ms ? time(l.p50_ms) : "–", l.p50_ms ? `p50; p95 ${time(l.p95_ms)}` : "p50");
	put($("facts"),
		fact("Billed", w.priced || !s.turns ? dollars(w.actual) : tokens(w.actual) + " tok", change || (w.priced || !s.turns ? "measured, at list prices" : "uncached input tokens, measured")),
		w.priced && fact("Saved in tokens", tokens(s.client_cost - s.cost), `of ${tokens(s.client_cost)} uncached input tokens, ${s.unpriced ? "unpriced turns included" : "net"}`),
		fact("Read from cache", prompt(s.billed) ? about + percent(share(s.billed.read, prompt(s.billed))) : "–", !prompt(s.billed) ? "of prompt tokens" : `of ${tokens(prompt(s.billed))} prompt tokens; ${percent(share(s.client.read, prompt(s.client)))} as the clients wrote them`),
		fact("Not sent at all", tokens(s.removed), s.folded ? `tokens, estimated; ${count(s.folded, "block")} folded, missed ${count(s.fold_misses, "time")}` : "prompt tokens, estimated"),
		fact("Turns", plain.format(s.turns), s.turns ? [s.failed && count(s.failed, "failed", "failed"), s.interrupted && count(s.interrupted, "interrupted", "interrupted"), s.refused && `${plain.format(s.refused)} refused`].filter(Boolean).join(", ") || "all completed" : "requests and their answers"),
		p(first), p(added));
	showChart();
}

function showChart() {
	const bars = period.trend, priced = bars.some((h) => h.client_usd > 0), hourly = !report && range === "today";
	$("chart").hidden = !bars.some((h) => h.turns || h.cost);
	if ($("chart").hidden) return;
	put($("chart-title"), hourly ? "Cost by hour, last 24 hours" : "Cost by day");
	const wide = Math.max($("bars").clientWidth, 240), high = 190, base = 164, top = 16, n = bars.length;
	const own = (h) => (priced ? h.client_usd : h.client_cost), actual = (h) => (priced ? h.usd : h.cost);
	const most = Math.max(...bars.map((h) => Math.max(own(h), actual(h)))) || 1;
	const y = (v) => base - (v / most) * (base - top);
	const step = wide / n, bar = Math.min(step - Math.min(4, step / 6) * 2, 48), money = (v) => (priced ? dollars(v) : tokens(v) + " tok");
	const name = (h) => (hourly ? h.name : day(h.name + "T12:00"));
	const out = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${$("chart-title").textContent}, as a table below. The most would have been ${money(most)}.` });
	bars.forEach((h, i) => {
		const block = (kind, from, to) => svg("rect", { class: kind, x: (i + 0.5) * step - bar / 2, width: bar, y: y(to), height: Math.max(y(from) - y(to), 0.5) });
		if (!own(h) && !actual(h)) return;
		out.append(svg("g", {}, svg("title", {}, `${name(h)}: ${money(actual(h))} billed, ${money(own(h) - actual(h))} saved, ${percent(share(h.read, h.prompt))} read from cache, ${count(h.turns, "turn")}`),
			block("billed", 0, Math.min(own(h), actual(h))),
			own(h) > actual(h) && block("saved", actual(h), own(h)), own(h) < actual(h) && block("lost", own(h), actual(h))));
	});
	out.append(svg("line", { class: "axis", x1: 0, x2: wide, y1: base, y2: base }));
	const every = Math.ceil(n / Math.max(2, Math.floor(wide / 90)));
	for (let i = (n - 1) % every; i < n; i += every) {
		const last = i === n - 1, edge = last ? wide : (i + 0.5) * step;
		out.append(svg("text", { x: i === 0 && n > 8 ? 0 : n > 8 ? edge : (i + 0.5) * step, y: high - 8, "text-anchor": n <= 8 ? "middle" : i === 0 ? "start" : last ? "end" : "middle" }, last && hourly ? "this hour" : name(bars[i])));
	}
	out.append(svg("text", { x: wide, y: top - 6, "text-anchor": "end" }, money(most)));
	put($("bars"), out, el("table", { class: "hidden" }, el("caption", {}, $("chart-title").textContent),
		el("thead", {}, el("tr", {}, ["time", "billed", "saved", "read from cache"].map((c) => el("th", { scope: "col" }, c)))),
		el("tbody", {}, bars.filter((h) => h.turns).map((h) => el("tr", {}, el("th", { scope: "row" }, name(h)), el("td", {}, money(actual(h))), el("td", {}, money(own(h) - actual(h))), el("td", {}, percent(share(h.read, h.prompt))))))));
}

const isHash = (name) => /^[0-9a-f]{16}$/.test(name);
const label = (name) => el("span", { class: isHash(name) ? "name code" : "name" }, name || "(none)");
// A name that leads to its turns.
const link = (kind, name, shown) => (report ? label(shown || name) : button(`${kind} ${name}`, { class: "link" }, () => showTurns(kind, name, shown || name), label(shown || name)));
const found = (...texts) => !words || texts.some((t) => t && t.toLowerCase().includes(words));

// table draws rows, which are lists of cells. A column with v is sorted by the value that v returns of a row's object.
function table(id, name, columns, objects, cells) {
	const at = sorted[id], column = columns[Math.abs(at) - 1];
	if (column) {
		const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
		objects = objects.toSorted((a, b) => Math.sign(at) * -order(column.v(a), column.v(b)));
	}
	const head = columns.map((c, i) => {
		const now = column === c && (at < 0 ? "ascending" : "descending");
		const turn = () => { sorted[id] = Math.abs(at) === i + 1 ? -at : i + 1; show(); };
		return el("th", { role: "columnheader", scope: "col", class: c.n && "n", "aria-sort": now }, c.v ? button(`sort ${id} ${i}`, { class: "sort" }, turn, c.name, now && el("span", { "aria-hidden": "true" }, at < 0 ? " ↑" : " ↓")) : c.name);
	});
	return el("table", { role: "table", "aria-label": name, class: columns.length > 6 ? "wide" : "some" },
		el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
		el("tbody", { role: "rowgroup" }, objects.map((o) => el("tr", { role: "row" },
			cells(o).map((cell, i) => el("td", { role: i ? "cell" : "rowheader", class: columns[i].n && "n", "data-label": i ? columns[i].name : undefined }, cell))))));
}

function meter(v, what, kind) {
	const w = Math.max(0, Math.min(1, v)) * 100;
	return svg("svg", { class: kind ? "meter " + kind : "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": `${what} ${percent(v)}` },
		svg("rect", { width: 100, height: 6, rx: 2 }), svg("rect", { width: w, height: 6, rx: 2 }));
}

const causes = {
	expired: "lifetime over", model: "other model", tools: "tools changed", system: "system prompt changed",
	messages: "history rewritten", edit: "an edit of ours", unknown: "not known",
};
const remedies = {
	expired: ["People pause for longer than the cache lives: ", code("keepalive"), " keeps it warm where that pays."],
	model: ["Models change within conversations, and each has a cache of its own."],
	tools: ["Tools change within conversations, as when an MCP server connects late: start servers before the first request."],
	system: ["System prompts change within conversations: keep dates and changing texts out of them."],
	messages: ["Clients rewrite their history: look at their settings for compaction."],
	edit: ["Folds have cost a cache read each, and are paid back by later turns."],
};

function showAdvice() {
	const t = period.total, w = worth(t), all = [];
	const say = (kind, ...text) => all.push(el("li", { class: kind }, el("span", { class: "dot " + kind }), el("span", {}, ...text)));
	for (const h of view ? view.health : []) if (h.state === "failing" || h.state === "slow") say(h.state, el("strong", {}, `${[h.name, h.of].filter(Boolean).join(" ")} ${h.state === "slow" ? "works only in part" : "fails"}`), ": " + h.note);
	for (const b of view ? view.budgets : []) {
		const name = b.kind === "site" ? "everybody together" : b.name;
		if (b.refused) say("failing", el("strong", {}, name), ` has spent ${b.spent}: requests are refused until ${when(b.ends)}.`);
		else if (b.share >= 0.75 || b.runs_out) say("slow", el("strong", {}, name), ` has spent ${b.spent}.`, b.runs_out && ` At this rate that lasts until ${when(b.runs_out)}.`);
	}
	const e = period.errors.find((e) => e.outcome === "failed");
	if (e && e.turns > Math.max(4, t.turns / 50)) say("slow", el("strong", {}, reason(e)), ` for ${count(e.turns, "request")} of ${e.model || "unknown models"}, last ${when(e.last)}.`);
	if (t.would_save > 0 && !period.holdout) say("", el("strong", {}, `${amount(w, w.would)} would have been saved`), ` (${percent(share(w.would, w.own))}, simulated): some sites only observe. `, code("policy cost_aware"), " makes the edits.");
	const b = period.breaks[0];
	if (b && b.turns > t.turns / 50 && remedies[b.cause]) say("", el("strong", {}, `${count(b.turns, "turn")} of ${b.client} found less in the cache`), ` (${causes[b.cause]}) and cost ${amount(w, w.priced ? b.usd : b.units)} more. `, ...remedies[b.cause]);
	if (period.unpriced.length) say("", "No price is known of ", el("strong", {}, period.unpriced.slice(0, 3).map((s) => s.name).join(", ")), period.unpriced.length > 3 && ` and ${period.unpriced.length - 3} more`, `: ${count(t.unpriced, "turn")} in no sum of dollars. Hosted models get one by the option `, code("prices"), ".");
	const unnamed = sums("user").find((s) => isHash(s.name));
	if (unnamed) say("", "Digits stand for a key without a name. One line in the global options gives one: ", code(`user ${unnamed.name} anna`));
	if (view && !view.stored) say("", "Counts end with the process, and past days are not known: ", code("audit"), " in the global options keeps a record of every turn.");
	return t.turns && all.length ? [el("ul", { class: "advice" }, all)] : [];
}

const figures = {
	cost: "Cost, of the clients' own bytes", cost_per_turn: "Cost per turn", cost_per_output: "Cost per 1,000 output tokens", read_share: "Read from cache", turns: "Turns per session",
	rereads: "Rereads per 100 turns", failed_edits: "Failed edits per 100 turns", compactions: "Compactions per 100 turns", first_token: "First token, seconds",
};

function showProof() {
	const h = period.holdout;
	if (!h) return [];
	const value = (v) => String(Number(v.toPrecision(3))), change = (v) => (v > 0 ? "+" : "") + percent(v);
	const columns = ["Figure", "Edited", "Control", "Change", "More sessions for ±3 points"].map((name, i) => ({ name, n: i > 0 }));
	return [el("ul", { class: "advice" }, h.answers.map((a) => el("li", {}, el("span", { class: "dot" }), el("span", {}, el("strong", {}, a.question), " " + a.text)))),
		table("proof", "Edited sessions beside the control group", columns, h.measures, (m) => [
			el("span", {}, figures[m.name]), value(m.edited), value(m.control),
			m.known ? [change(m.change), sub(`95 %: ${change(m.low)} to ${change(m.high)}`)] : nothing("too few"), m.known ? plain.format(m.needed) : nothing("–")])];
}

const sums = (key) => period.dimensions.find((d) => d.key === key)?.sums || [];

function groupsHead() {
	const tabs = period.dimensions.map((d, i) => {
		const on = d.key === by;
		const node = button("by " + d.key, { role: "tab", id: "tab-" + d.key, "aria-controls": "rows", "aria-selected": on ? "true" : "false", tabindex: on ? "0" : "-1" }, () => { by = d.key; show(); }, nameOf(d.key) + (report && i === 0 || !dimensions[d.key] ? "" : "s"));
		return node;
	});
	const file = report ? "data:text/csv;charset=utf-8," + encodeURIComponent(report.csv[by]) : `csv?by=${by}&range=${range}`;
	return [el("div", { class: "tabs", role: "tablist", "aria-label": "Group by" }, tabs), el("a", { class: "button", "data-k": "csv", href: file, download: `llm_cache-${by}.csv` }, "CSV")];
}
$("bar").parentNode.addEventListener("keydown", (e) => {
	const tabs = e.target.closest("[role=tab]") && [...e.target.parentNode.children], i = tabs && tabs.indexOf(e.target);
	const to = tabs && { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[e.key];
	if (to === undefined || to === false || to === null) return;
	e.preventDefault();
	const k = tabs[to % tabs.length].dataset.k;
	clicks[k]();
	document.querySelector(`[data-k="${k}"]`).focus();
});

function showGroups() {
	if (!period.dimensions.some((d) => d.key === by)) by = period.dimensions[0].key;
	const all = sums(by), seen = all.filter((s) => found(s.name));
	if (!all.length) {
		return [el("div", { id: "rows", role: "tabpanel", "aria-labelledby": "tab-" + by, class: "empty" }, el("strong", {}, "Nothing to count yet"), report ? "No turn is on record." : "Point a client at a site with llm_cache. For Claude Code:",
			!report && el("pre", { tabindex: 0 }, code("ANTHROPIC_BASE_URL=https://your-site.example claude")))];
	}
	const observed = period.total.would_save !== 0, most = open.groups || words ? 500 : phone.matches ? 5 : 12;
	const columns = [
		{ name: nameOf(by), v: (s) => s.name }, { name: "Saved, net", n: true, v: (s) => worth(s).saved }, observed && { name: "Would save", n: true, v: (s) => worth(s).would },
		{ name: "Billed", n: true, v: (s) => worth(s).actual }, { name: "Read from cache", n: true, v: (s) => share(s.billed.read, prompt(s.billed)) }, { name: "Turns", n: true, v: (s) => s.turns },
	].filter(Boolean);
	const order = sorted.groups ? seen : seen.slice(0, most);
	const draw = table("groups", "By " + nameOf(by).toLowerCase(), columns, order, (s) => {
		const w = worth(s), errors = s.failed + s.interrupted;
		return [
			[by === "user" ? link("user", s.name) : label(s.name), meter(share(w.saved + w.would, w.own), "saved or to be saved")],
			[el("span", { class: tone(w.saved) }, amount(w, w.saved)), sub(percent(share(w.saved, w.own)))],
			observed && (s.would_save ? [amount(w, w.would), sub(percent(share(w.would, w.own)))] : [nothing("–")]),
			[amount(w, w.actual), sub(`of ${amount(w, w.own)}`)],
			[(s.read_estimated > 0 ? "~" : "") + percent(share(s.billed.read, prompt(s.billed))), sub(`of ${tokens(prompt(s.billed))}`)],
			[plain.format(s.turns), sub(errors ? count(errors, "error") : s.unpriced ? `${plain.format(s.unpriced)} unpriced` : "")],
		].filter(Boolean);
	});
	const more = seen.length - order.length;
	return [el("div", { id: "rows", role: "tabpanel", "aria-labelledby": "tab-" + by, tabindex: 0, "data-k": "rows" }, draw,
		more > 0 && button("more groups", { class: "button more" }, () => { open.groups = true; show(); }, count(more, "more", "more")),
		words && !seen.length && note(`No ${nameOf(by).toLowerCase()} has “${words}” in its name.`))];
}

function warmth(s) {
	if (!s.warm) return el("span", { class: "warmth cold" }, ring(0), "cold");
	if (!s.until) return el("span", { class: "warmth" }, ring(1), "warm");
	return el("span", { class: "warmth", "data-until": Date.parse(s.until), "data-lifetime": s.lifetime * 1000 }, ring(1), el("span", {}, ""));
}

function ring(part) {
	const length = 2 * Math.PI * 9;
	return svg("svg", { class: "ring", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("circle", { cx: 12, cy: 12, r: 9 }),
		svg("circle", { cx: 12, cy: 12, r: 9, "stroke-dasharray": length, "stroke-dashoffset": length * (1 - part), visibility: part ? "visible" : "hidden" }));
}

function sessionsHead() {
	const s = view.sessions;
	return s.total ? note(`${plain.format(s.total)} held, ${plain.format(s.warm)} warm` + (s.list.length < s.total ? `; the ${s.list.length} used last` : "")) : [];
}

const money = (s, v) => (s.priced ? dollars(v) : tokens(v) + " tok");

function showSessions() {
	if (!view) return [];
	const all = view.sessions.list.filter((s) => found(s.id, s.user, s.client, s.model));
	if (!view.sessions.list.length) {
		return [el("div", { class: "empty" }, el("strong", {}, "No conversation is held"), "A session appears with its first answer, and stays until its store lets it go. Here you will see how long its cached prefix stays warm, and why it was missed.")];
	}
	// First those that matter now; on a phone, the five newest.
	const first = phone.matches ? all.slice(0, 5) : all.filter((s) => s.warm), rest = all.filter((s) => !first.includes(s));
	const columns = [
		{ name: "Session", v: (s) => s.user || s.id }, { name: "Warmth", v: (s) => (s.warm ? Date.parse(s.until) || Infinity : 0) }, { name: "Read from cache", v: (s) => s.read },
		{ name: "Last prompt", n: true, v: (s) => s.sent }, { name: "Last miss", v: (s) => s.misses }, { name: "Edits", v: (s) => s.edits }, { name: "Saved, net", n: true, v: (s) => s.saved },
	];
	const list = (name, part) => table("sessions", name, columns, part, (s) => [
		[link("session", s.id, s.user || s.id), sub([s.client, s.model].filter(Boolean).join(" · ")), sub(`${count(s.requests, "request")}${s.conversations > 1 ? ` in ${s.conversations} threads` : ""}, last ${clock(s.used)}${s.fallback ? `, by the fallback: ${s.fallback}` : ""}`)],
		[warmth(s)],
		[(s.estimated ? "~" : "") + percent(s.read), meter(s.read, "read from cache")],
		[tokens(s.sent), sub(s.written > s.sent ? `~${tokens(s.written)} as written` : "as written")],
		s.misses ? [causes[s.miss] || s.miss, sub(count(s.misses, "miss", "misses"))] : [nothing("none")],
		[s.edits ? count(s.edits, "edit") : nothing("none"), sub(s.folded || s.fold_misses ? `${plain.format(s.folded)} folded, missed ${count(s.fold_misses, "time")}` : "")],
		[el("span", { class: tone(s.saved) }, money(s, s.saved)), sub(s.observed ? `${money(s, s.would)} would be` : s.priced ? "" : "unpriced: input tokens")],
	]);
	return [
		first.length ? list("Sessions", first) : note(words ? "No session is found." : "No session is warm."),
		rest.length && el("details", { open: Boolean(open.sessions || words), "data-open": "sessions" }, el("summary", { "data-k": "more sessions" }, phone.matches ? count(rest.length, "more session") : count(rest.length, "cold session")), list("Further sessions", rest)),
	];
}
document.addEventListener("toggle", (e) => { if (e.target.dataset?.open) open[e.target.dataset.open] = e.target.open; }, true);

function showBudgets() {
	const all = view ? view.budgets.filter((b) => found(b.name, b.kind)) : [];
	if (!all.length) return [];
	return [table("budgets", "Budgets", [{ name: "Of" }, { name: "Spent" }, { name: "Part", n: true }, { name: "Begins anew", n: true }], all, (b) => [
		[label(b.kind === "user" ? b.name : b.kind === "site" ? "everybody together" : `${b.kind} ${b.name}`), meter(b.share, "spent", b.share >= 1 ? "over" : b.share >= 0.75 && "near")],
		[b.spent, sub(b.runs_out ? `at this rate used up on ${day(b.runs_out)}, ${clock(b.runs_out)}` : b.soft ? "soft: nothing is refused" : "")],
		[el("span", { class: b.share >= 0.75 ? "loss" : "" }, percent(b.share)), sub(b.refused ? "requests are refused" : "")],
		[day(b.ends), sub(clock(b.ends))],
	])];
}

function showWindows() {
	const all = ((view || period).windows || []).filter((w) => found(w.user, w.name));
	if (!all.length) return [];
	return [table("plans", "Subscriptions", [{ name: "Of" }, { name: "Window" }, { name: "Used", n: true }, { name: "Saved", n: true }, { name: "Begins anew", n: true }], all, (w) => [
		[label(w.user), meter(w.used, "used", w.used >= 1 ? "over" : w.used >= 0.75 && "near")],
		[w.name, sub(w.status && w.status !== "allowed" ? w.status.replaceAll("_", " ") : "")],
		[el("span", { class: w.used >= 0.75 ? "loss" : "" }, percent(w.used))],
		w.saved_points === undefined ? [nothing("–"), sub("from 2 points of growth on")] : ["~" + count(Math.round(w.saved_points), "point").replace("-", "−")],
		w.resets ? [day(w.resets), sub(clock(w.resets))] : ["–"],
	])];
}

const statuses = { 0: "No answer", 400: "Bad request", 401: "Key not valid", 402: "Budget spent", 403: "Not allowed", 404: "Not found", 413: "Too large", 429: "Rate limit", 500: "Error of the upstream", 502: "Upstream not reached", 503: "Upstream not available", 504: "Upstream too slow", 529: "Upstream overloaded" };
const reason = (e) => (e.outcome === "interrupted" ? "Cut before its end" : e.outcome === "refused" ? "Refused: " + (e.status === 429 || e.status === 402 || e.status === 400 ? "budget spent" : "model not allowed") : statuses[e.status] || "Error");

function showErrors() {
	const all = period.errors.filter((e) => found(e.model, e.outcome, reason(e), String(e.status)));
	if (!all.length) return [];
	const most = open.errors ? all.length : 8;
	return [table("errors", "Errors and refusals", [{ name: "What", v: (e) => reason(e) }, { name: "Model", v: (e) => e.model }, { name: "Requests", n: true, v: (e) => e.turns }, { name: "Last", n: true, v: (e) => Date.parse(e.last) }], all.slice(0, most), (e) => [
		[el("span", { class: "name" }, reason(e)), sub(e.status && e.outcome !== "interrupted" ? `status ${e.status}` : "")],
		[e.model || "(none)"],
		[plain.format(e.turns), sub(percent(share(e.turns, period.total.turns + period.total.refused)))],
		[when(e.last)],
	]), all.length > most && button("more errors", { class: "button more" }, () => { open.errors = true; show(); }, count(all.length - most, "more", "more"))];
}

// A list of bars with the largest first.
function bars(title, text, parts, value, shown) {
	if (!parts.length) return null;
	const most = Math.max(...parts.map((p) => Math.abs(value(p)))) || 1;
	return el("div", { class: "card" }, el("h3", {}, title), note(text), el("dl", { class: "bars" }, parts.slice(0, 8).map((p) => [
		el("dt", {}, causes[p.name] || p.name), el("dd", {}, svg("svg", { class: value(p) < 0 ? "meter over" : "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: 100, height: 6, rx: 2 }), svg("rect", { width: (100 * Math.abs(value(p))) / most, height: 6, rx: 2 })), el("b", {}, shown(p)))])));
}

function showCauses() {
	const w = worth(period.total), saved = (p) => (w.priced ? p.usd : p.units), shown = (p) => amount(w, saved(p));
	const rows = period.latencies.filter((l) => l.p50_ms);
	const cards = [
		bars("Saved by stage", "net, by the tokens that its edits take out of each turn", period.stages, saved, shown),
		bars("Saved by folds", "net, by the moment of the fold, the turn that paid for it included", period.epochs, saved, shown),
		bars("Cache misses", "what turns paid that found less in the cache than expected, by cause and client", period.breaks.map((b) => ({ ...b, name: `${causes[b.cause] || b.cause}, ${b.client}` })), saved, shown),
		rows.length && el("div", { class: "card" }, el("h3", {}, "Latency"), note("of completed turns, from the moment at which a request was handed on; added time is what it took before"),
			el("table", { class: "small" }, el("thead", {}, el("tr", {}, el("td", {}), ["p50", "p95", "p99"].map((p) => el("th", { scope: "col", class: "n" }, p)))), el("tbody", {}, rows.map((l) => el("tr", {}, el("th", { scope: "row" }, l.name), [l.p50_ms, l.p95_ms, l.p99_ms].map((v) => el("td", { class: "n" }, time(v)))))))),
	].filter(Boolean);
	return cards.length ? [el("div", { class: "cards" }, cards)] : [];
}

function showQueues() {
	if (!view || !view.queues.length) return [];
	return [el("div", { class: "cards" }, view.queues.map((q) => el("div", { class: "card" },
		el("h3", {}, q.name),
		el("div", { class: "slots", role: "img", "aria-label": `${q.running} of ${count(q.slots, "slot")} busy` }, Array.from({ length: Math.min(q.slots, 64) }, (_, i) => el("i", { class: i < q.running && "busy" }))),
		el("p", {}, `${q.running} of ${count(q.slots, "slot")} busy, ${plain.format(q.waiting)} waiting`),
		note(q.expected ? `a request that came now would wait about ${q.expected > 120 ? plain.format(Math.ceil(q.expected / 60)) + " min" : Math.ceil(q.expected) + " s"}` : "a request that came now would run at once"),
		q.people.length > 0 && note(q.people.map((p) => `${p.name}: ${[p.running && p.running + " running", p.waiting && p.waiting + " waiting"].filter(Boolean).join(", ")}`).join("; ")))))];
}

function showHealth() {
	if (!view) return [];
	const k = view.keepalive;
	const cards = view.health.map((h) => el("div", { class: "card" }, el("h3", {}, el("span", { class: "dot " + h.state }), [h.name, h.of].filter(Boolean).join(" "), h.state !== "ok" && el("span", { class: "note" }, h.state)), note(h.note)));
	cards.push(el("div", { class: "card" }, el("h3", {}, el("span", { class: "dot" + (k.pings || k.targets ? " ok" : "") }), "Keepalive"),
		note(k.pings || k.targets
			? `${count(k.targets, "idle conversation")} may be pinged. ` + (k.pings ? `${count(k.pings, "ping")} since the start cost ${tokens(k.cost)} uncached input tokens and spared later requests ${tokens(k.saved)}. The sums above have both.` : "No ping since the start.")
			: "No ping since the start. The option keepalive keeps caches warm while people think.")));
	return [el("div", { class: "cards" }, cards)];
}

// The turns of a user or a session, in a window of their own.
async function showTurns(kind, name, shown) {
	const dialog = $("turns"), body = $("turns-body");
	put($("turns-title"), kind === "user" ? shown : `A session of ${shown}`);
	put(body, note("loading"));
	dialog.showModal();
	const s = kind === "session" && view.sessions.list.find((s) => s.id === name);
	const listed = (counts) => Object.entries(counts || {}).sort((a, b) => b[1] - a[1]).map(([k, n]) => `${causes[k] || k} ${plain.format(n)}`).join(", ") || "none";
	const facts = s && el("dl", { class: "facts" }, [["Session", s.id], ["Cache misses", listed(s.breaks)], ["Edits in force", listed(s.stages)], ["Last decision", s.decision || "none"]].map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
	let turns;
	try {
		turns = await ask(`turns?${kind}=${encodeURIComponent(name)}&range=${range}`);
	} catch (e) {
		put(body, facts, note(e.message));
		return;
	}
	const columns = [{ name: "Time" }, { name: "Model" }, { name: "Prompt", n: true }, { name: "Saved, net", n: true }, { name: "Folds" }, { name: "Cache miss" }, { name: "First token", n: true }, { name: "End" }];
	put(body, facts, turns.length ? table("turns", "Turns", columns, turns, (t) => {
		const w = worth(t);
		return [
			[when(t.at), sub(t.kind === "turn" ? (kind === "user" ? t.session.slice(0, 8) : t.conversation ? `thread ${t.conversation}` : "") : t.kind)],
			[t.model, sub(t.client)],
			[tokens(t.prompt), sub(`${percent(share(t.read, t.prompt))} read`)],
			[el("span", { class: tone(w.saved) }, amount(w, w.saved)), sub(`${amount(w, w.actual)} billed`)],
			[t.folded ? `${count(t.folded, "block")}, ${tokens(t.removed)} tokens` : nothing("none"), sub(t.reason), t.fold_misses > 0 && sub(`folded text missed ${count(t.fold_misses, "time")}`)],
			[t.break ? causes[t.break] || t.break : nothing("none")],
			[t.first_token_ms ? time(t.first_token_ms) : "–", sub(t.added_ms ? `${time(t.added_ms)} added` : "")],
			[t.outcome === "completed" ? t.outcome : el("span", { class: "loss" }, reason(t)), sub(t.status && t.outcome !== "completed" ? `status ${t.status}` : "")],
		];
	}) : note("No turn is known in this time."),
	turns.length > 0 && note(`The latest ${count(turns.length, "turn")}${view.stored ? " on record" : " since the start"}.`));
}
$("close").addEventListener("click", () => $("turns").close());

function tick() {
	const now = Date.now() + skew;
	for (const node of document.querySelectorAll("[data-until]")) {
		const left = Number(node.dataset.until) - now, circle = node.querySelector("circle + circle");
		const text = node.lastElementChild;
		if (left <= 0) {
			text.textContent = "cold";
			node.classList.add("cold");
			circle.setAttribute("visibility", "hidden");
			continue;
		}
		const s = Math.ceil(left / 1000);
		text.textContent = s >= 3600 ? `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, "0")} min` : `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
		circle.setAttribute("stroke-dashoffset", 2 * Math.PI * 9 * (1 - Math.min(1, left / Number(node.dataset.lifetime))));
	}
}

async function ask(address) {
	const res = await fetch(address);
	if (!res.ok) throw new Error(await res.text());
	return res.json();
}

function status(text, kind) {
	const node = $("status");
	if (node.textContent !== text) node.textContent = text;
	node.className = "status " + kind;
}

// choose shows a range. Today is in every view; others are asked for, and once a minute again.
async function choose(name) {
	range = name;
	showRanges();
	if (name === "today") {
		period = view && view.today;
		return show();
	}
	document.body.setAttribute("aria-busy", "true");
	const was = $("status").textContent;
	status("reading the record", "");
	try {
		const p = await ask("period?range=" + name);
		if (range === name) period = p;
	} catch (e) {
		if (range === name) put($("basis"), e.message);
		return;
	} finally {
		document.body.removeAttribute("aria-busy");
		if ($("status").textContent === "reading the record") status(was, was === "live" ? "live" : "");
	}
	show();
}

function showRanges() {
	if (report) return;
	const past = view && view.stored;
	put($("ranges"), Object.entries(ranges).map(([name, text]) => button("range " + name, { "aria-pressed": String(name === range), disabled: name !== "today" && !past, title: name !== "today" && !past && "past days need an audit store" }, () => choose(name), text)));
}

for (const p of panels) {
	$("today").parentNode.append(el("section", { id: p.id, "aria-labelledby": p.id + "-title", hidden: true },
		el("div", { class: "head" }, el("h2", { id: p.id + "-title" }, p.title), el("div", { class: "tools" })), el("div", { class: "body" })));
}
$("search").addEventListener("input", (e) => { words = e.target.value.trim().toLowerCase(); show(); });
phone.addEventListener("change", show);
addEventListener("resize", () => period && showChart());

if (report) {
	period = report.period;
	status("report", "");
	show();
} else {
	const stream = new EventSource("events");
	stream.onmessage = (e) => {
		status("live", "live");
		view = JSON.parse(e.data);
		skew = Date.parse(view.now) - Date.now();
		if (range === "today") period = view.today;
		showRanges();
		show();
	};
	stream.onerror = () => status("not connected, trying again", "lost");
	setInterval(tick, 1000);
	setInterval(() => range !== "today" && choose(range), 60e3);
}
