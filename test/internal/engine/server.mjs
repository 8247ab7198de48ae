// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// A small chat completions server with real KV caches, on the prebuilt
// node-llama-cpp package: node server.mjs MODEL PORT SLOTS CONTEXT PROMPTS DIR
//
// What it answers is scripted, for the model's weights are random; but prompt
// and answer are evaluated token by token, so that what a later request finds
// in the cache is what a real engine would find there. It keeps a record of
// every request: GET /stats, and GET /running for those that it works on.

import fs from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import {getLlama} from "node-llama-cpp";

const [, , modelPath, port, slotCount, contextSize, promptCount, dir] = process.argv;
const batch = 256;

const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: 1});
const model = await llama.loadModel({modelPath});
const context = await model.createContext({contextSize: +contextSize, sequences: +slotCount, batchSize: batch});
const slots = Array.from({length: +slotCount}, (_, id) => ({id, sequence: context.getSequence(), tokens: [], used: 0, busy: false}));

// The states of sequences that were evaluated last, in files, oldest first.
let kept = [];

let script = [], stats = [], running = [], clock = 0, waiting = [];

const textOf = c => typeof c === "string" ? c : (c ?? []).map(p => p.text ?? "").join("");
const callOf = c => `<tool_call>{"name": "${c.function.name}", "arguments": ${c.function.arguments}}</tool_call>`;

// render is the chat template: ChatML, tools behind the system text.
function render(b) {
	const first = b.messages[0]?.role === "system";
	let system = first ? textOf(b.messages[0].content) : "";
	if (b.tools?.length) system += "\n\n# Tools\n<tools>\n" + b.tools.map(t => JSON.stringify(t)).join("\n") + "\n</tools>";
	let s = system ? `<|im_start|>system\n${system}<|im_end|>\n` : "";
	for (const m of b.messages.slice(first ? 1 : 0)) {
		if (m.role === "system") throw Object.assign(new Error("System message must be at the beginning."), {status: 400});
		if (m.role === "tool") s += `<|im_start|>user\n<tool_response>\n${textOf(m.content)}\n</tool_response><|im_end|>\n`;
		else s += `<|im_start|>${m.role}\n${said(m)}<|im_end|>\n`;
	}
	return s + "<|im_start|>assistant\n";
}

const said = m => (m.reasoning_content ? `<think>${m.reasoning_content}</think>` : "") + textOf(m.content) + (m.tool_calls ?? []).map(callOf).join("");

// toldWord is the word that a system prompt asks for, as `caddy llm-cache smoketest` does.
const toldWord = b => /your whole answer is the one word ([A-Z]+)/.exec(textOf(b.messages[0]?.content))?.[1];

function common(a, b) {
	let n = 0;
	while (n < a.length && n < b.length && a[n] === b[n]) n++;
	return n;
}

// slotFor is the free slot that holds most of the prompt, or the one asked for.
async function slotFor(b, tokens) {
	for (;;) {
		const free = slots.filter(s => !s.busy && (!(b.id_slot >= 0) || s.id === b.id_slot));
		if (free.length) {
			const share = s => common(s.tokens, tokens) / Math.max(1, tokens.length);
			const best = free.reduce((x, y) => share(y) > share(x) ? y : x);
			const slot = share(best) > 0.1 ? best : free.reduce((x, y) => y.used < x.used ? y : x);
			slot.busy = true;
			slot.used = ++clock;
			return slot;
		}
		await new Promise(done => waiting.push(done));
	}
}

// alone runs one after the other what reads and writes the states.
let last = Promise.resolve();
const alone = work => last = last.then(work, work);

// recall brings what was kept of a prompt into a slot, if it is more than what
// the slot holds.
const recall = (slot, prompt) => alone(async () => {
	const share = k => common(k.tokens, prompt);
	const best = kept.reduce((x, y) => share(y) > share(x) ? y : x, slot);
	if (best === slot) return;
	await slot.sequence.loadStateFromFile(best.file, {acceptRisk: true});
	slot.tokens = [...best.tokens];
});

// keep keeps what a slot holds. What it goes on from is then of no use.
const keep = slot => alone(async () => {
	const entry = {file: path.join(dir, `state-${++clock}`), tokens: [...slot.tokens]};
	await slot.sequence.saveStateToFile(entry.file);
	const out = kept.filter(k => common(k.tokens, entry.tokens) === k.tokens.length);
	kept = [...kept.filter(k => !out.includes(k)), entry];
	out.push(...kept.splice(0, Math.max(0, kept.length - promptCount)));
	await Promise.all(out.map(k => fs.rm(k.file, {force: true})));
});

function release(slot) {
	slot.busy = false;
	const woken = waiting;
	waiting = [];
	woken.forEach(done => done());
}

// evaluate brings tokens into a slot's cache, and stops when the client leaves.
async function evaluate(slot, tokens, gone, progress) {
	for (let i = 0; i < tokens.length; i += batch) {
		if (gone()) return false;
		const part = tokens.slice(i, i + batch);
		await slot.sequence.evaluateWithoutGeneratingNewTokens(part);
		slot.tokens.push(...part);
		progress?.(Math.min(tokens.length, i + batch));
	}
	return true;
}

