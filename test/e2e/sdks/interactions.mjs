// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The Gen AI SDK's interactions, with the history in each request.
import { GoogleGenAI } from "@google/genai";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
const tools = list((name, { description, parameters }) => ({ type: "function", name, description, parameters }));
const input = [];

/** gathered puts the pieces of a stream together: the steps as they go back. */
async function gathered(stream) {
  const steps = [];
  for await (const event of stream) {
    if (event.event_type === "error") throw new Error(JSON.stringify(event.error));
    const step = steps[event.index];
    if (event.event_type === "step.start") steps[event.index] = { ...event.step, arguments: undefined, json: "" };
    if (event.event_type !== "step.delta") continue;
    switch (event.delta.type) {
      case "text":
        step.content = [{ type: "text", text: (step.content?.[0].text ?? "") + event.delta.text }];
        break;
      case "thought_summary":
        step.summary = [{ type: "text", text: (step.summary?.[0].text ?? "") + event.delta.content.text }];
        break;
      case "thought_signature":
        step.signature = event.delta.signature;
        break;
      case "arguments_delta":
        step.json += event.delta.arguments;
    }
  }
  return steps.map(({ json, ...step }) => (step.type === "function_call" ? { ...step, arguments: JSON.parse(json || "{}") } : step));
}

await main(async (prompt) => {
  input.push({ type: "user_input", content: [{ type: "text", text: prompt }] });
  for (;;) {
    const steps = await gathered(await client.interactions.create({
      model: "gemini-3.1-pro-preview", store: false, stream: true, system_instruction: system, tools, input, generation_config: { thinking_summaries: "auto" },
    }));
    input.push(...steps);
    const calls = steps.filter((s) => s.type === "function_call");
    if (!calls.length) return steps.filter((s) => s.type === "model_output").map((s) => s.content[0].text).join("");
    for (const c of calls) input.push({ type: "function_result", call_id: c.id, name: c.name, result: run(c.name, c.arguments) });
  }
});
