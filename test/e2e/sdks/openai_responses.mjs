// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The OpenAI SDK with Responses, streamed, nothing stored at the server.
import OpenAI from "openai";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0 });
const tools = list((name, { description, parameters }) => ({ type: "function", name, description, parameters, strict: false }));
const input = [];

await main(async (prompt) => {
  input.push({ role: "user", content: prompt });
  for (;;) {
    const stream = client.responses.stream({ model: "gpt-5", instructions: system, input, tools, store: false, include: ["reasoning.encrypted_content"] });
    const response = await stream.finalResponse();
    input.push(...response.output);
    const calls = response.output.filter((o) => o.type === "function_call");
    if (!calls.length) return response.output_text;
    for (const c of calls) input.push({ type: "function_call_output", call_id: c.call_id, output: run(c.name, JSON.parse(c.arguments)) });
  }
});
