// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The Gen AI SDK's chats, which keep every chunk as a content of its own.
import { GoogleGenAI } from "@google/genai";
import { key, list, main, run, system, url } from "./tools.mjs";

const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } });
const functionDeclarations = list((name, { description, parameters }) => ({ name, description, parametersJsonSchema: parameters }));
const chat = client.chats.create({
  model: "gemini-3.1-pro-preview", config: { systemInstruction: system, tools: [{ functionDeclarations }], thinkingConfig: { includeThoughts: true } },
});

await main(async (prompt) => {
  let message = prompt;
  for (;;) {
    let text = "";
    const calls = [];
    for await (const chunk of await chat.sendMessageStream({ message })) {
      for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
        if (part.functionCall) calls.push(part.functionCall);
        else if (part.text && !part.thought) text += part.text;
      }
    }
    if (!calls.length) return text;
    message = calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: { output: run(c.name, c.args) } } }));
  }
});
