// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The Anthropic SDK, streamed, the history kept by the program.
import Anthropic from "@anthropic-ai/sdk";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const tools = list((name, t) => ({ name, description: t.description, input_schema: t.parameters }));
const messages = [];

await main(async (prompt) => {
  messages.push({ role: "user", content: prompt });
  for (;;) {
    const stream = client.messages.stream({
      model: "claude-sonnet-4-5", max_tokens: 8000, thinking: { type: "enabled", budget_tokens: 4000 },
      system: [{ type: "text", text: system, cache_control: { type: "ephemeral" } }], tools, messages,
    });
    const message = await stream.finalMessage();
    messages.push({ role: "assistant", content: message.content });
    const calls = message.content.filter((b) => b.type === "tool_use");
    if (!calls.length) return message.content.find((b) => b.type === "text").text;
    messages.push({ role: "user", content: calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: run(c.name, c.input) })) });
  }
});
