// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// TestCustomInput checks that a free-text tool gets its text from every form that models write.
func TestCustomInput(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"*** Begin"}`:            `"*** Begin"`,
		`{"input":"*** Begin","note":"x"}`: `"*** Begin"`,
		`{"patch":"*** Begin\n\"q\""}`:     `"*** Begin\n\"q\""`,
		`"*** Begin"`:                      `"*** Begin"`,
		`*** Begin`:                        `"*** Begin"`,
		`{"a":"x","b":"y"}`:                `"{\"a\":\"x\",\"b\":\"y\"}"`,
		`{"a":1}`:                          `"{\"a\":1}"`,
		`{}`:                               `"{}"`,

		`{"command":["apply_patch","*** Begin"]}`: `"*** Begin"`,
		`["apply_patch","*** Begin"]`:             `"*** Begin"`,
		`["x"]`:                                   `"[\"x\"]"`,
		`{"workdir":"/w","patch":"*** Begin Patch\n","n":1}`:           `"*** Begin Patch\n"`,
		`{"command":["apply_patch","*** Begin Patch"],"timeout_ms":1}`: `"*** Begin Patch"`,
		`{"input":"{\"input\":\"*** Begin Patch\\n\"}"}`:               `"*** Begin Patch\n"`,
		`"{\"patch\":\"*** Begin Patch\"}"`:                            `"*** Begin Patch"`,
		`{"input":{"patch":"*** Begin Patch"}}`:                        `"*** Begin Patch"`,
		`{"input":"{\"a\":\"x\"}"}`:                                    `"{\"a\":\"x\"}"`,
		`{"input":{"a":"x"}}`:                                          `"{\"input\":{\"a\":\"x\"}}"`,
		`{"command":["ls","-l"]}`:                                      `"{\"command\":[\"ls\",\"-l\"]}"`,
		`[1,"x"]`:                                                      `"[1,\"x\"]"`,
		`{"a":[["x"]]}`:                                                `"{\"a\":[[\"x\"]]}"`,
		`[]`:                                                           `"[]"`,
		`{"a":[]}`:                                                     `"{\"a\":[]}"`,
	} {
		if got := string(openai.AppendCustomInput(nil, string(rawjson.Escaped(arguments)))); got != want {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}
