// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Vercel's AI SDK with one of its providers.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { key, list, main, run, system, url } from "./tools.mjs";

const model = {
  anthropic: () => createAnthropic({ baseURL: url + "/v1", apiKey: key })("claude-sonnet-4-5"),
  chat: () => createOpenAI({ baseURL: url + "/v1", apiKey: key }).chat("gpt-4.1"),
  responses: () => createOpenAI({ baseURL: url + "/v1", apiKey: key }).responses("gpt-5"),
  compatible: () => createOpenAICompatible({ name: "box", baseURL: url + "/v1", apiKey: key })("qwen3-coder"),
  gemini: () => createGoogleGenerativeAI({ baseURL: url + "/v1beta", apiKey: key })("gemini-3.1-pro-preview"),
}[process.env.API]();
const tools = Object.fromEntries(
  list((name, t) => [name, tool({ description: t.description, inputSchema: jsonSchema(t.parameters), execute: (input) => run(name, input) })]),
);
const messages = [];

await main(async (prompt) => {
  messages.push({ role: "user", content: prompt });
  let failure;
  const result = streamText({
    model, instructions: system, tools, messages, stopWhen: stepCountIs(50), maxRetries: 0, providerOptions: { openai: { store: false } },
    onError: ({ error }) => { failure = error; },
  });
  const { messages: said } = await result.response.catch((e) => { throw failure ?? e; });
  messages.push(...((await result.responseMessages) ?? said));
  if (failure) throw failure;
  return await result.text;
});
