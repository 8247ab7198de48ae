// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The OpenAI SDK with chat completions, streamed.
import OpenAI from "openai";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0 });
const tools = list((name, { description, parameters }) => ({ type: "function", function: { name, description, parameters } }));
const messages = [{ role: "system", content: system }];

await main(async (prompt) => {
  messages.push({ role: "user", content: prompt });
  for (;;) {
    const stream = client.chat.completions.stream({ model: "gpt-4.1", messages, tools, stream_options: { include_usage: true } });
    const { message } = (await stream.finalChatCompletion()).choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const c of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: c.id, content: run(c.function.name, JSON.parse(c.function.arguments)) });
    }
  }
});
