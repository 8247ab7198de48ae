// The live page: one stream of what is shown, drawn anew with each event.

const $ = (id) => document.getElementById(id);
const svgNS = "http://www.w3.org/2000/svg";

// el makes an element. Text is always set as text: names are other people's.
function make(node, attrs, children) {
	for (const [k, v] of Object.entries(attrs || {})) {
		if (v === true) node.setAttribute(k, "");
		else if (v !== undefined && v !== false && v !== null) node.setAttribute(k, v);
	}
	node.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
	return node;
}
const el = (tag, attrs, ...children) => make(document.createElement(tag), attrs, children);
const svg = (tag, attrs, ...children) => make(document.createElementNS(svgNS, tag), attrs, children);

const plain = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

function dollars(v) {
	const digits = v !== 0 && Math.abs(v) < 1 ? 4 : 2;
	return (v < 0 ? "−$" : "$") + Math.abs(v).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
const tokens = (v) => (Math.abs(v) < 10000 ? plain.format(Math.round(v)) : short.format(v)).replace("-", "−");
const percent = (v) => (100 * v).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 }).replace("-", "−") + " %";
const count = (n, one, many) => plain.format(n) + " " + (n === 1 ? one : many || one + "s");
const clock = (t) => new Date(t).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const share = (part, whole) => (whole ? part / whole : 0);

// What a sum came to: in dollars where prices are known, else in uncached input tokens.
function worth(s) {
	const priced = s.client_usd > 0;
	const own = priced ? s.client_usd : s.client_cost;
	const actual = priced ? s.usd : s.cost;
	return { priced, own, actual, saved: own - actual, would: priced ? s.would_save_usd : s.would_save };
}
const amount = (w, v) => (w.priced ? dollars(v) : tokens(v) + " tok");
const prompt = (t) => t.uncached + t.write_5m + t.write_1h + t.read;
const tone = (v) => (v > 0 ? "gain" : v < 0 ? "loss" : "");

let view = null;
let by = "people";
let skew = 0; // of this clock against the server's

// put replaces what differs, and nothing else: focus and selections stay.
function put(id, ...children) {
	const fresh = document.createElement("div");
	fresh.append(...children.flat().filter(Boolean));
	if (fresh.innerHTML !== $(id).innerHTML) $(id).replaceChildren(...fresh.childNodes);
}

