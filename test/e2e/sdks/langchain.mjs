// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// LangChain with one of its chat models.
import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { ChatGoogleGenerativeAI } from "@langchain/google-genai";
import { ChatOpenAI } from "@langchain/openai";
import { key, list, main, run, system, url } from "./tools.mjs";

const model = {
  anthropic: () => new ChatAnthropic({ model: "claude-sonnet-4-5", apiKey: key, anthropicApiUrl: url, maxTokens: 8000, maxRetries: 0 }),
  chat: () => new ChatOpenAI({ model: "gpt-4.1", apiKey: key, maxRetries: 0, configuration: { baseURL: url + "/v1" } }),
  responses: () => new ChatOpenAI({ model: "gpt-5", apiKey: key, maxRetries: 0, useResponsesApi: true, zdrEnabled: true, configuration: { baseURL: url + "/v1" } }),
  gemini: () => new ChatGoogleGenerativeAI({ model: "gemini-2.5-pro", apiKey: key, baseUrl: url, maxRetries: 0 }),
}[process.env.API]();
const bound = model.bindTools(list((name, t) => ({ type: "function", function: { name, description: t.description, parameters: t.parameters } })));
const messages = [new SystemMessage(system)];

await main(async (prompt) => {
  messages.push(new HumanMessage(prompt));
  for (;;) {
    let message;
    for await (const chunk of await bound.stream(messages)) message = message ? message.concat(chunk) : chunk;
    messages.push(message);
    if (!message.tool_calls?.length) return message.text;
    for (const c of message.tool_calls) messages.push(new ToolMessage({ tool_call_id: c.id, name: c.name, content: run(c.name, c.args) }));
  }
});
