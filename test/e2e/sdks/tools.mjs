// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// The tools of the programs, and what runs them: the same for every SDK.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const text = (description) => ({ type: "string", description });
const object = (properties) => ({ type: "object", properties, required: Object.keys(properties), additionalProperties: false });

/** tools by name: what they are for, their arguments, and what they do. */
export const tools = {
  bash: {
    description: "Runs a command in a shell and returns what it printed.",
    parameters: object({ command: text("The command") }),
    run({ command }) {
      try {
        return execFileSync("sh", ["-c", command], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }) || "(nothing)";
      } catch (e) {
        return `exit ${e.status}\n${e.stderr}`;
      }
    },
  },
  read: {
    description: "Returns the text of a file.",
    parameters: object({ path: text("The path of the file") }),
    run: ({ path }) => readFileSync(path, "utf8"),
  },
  edit: {
    description: "Replaces the first occurrence of a text in a file.",
    parameters: object({ path: text("The path of the file"), from: text("The text"), to: text("What takes its place") }),
    run({ path, from, to }) {
      writeFileSync(path, readFileSync(path, "utf8").replace(from, () => to));
      return "done";
    },
  },
  write: {
    description: "Writes a text into a file.",
    parameters: object({ path: text("The path of the file"), text: text("The text") }),
    run({ path, text }) {
      writeFileSync(path, text);
      return "done";
    },
  },
};

/** run runs a tool. What models make up is refused. */
export function run(name, input) {
  if (!tools[name]) throw new Error(`no tool ${name}`);
  return tools[name].run(input);
}

/** list makes of each tool what an SDK wants. */
export const list = (make) => Object.entries(tools).map(([name, t]) => make(name, t));

export const system = "You are an agent that works on a repository. " + "Read before you write, and keep changes small. ".repeat(400);
export const url = process.env.BASE_URL;
export const key = "sk-test";

/** main asks for one prompt after another and prints what the model said last to each. */
export async function main(ask) {
  for (const prompt of process.argv.slice(2)) {
    console.log(JSON.stringify({ text: await ask(prompt) }));
  }
}
