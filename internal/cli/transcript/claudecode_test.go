// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"slices"
	"strings"
	"testing"
)

func claude(kind, uuid, parent, more, content string) string {
	return `{"type":"` + kind + `","sessionId":"s","uuid":"` + uuid + `","parentUuid":"` + parent +
		`","timestamp":"2026-01-01T00:00:0` + uuid[:1] + `Z"` + more +
		`,"message":{"role":"` + kind + `","model":"claude-opus-4-6","id":"m` + uuid + `","content":` + content +
		`,"usage":{"input_tokens":10}}}`
}

func TestClaudeCode(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  []string // for each part of each session
	}{
		{"the result of the first call stands before the second call", []string{
			claude("user", "1", "", "", `"go"`),
			strings.Replace(claude("assistant", "2", "1", "", `[{"type":"tool_use","id":"a","name":"R","input":{}}]`),
				`"m2"`, `"m"`, 1),
			claude("user", "3", "2", "", `[{"type":"tool_result","tool_use_id":"a","content":"x"}]`),
			strings.Replace(claude("assistant", "4", "2", "", `[{"type":"tool_use","id":"b","name":"R","input":{}}]`),
				`"m4"`, `"m"`, 1),
			claude("user", "5", "4", "", `[{"type":"tool_result","tool_use_id":"b","content":"x"}]`),
			claude("assistant", "6", "5", "", `[{"type":"text","text":"done"}]`),
		}, []string{"go | tool_usea tool_useb =a =b"}},
		{"compaction", []string{
			claude("user", "1", "", "", `"go"`),
			claude("assistant", "2", "1", "", `[{"type":"text","text":"yes"}]`),
			`{"type":"system","subtype":"compact_boundary","sessionId":"s","uuid":"3","parentUuid":null,` +
				`"timestamp":"2026-01-01T00:00:03Z"}`,
			claude("user", "4", "3", `,"isCompactSummary":true`, `"summary"`),
			claude("assistant", "5", "4", "", `[{"type":"text","text":"on"}]`),
		}, []string{"go", "summary"}},
		{"rewound: the prompt goes on from an earlier answer", []string{
			claude("user", "1", "", "", `"go"`),
			claude("assistant", "2", "1", "", `[{"type":"text","text":"yes"}]`),
			claude("user", "3", "2", "", `"wrong"`),
			claude("assistant", "4", "3", "", `[{"type":"text","text":"no"}]`),
			claude("user", "5", "2", "", `"right"`),
			claude("assistant", "6", "5", "", `[{"type":"text","text":"good"}]`),
		}, []string{"go | yes wrong", "go yes right"}},
		{"a sub-agent has a conversation of its own", []string{
			claude("user", "1", "", "", `"go"`),
			claude("user", "2", "", `,"isSidechain":true`, `"search"`),
			claude("assistant", "3", "2", `,"isSidechain":true`, `[{"type":"text","text":"found"}]`),
			claude("assistant", "4", "1", "", `[{"type":"text","text":"done"}]`),
		}, []string{"go", "search"}},
		{"what failed, is unknown, or was cut off is passed over", []string{
			claude("user", "1", "", "", `"go"`),
			claude("assistant", "2", "1", `,"isApiErrorMessage":true`, `[{"type":"text","text":"API Error"}]`),
			`{"type":"news","sessionId":"s"}`,
			claude("assistant", "3", "1", "", `[{"type":"thinking","thinking":"hm"},{"type":"text","text":"yes"}]`),
			claude("user", "4", "3", "", `"more"`)[:60],
		}, []string{"go"}},
		{"a call without a result, thinking without an answer", []string{
			claude("user", "1", "", "", `"go"`),
			claude("assistant", "2", "1", "", `[{"type":"tool_use","id":"a","name":"R","input":{}}]`),
			claude("user", "3", "2", "", `"stop"`),
			claude("assistant", "4", "3", "", `[{"type":"thinking","thinking":"hm"}]`),
			claude("user", "5", "4", "", `"well?"`),
			claude("assistant", "6", "5", "", `[{"type":"text","text":"yes"}]`),
		}, []string{"go | tool_usea =a stop | (no text) well?"}},
		{"a fork does not ask again what the other one has asked", []string{
			claude("user", "1", "", `,"forkedFrom":{}`, `"go"`),
			claude("assistant", "2", "1", `,"forkedFrom":{}`, `[{"type":"text","text":"yes"}]`),
			claude("user", "3", "2", "", `"on"`),
			claude("assistant", "4", "3", "", `[{"type":"text","text":"good"}]`),
		}, []string{"go yes on"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range file(t, c.lines...) {
				for _, p := range s.Parts {
					got = append(got, saidIn(p))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
