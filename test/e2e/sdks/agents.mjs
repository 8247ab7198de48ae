// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// OpenAI's Agents SDK over Responses or chat completions.
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run as runAgent, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { key, list, main, run, system, url } from "./tools.mjs";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0 });
const model = process.env.API === "chat" ? new OpenAIChatCompletionsModel(client, "gpt-4.1") : new OpenAIResponsesModel(client, "gpt-5");
const worker = new Agent({
  name: "worker", instructions: system, model, modelSettings: { store: false },
  tools: list((name, t) => tool({ name, description: t.description, parameters: t.parameters, strict: true, execute: (input) => run(name, input) })),
});
let history = [];

await main(async (prompt) => {
  const stream = await runAgent(worker, [...history, { role: "user", content: prompt }], { stream: true, maxTurns: 50 });
  await stream.completed;
  if (stream.error) throw stream.error;
  history = stream.history;
  return stream.finalOutput;
});