function showToday(today) {
	const s = today.total, w = worth(s);
	const saved = $("saved");
	saved.textContent = w.priced || !s.turns ? dollars(w.saved) : tokens(w.saved);
	saved.className = "figure " + (w.saved < 0 ? "loss" : w.saved > 0 ? "" : "none");
	if (!s.turns) {
		$("share").textContent = "No request has come yet today.";
	} else if (w.priced) {
		$("share").textContent = `${percent(share(w.saved, w.own))} of the ${dollars(w.own)} that the clients' own bytes would have cost.`;
	} else {
		$("share").textContent = `uncached input tokens: ${percent(share(w.saved, w.own))} of ${tokens(w.own)}. No price is known for these models.`;
	}
	const would = $("would");
	would.hidden = !(s.would_save || s.would_remove);
	if (!would.hidden) {
		put("would", el("strong", {}, `${amount(w, w.would)} would have been saved`),
			` (${percent(share(w.would, w.own))}${w.priced ? `; ${tokens(s.would_save)} uncached input tokens, all models` : ""}; simulated): some sites only observe. `, el("code", {}, "policy cost_aware"), " makes the edits.");
	}
	const basis = [`Since ${today.since.slice(11, 16)} ${today.zone}.`]; // by the server's clock, as it writes it
	if (s.turns && s.unpriced && w.priced) basis.push(`${plain.format(s.unpriced)} of ${count(s.turns, "turn")} unpriced: in dollars they count nothing.`);
	if (s.turns && s.assumed && w.priced) basis.push(`${plain.format(s.assumed)} of ${count(s.turns, "turn")} at the prices of the dearest model of the family, since their own are not known.`);
	if (s.estimated) basis.push(`${count(s.estimated, "turn")} estimated: the upstream reported no usage, or the answer was cut.`);
	$("basis").textContent = basis.join(" ");

	const about = s.read_estimated > 0 ? "~" : "";
	const fact = (name, value, note) => el("div", {}, el("dt", {}, name), el("dd", {}, el("span", { class: "value" }, value), el("span", { class: "sub" }, note)));
	put("facts",
		fact("Billed", w.priced || !s.turns ? dollars(w.actual) : tokens(w.actual) + " tok", w.priced || !s.turns ? "measured, at list prices" : "uncached input tokens, measured"),
		w.priced && fact("Saved in tokens", tokens(s.client_cost - s.cost), `of ${tokens(s.client_cost)} uncached input tokens, ${s.unpriced ? "unpriced turns included" : "net"}`),
		fact("Read from cache", prompt(s.billed) ? about + percent(share(s.billed.read, prompt(s.billed))) : "–", !prompt(s.billed) ? "of prompt tokens" : `of ${tokens(prompt(s.billed))} prompt tokens; ${percent(share(s.client.read, prompt(s.client)))} as the clients wrote them`),
		fact("Not sent at all", tokens(s.removed), s.would_remove ? `tokens, estimated; ${tokens(s.would_remove)} would be` : "prompt tokens, estimated"),
		fact("Turns", plain.format(s.turns), s.refused ? `${plain.format(s.failed + s.interrupted)} failed or interrupted, ${plain.format(s.refused)} refused by budgets` : s.failed + s.interrupted ? `${plain.format(s.failed)} failed, ${plain.format(s.interrupted)} interrupted` : s.turns ? "all completed" : "requests and their answers"));
	showChart(today.hours);
}