async function complete(b, res) {
	const prompt = model.tokenize(render(b), true);
	const record = {model: b.model, tools: b.tools?.length ?? 0, messages: b.messages.length, prompt: prompt.length};
	const slot = await slotFor(b, prompt);
	try {
		const start = performance.now();
		if (+promptCount) await recall(slot, prompt);
		await slot.sequence.adaptStateToTokens(prompt.slice(0, -1), false);
		const cached = slot.sequence.nextTokenIndex;
		slot.tokens = prompt.slice(0, cached);
		Object.assign(record, {slot: slot.id, cached, processed: prompt.length - cached});
		running.push(record);
		let gone = false;
		res.on("close", () => gone = !res.writableFinished);
		const head = {id: `chatcmpl-${++clock}`, object: b.stream ? "chat.completion.chunk" : "chat.completion", model: b.model, created: Date.now() / 1000 | 0};
		const send = o => res.write(`data: ${JSON.stringify({...head, ...o})}\n\n`);
		const delta = (delta, finish_reason = null) => send({choices: [{index: 0, delta, finish_reason}]});
		if (b.stream) {
			res.writeHead(200, {"content-type": "text/event-stream"});
			res.write(": prefill\n\n");
		}
		const progress = b.stream && b.return_progress
			? done => send({choices: [], prompt_progress: {total: prompt.length, cache: cached, processed: cached + done, time_ms: performance.now() - start}})
			: undefined;
		if (!await evaluate(slot, prompt.slice(cached), () => gone, progress)) {
			record.aborted = true;
			return;
		}
		record.ms = performance.now() - start;
		record.answering = true;
		const small = b.max_tokens === 1 || b.max_completion_tokens === 1;
		const step = small ? {text: "."} : b.tools?.length ? script.shift() ?? {text: "Nothing is left to do."} : {text: toldWord(b) ?? "A title"};
		const calls = (step.calls ?? []).map((c, i) => ({index: i, id: `call_${clock}_${i}`, type: "function", function: {name: c.name, arguments: c.arguments}}));
		const message = {role: "assistant", content: step.text ?? "", ...(step.thinking ? {reasoning_content: step.thinking} : {}), ...(calls.length ? {tool_calls: calls} : {})};
		const answer = model.tokenize(said(message) + (small ? "" : "<|im_end|>\n"), true);
		await evaluate(slot, answer, () => false);
		if (+promptCount) await keep(slot);
		const finish = small ? "length" : calls.length ? "tool_calls" : "stop";
		const usage = {prompt_tokens: prompt.length, completion_tokens: answer.length, total_tokens: prompt.length + answer.length, prompt_tokens_details: {cached_tokens: cached}};
		if (!b.stream) {
			res.setHeader("content-type", "application/json");
			return res.end(JSON.stringify({...head, choices: [{index: 0, message: {...message, tool_calls: message.tool_calls?.map(({index, ...c}) => c)}, finish_reason: finish}], usage}));
		}
		delta({role: "assistant"});
		if (step.thinking) for (const piece of step.thinking.match(/[^]{1,12}/gu)) delta({reasoning_content: piece});
		for (const piece of (step.text ?? "").match(/[^]{1,12}/gu) ?? []) delta({content: piece});
		for (const c of calls) {
			delta({tool_calls: [{...c, function: {name: c.function.name, arguments: ""}}]});
			for (const piece of c.function.arguments.match(/[^]{1,16}/gu) ?? []) delta({tool_calls: [{index: c.index, function: {arguments: piece}}]});
		}
		delta({}, finish);
		if (b.stream_options?.include_usage) send({choices: [], usage});
		res.end("data: [DONE]\n\n");
	} finally {
		running = running.filter(r => r !== record);
		stats.push(record);
		release(slot);
	}
}

http.createServer((req, res) => {
	const chunks = [];
	req.on("data", c => chunks.push(c)).on("end", async () => {
		const body = Buffer.concat(chunks).toString();
		const json = o => (res.setHeader("content-type", "application/json"), res.end(JSON.stringify(o)));
		try {
			switch (`${req.method} ${req.url.split("?")[0]}`) {
			case "GET /health": return json({status: "ok"});
			case "GET /stats": return json(stats);
			case "GET /running": return json(running);
			case "DELETE /stats": stats = []; return json({});
			case "POST /script": script = JSON.parse(body); return json({});
			case "GET /script": return json(script);
			case "POST /v1/chat/completions": return await complete(JSON.parse(body), res);
			}
			res.statusCode = 404;
			json({error: {message: `no such endpoint: ${req.method} ${req.url}`}});
		} catch (e) {
			if (res.headersSent) return res.destroy();
			res.statusCode = e.status ?? 500;
			json({error: {message: String(e.message ?? e), type: "server_error"}});
		}
	});
}).listen(+port, "127.0.0.1", () => console.log("listening"));
