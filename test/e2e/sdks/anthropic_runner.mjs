// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The Anthropic SDK's own loop over tools, as it is by default: it keeps the
// conversation in a thread at the server.
import Anthropic from "@anthropic-ai/sdk";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const tools = list((name, t) => ({ name, description: t.description, input_schema: t.parameters, run: (input) => run(name, input), parse: (input) => input }));
let messages = [];

await main(async (prompt) => {
  messages.push({ role: "user", content: prompt });
  const runner = client.beta.messages.toolRunner({
    model: "claude-sonnet-4-5", max_tokens: 8000, system: [{ type: "text", text: system, cache_control: { type: "ephemeral" } }],
    tools, messages, stream: process.env.STREAM === "1",
  });
  const message = await runner.runUntilDone();
  messages = [...runner.params.messages];
  if (messages.at(-1).role !== "assistant") messages.push({ role: "assistant", content: message.content });
  return message.content.find((b) => b.type === "text").text;
});
