// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// LlamaIndex's agent with one of its models.
import { anthropic } from "@llamaindex/anthropic";
import { openai } from "@llamaindex/openai";
import { agent } from "@llamaindex/workflow";
import { tool } from "llamaindex";
import { z } from "zod";
import { key, main, run, system, tools, url } from "./tools.mjs";

const llm = {
  anthropic: () => anthropic({ model: "claude-sonnet-4-5", apiKey: key, baseURL: url, maxTokens: 8000, maxRetries: 0 }),
  chat: () => openai({ model: "gpt-4.1", apiKey: key, baseURL: url + "/v1", maxRetries: 0 }),
}[process.env.API]();
const schema = (t) => z.object(Object.fromEntries(Object.keys(t.parameters.properties).map((name) => [name, z.string()])));
const worker = agent({
  llm, systemPrompt: system,
  tools: Object.entries(tools).map(([name, t]) => tool({ name, description: t.description, parameters: schema(t), execute: (input) => run(name, input) })),
});
let state;

await main(async (prompt) => {
  const result = await worker.run(prompt, state ? { state } : {});
  state = result.data.state;
  const { result: text } = result.data;
  return typeof text === "string" ? text : text.map((p) => p.text ?? "").join("");
});