function showChart(hours) {
	const last = Math.floor((Date.now() + skew) / 3600e3);
	const priced = hours.some((h) => h.sum.client_usd > 0);
	const bars = [];
	for (const h of hours) {
		const at = 23 - (last - Math.floor(Date.parse(h.at) / 3600e3));
		if (at < 0 || at > 23) continue;
		bars.push({ at, when: h.at, own: priced ? h.sum.client_usd : h.sum.client_cost, actual: priced ? h.sum.usd : h.sum.cost });
	}
	$("chart").hidden = !bars.length;
	if (!bars.length) return;
	const wide = Math.max($("bars").clientWidth, 240), high = 190, base = 164, top = 16;
	const most = Math.max(...bars.map((b) => Math.max(b.own, b.actual))) || 1;
	const y = (v) => base - (v / most) * (base - top);
	const step = wide / 24, gap = Math.min(4, step / 6), money = (v) => (priced ? dollars(v) : tokens(v) + " tok");
	const out = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Cost by hour, as a table below. The dearest hour would have cost ${money(most)}.` });
	const block = (kind, at, from, to) => svg("rect", { class: kind, x: at * step + gap, width: step - 2 * gap, y: y(to), height: Math.max(y(from) - y(to), 0.5) });
	for (const b of bars) {
		out.append(svg("g", {}, svg("title", {}, `${clock(b.when)}: ${money(b.actual)} billed, ${money(b.own - b.actual)} saved`),
			block("billed", b.at, 0, Math.min(b.own, b.actual)),
			b.own > b.actual && block("saved", b.at, b.actual, b.own), b.own < b.actual && block("lost", b.at, b.own, b.actual)));
	}
	out.append(svg("line", { class: "axis", x1: 0, x2: wide, y1: base, y2: base }));
	const hour = (at) => svg("text", { x: at === 0 ? 0 : at * step + step / 2, y: high - 8, "text-anchor": at === 0 ? "start" : "middle" }, clock((last - 23 + at) * 3600e3));
	out.append(...(wide < 420 ? [0, 12] : [0, 6, 12, 18]).map(hour), svg("text", { x: wide, y: high - 8, "text-anchor": "end" }, "this hour"),
		svg("text", { x: wide, y: top - 6, "text-anchor": "end" }, money(most)));
	put("bars", out, el("table", { class: "hidden" }, el("caption", {}, "Cost by hour"),
		el("thead", {}, el("tr", {}, ["hour", "billed", "saved"].map((name) => el("th", { scope: "col" }, name)))),
		el("tbody", {}, bars.map((b) => el("tr", {}, el("th", { scope: "row" }, clock(b.when)), el("td", {}, money(b.actual)), el("td", {}, money(b.own - b.actual)))))));
}

const isHash = (name) => /^[0-9a-f]{16}$/.test(name);
const label = (name) => el("span", { class: isHash(name) ? "name code" : "name" }, name || "(none)");

function table(name, columns, rows) {
	return el("table", { role: "table", "aria-label": name, class: columns.length > 6 ? "wide" : "some" },
		el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map((c) => el("th", { role: "columnheader", scope: "col", class: c.n && "n" }, c.name)))),
		el("tbody", { role: "rowgroup" }, rows.map((cells) => el("tr", { role: "row" },
			cells.map((cell, i) => el("td", { role: i ? "cell" : "rowheader", class: columns[i].n && "n", "data-label": i ? columns[i].name : undefined }, cell))))));
}

function meter(v, what, kind) {
	const w = Math.max(0, Math.min(1, v)) * 100;
	return svg("svg", { class: kind ? "meter " + kind : "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": `${what} ${percent(v)}` },
		svg("rect", { width: 100, height: 6, rx: 2 }), svg("rect", { width: w, height: 6, rx: 2 }));
}

function showGroups(today) {
	const sums = today[by];
	if (!sums.length) {
		put("rows", el("div", { class: "empty" }, el("strong", {}, "Nothing to count yet"), "Point a client at a site with llm_cache. For Claude Code:",
			el("pre", { tabindex: 0 }, el("code", {}, "ANTHROPIC_BASE_URL=https://your-site.example claude"))));
		return;
	}
	const most = 12;
	const observed = today.total.would_save !== 0;
	const columns = [{ name: { people: "Person", groups: "Group", projects: "Project", clients: "Client", models: "Model" }[by] }, { name: "Saved, net", n: true }, { name: "Billed", n: true }, { name: "Read from cache", n: true }, { name: "Turns", n: true }];
	if (observed) columns.splice(2, 0, { name: "Would save", n: true });
	const all = table("By " + columns[0].name.toLowerCase(), columns, sums.slice(0, most).map((s) => {
		const w = worth(s);
		const cells = [
			[label(s.name), meter(share(w.saved + w.would, w.own), "saved or to be saved")],
			[el("span", { class: tone(w.saved) }, amount(w, w.saved)), el("span", { class: "sub" }, percent(share(w.saved, w.own)))],
			[amount(w, w.actual), el("span", { class: "sub" }, `of ${amount(w, w.own)}`)],
			[(s.read_estimated > 0 ? "~" : "") + percent(share(s.billed.read, prompt(s.billed))), el("span", { class: "sub" }, `of ${tokens(prompt(s.billed))}`)],
			[plain.format(s.turns), el("span", { class: "sub" }, s.failed + s.interrupted ? count(s.failed + s.interrupted, "error") : s.unpriced ? count(s.unpriced, "unpriced", "unpriced") : "")],
		];
		if (observed) cells.splice(2, 0, s.would_save ? [amount(w, w.would), el("span", { class: "sub" }, percent(share(w.would, w.own)))] : [el("span", { class: "cold" }, "–")]);
		return cells;
	}));
	const hints = [];
	if (sums.length > most) hints.push(el("p", { class: "note more" }, `${count(sums.length - most, "more", "more")}, in `, el("code", {}, "caddy llm-cache report"), "."));
	const unnamed = by === "people" && sums.find((s) => isHash(s.name));
	if (unnamed) hints.push(el("p", { class: "note more" }, "Digits stand for a key without a name. One line in the global options gives one: ", el("code", {}, `user ${unnamed.name} anna`)));
	put("rows", all, ...hints);
}

const causes = {
	expired: "lifetime over", model: "other model", tools: "tools changed", system: "system prompt changed",
	messages: "history rewritten", edit: "an edit of ours", unknown: "not known",
};

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

function showSessions(sessions) {
	$("sessions-count").textContent = sessions.total ? `${plain.format(sessions.total)} held, ${plain.format(sessions.warm)} warm` + (sessions.list.length < sessions.total ? `; the ${sessions.list.length} used last` : "") : "";
	if (!sessions.list.length) {
		put("list", el("div", { class: "empty" }, el("strong", {}, "No conversation is held"), "A session appears with its first answer, and stays until its store lets it go. Here you will see how long its cached prefix stays warm, and why it was missed."));
		return;
	}
	put("list", table("Sessions", [{ name: "Session" }, { name: "Warmth" }, { name: "Read from cache" }, { name: "Last prompt", n: true }, { name: "Last miss" }, { name: "Edits" }, { name: "Saved, net", n: true }],
		sessions.list.map((s) => {
			const money = (v) => (s.priced ? dollars(v) : tokens(v) + " tok");
			return [
				[label(s.user || s.id), el("span", { class: "sub" }, [s.client, s.model].filter(Boolean).join(" · ")), el("span", { class: "sub" }, `${count(s.requests, "request")}${s.conversations > 1 ? ` in ${s.conversations} threads` : ""}, last ${clock(s.used)}${s.fallback ? `, by the fallback: ${s.fallback}` : ""}`)],
				[warmth(s)],
				[(s.estimated ? "~" : "") + percent(s.read), meter(s.read, "read from cache")],
				[tokens(s.sent), el("span", { class: "sub" }, s.written > s.sent ? `~${tokens(s.written)} as written` : "as written")],
				s.misses ? [causes[s.miss] || s.miss, el("span", { class: "sub" }, count(s.misses, "miss", "misses"))] : [el("span", { class: "cold" }, "none")],
				[s.edits ? count(s.edits, "edit") : el("span", { class: "cold" }, "none"), el("span", { class: "sub" }, s.folded || s.fold_misses ? `${plain.format(s.folded)} folded, missed ${count(s.fold_misses, "time")}` : "")],
				[el("span", { class: tone(s.saved) }, money(s.saved)), el("span", { class: "sub" }, s.observed ? `${money(s.would)} would be` : s.priced ? "" : "unpriced: input tokens")],
			];
		})));
	tick();
}

function showBudgets(budgets) {
	$("budgets").hidden = !budgets.length;
	if (!budgets.length) return;
	put("standings", table("Budgets", [{ name: "Of" }, { name: "Spent" }, { name: "Part", n: true }, { name: "Begins anew", n: true }], budgets.map((b) => [
		[label(b.kind === "user" ? b.name : b.kind === "site" ? "everybody together" : `${b.kind} ${b.name}`), meter(b.share, "spent", b.share >= 1 ? "over" : b.share >= 0.75 && "near")],
		[b.spent, el("span", { class: "sub" }, b.runs_out ? `at this rate used up on ${new Date(b.runs_out).toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(b.runs_out)}` : b.soft ? "soft: nothing is refused" : "")],
		[el("span", { class: b.share >= 0.75 ? "loss" : "" }, percent(b.share)), el("span", { class: "sub" }, b.refused ? "requests are refused" : "")],
		[new Date(b.ends).toLocaleDateString("en-GB", { day: "numeric", month: "short" }), el("span", { class: "sub" }, clock(b.ends))],
	])));
}

function showWindows(windows) {
	$("plans").hidden = !windows.length;
	if (!windows.length) return;
	put("windows", table("Subscriptions", [{ name: "Of" }, { name: "Window" }, { name: "Used", n: true }, { name: "Saved", n: true }, { name: "Begins anew", n: true }], windows.map((w) => [
		[label(w.user), meter(w.used, "used", w.used >= 1 ? "over" : w.used >= 0.75 && "near")],
		[w.name, el("span", { class: "sub" }, w.status && w.status !== "allowed" ? w.status.replaceAll("_", " ") : "")],
		[el("span", { class: w.used >= 0.75 ? "loss" : "" }, percent(w.used))],
		w.saved_points === undefined ? [el("span", { class: "cold" }, "–"), el("span", { class: "sub" }, "from 2 points of growth on")] : ["~" + count(Math.round(w.saved_points), "point").replace("-", "−")],
		w.resets ? [new Date(w.resets).toLocaleDateString("en-GB", { day: "numeric", month: "short" }), el("span", { class: "sub" }, clock(w.resets))] : ["–"],
	])));
}

function showQueues(queues) {
	$("boxes").hidden = !queues.length;
	put("queues", queues.map((q) => el("div", { class: "card" },
		el("h3", {}, q.name),
		el("div", { class: "slots", role: "img", "aria-label": `${q.running} of ${count(q.slots, "slot")} busy` }, Array.from({ length: Math.min(q.slots, 64) }, (_, i) => el("i", { class: i < q.running && "busy" }))),
		el("p", {}, `${q.running} of ${count(q.slots, "slot")} busy, ${plain.format(q.waiting)} waiting`),
		el("p", { class: "note" }, q.expected ? `a request that came now would wait about ${q.expected > 120 ? plain.format(Math.ceil(q.expected / 60)) + " min" : Math.ceil(q.expected) + " s"}` : "a request that came now would run at once"),
		q.people.length > 0 && el("p", { class: "note" }, q.people.map((p) => `${p.name}: ${[p.running && p.running + " running", p.waiting && p.waiting + " waiting"].filter(Boolean).join(", ")}`).join("; ")))));
}

function showHealth(v) {
	const k = v.keepalive;
	const cards = v.health.map((h) => el("div", { class: "card" }, el("h3", {}, el("span", { class: "dot " + h.state }), [h.name, h.of].filter(Boolean).join(" "), h.state !== "ok" && el("span", { class: "note" }, h.state)), el("p", { class: "note" }, h.note)));
	cards.push(el("div", { class: "card" }, el("h3", {}, el("span", { class: "dot" + (k.pings || k.targets ? " ok" : "") }), "Keepalive"),
		el("p", { class: "note" }, k.pings || k.targets
			? `${count(k.targets, "idle conversation")} may be pinged. ` + (k.pings ? `${count(k.pings, "ping")} since the start cost ${tokens(k.cost)} and saved ${tokens(k.saved)} uncached input tokens: ${tokens(k.saved - k.cost)} net.` : "No ping since the start.")
			: "No ping since the start. The option keepalive keeps caches warm while people think.")));
	put("health", cards);
}

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

function show(v) {
	view = v;
	skew = Date.parse(v.now) - Date.now();
	showToday(v.today);
	showGroups(v.today);
	showSessions(v.sessions);
	showBudgets(v.budgets);
	showWindows(v.windows);
	showQueues(v.queues);
	showHealth(v);
	document.documentElement.dataset.ready = "yes";
}

function status(text, kind) {
	const node = $("status");
	if (node.textContent !== text) node.textContent = text;
	node.className = "status " + kind;
}

const tabs = [...document.querySelectorAll("[role=tab]")];
function select(tab) {
	by = tab.dataset.by;
	for (const t of tabs) {
		t.setAttribute("aria-selected", t === tab);
		t.tabIndex = t === tab ? 0 : -1;
	}
	$("rows").setAttribute("aria-labelledby", tab.id);
	if (view) showGroups(view.today);
}
for (const [i, tab] of tabs.entries()) {
	tab.addEventListener("click", () => select(tab));
	tab.addEventListener("keydown", (e) => {
		const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[e.key];
		if (to === undefined) return;
		e.preventDefault();
		const next = tabs[to % tabs.length];
		select(next);
		next.focus();
	});
}

const stream = new EventSource("events");
stream.onmessage = (e) => {
	status("live", "live");
	show(JSON.parse(e.data));
};
stream.onerror = () => status("not connected, trying again", "lost");
setInterval(tick, 1000);
addEventListener("resize", () => view && showChart(view.today.hours));
