// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
