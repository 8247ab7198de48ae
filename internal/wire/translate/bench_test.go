// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// longBody returns a request of Claude Code's shape of at least size bytes.
func longBody(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"claude-opus-4-6","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},` +
		`"system":[{"type":"text","text":"x-anthropic-billing-header: x;"},{"type":"text","text":"You are careful.",` +
		`"cache_control":{"type":"ephemeral"}}],"tools":[` + anthropicTool + `],"messages":[{"role":"user","content":"go"}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"Let me see.\nYes.","signature":"%0400d"},`+
				`{"type":"text","text":"Let me look."},{"type":"tool_use","id":"toolu_%d","name":"f",`+
				`"input":{"file_path":"/x/%d","old":"a \"b\"\n\tc"}}]},{"role":"user","content":[{"type":"tool_result",`+
				`"tool_use_id":"toolu_%d","content":"%s"}]}`,
			i, i, i, i, strings.Repeat(`     1→\tfunc main() { fmt.Println(\"hello\") }\n`, 40))
	}
	return []byte(b.String() + `]}`)
}

func BenchmarkConvert(b *testing.B) {
	for _, from := range translate.Formats() {
		in := translate.Incoming{Body: longBody(200 << 10), Path: "/v1/messages"}
		if from != wire.Anthropic {
			out, err := translate.Convert(wire.Anthropic, from, in, translate.Options{})
			if err != nil {
				b.Fatal(err)
			}
			in = translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}
		}
		for _, to := range translate.Formats() {
			if from == to {
				continue
			}
			b.Run(string(from)+"/"+string(to), func(b *testing.B) {
				b.SetBytes(int64(len(in.Body)))
				b.ReportAllocs()
				for b.Loop() {
					out, err := translate.Convert(from, to, in, translate.Options{})
					if err != nil {
						b.Fatal(err)
					}
					reuse.Recycle(out.Body.Raw)
				}
			})
		}
	}
}

// BenchmarkConvertTurns converts requests whose earlier turns are known.
func BenchmarkConvertTurns(b *testing.B) {
	for _, size := range []int{200 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KB"), func(b *testing.B) {
			in := translate.Incoming{Body: longBody(size), Path: "/v1/messages", Remember: true}
			b.ReportAllocs()
			for b.Loop() {
				out, err := translate.Convert(wire.Anthropic, wire.OpenAIChat, in, translate.Options{})
				if err != nil {
					b.Fatal(err)
				}
				in.Turns = out.Turns
				reuse.Recycle(out.Body.Raw)
			}
		})
	}
}

// BenchmarkConvertGrowing converts the next request of a growing conversation of about 200 KB, a sixth of it tools.
func BenchmarkConvertGrowing(b *testing.B) {
	var tools, messages strings.Builder
	for i := range 17 {
		fmt.Fprintf(&tools, `,{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":{"type":"object",`+
			`"properties":{"path":{"type":"string"}},"required":["path"]}}}`, i, strings.Repeat("what the tool does ", 100))
	}
	messages.WriteString(`{"model":"m","messages":[{"role":"system","content":"You are an agent."},` +
		`{"role":"user","content":"Find out why the build fails."}`)
	var bodies [][]byte
	for i := 0; len(bodies) < 32; i++ {
		fmt.Fprintf(&messages, `,{"role":"assistant","content":"Reading on.","tool_calls":[{"id":"call_%d","type":"function",`+
			`"function":{"name":"tool_0","arguments":"{\"path\":\"src/file_%d.go\"}"}}]},{"role":"tool",`+
			`"tool_call_id":"call_%d","content":"%s"}`, i, i, i, strings.Repeat(`a line of a file\n`, 60+i%5*80))
		if messages.Len() >= 160<<10 {
			bodies = append(bodies, []byte(messages.String()+`],"tools":[`+tools.String()[1:]+`],"stream":true}`))
		}
	}
	b.ReportAllocs()
	var turns *translate.Turns
	for i := 0; b.Loop(); i++ {
		if i %= len(bodies); i == 0 {
			turns = nil
			b.StopTimer()
		}
		out, err := translate.Convert(wire.OpenAIChat, wire.Anthropic, translate.Incoming{
			Body: bodies[i], Path: "/v1/chat/completions", Turns: turns, Remember: true,
		}, translate.Options{Official: true})
		if err != nil || out.Turns == nil {
			b.Fatal(out, err)
		}
		turns = out.Turns
		reuse.Recycle(out.Body.Raw)
		if i == 0 {
			b.StartTimer()
		}
	}
}
