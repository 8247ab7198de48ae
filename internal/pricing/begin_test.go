// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// long is a conversation of about 1,500 blocks and 600 KB.
func long() string {
	var b strings.Builder
	b.WriteString(`{"model":"m","system":"rules","messages":[{"role":"user","content":"go"}`)
	for i := range 500 {
		m := ""
		if i == 499 {
			m = mark("5m")
		}
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"%d%s"},{"type":"tool_use",`+
				`"id":"t%d","name":"r","input":{"path":"/a/b/%d"}}]}`,
			i, strings.Repeat("s", 200), i, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s"%s}]}`,
			i, strings.Repeat(`line of a file\n`, 46), m)
	}
	return b.String() + "]}"
}

func BenchmarkBegin(b *testing.B) {
	body := long()
	for _, name := range Profiles() {
		b.Run(name, func(b *testing.B) {
			p, _ := ProfileByName(name)
			v := parse(b, wire.Anthropic, body)
			sim := NewSimulator(p.Config())
			b.ReportMetric(float64(len(v.Blocks)), "blocks")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for i := range b.N {
				run, err := sim.Begin(Call{View: v, At: start.Add(time.Duration(i) * time.Second)})
				if err != nil {
					b.Fatal(err)
				}
				run.FirstByte(start.Add(time.Duration(i) * time.Second))
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		Lookup("anthropic", "claude-sonnet-4-5-20250929", today)
	}
}

// FuzzBegin looks for requests that make the simulator panic or bill tokens that
// are not there.
func FuzzBegin(f *testing.F) {
	f.Add(uint8(0), texts(1, 9, at(2, 9)), int64(60))
	f.Add(uint8(2), ask(hi+assistant("["+think+","+use+"]")+","+user("["+result+"]"), manual), int64(0))
	f.Add(uint8(3), ask(hi+assistant("["+think+","+use+"]")+","+
		user("["+result+`,{"type":"image","cache_control":{"ttl":"1h"}}]`),
		`,"thinking":{"block_binding":{"prefix_mismatch_behavior":"drop_block"}},"cache_control":{}`), int64(400))
	f.Add(uint8(4), chat("gpt-6.1-sol", 3, `,"prompt_cache_options":{"mode":"explicit"}`), int64(1))
	f.Add(uint8(5), chat("q", 3, `,"tools":[{"type":"function","function":{"name":"x"},"cache_control":7}]`), int64(-5))
	f.Add(uint8(1),
		`{"messages":[{"role":"user"},{"role":"assistant","content":[]},{"role":"system","content":null}],`+
			`"tools":[{"defer_loading":true,"cache_control":{}}]}`, int64(9))
	f.Add(uint8(5), contents(3, `,"systemInstruction":{"parts":{"text":"s"}}`), int64(3))
	names := Profiles()
	f.Fuzz(func(t *testing.T, profile uint8, body string, later int64) {
		p, _ := ProfileByName(names[int(profile)%len(names)])
		r := p.Rules()
		r.MinTokens = 1
		r.KeepsThinking = profile < 128
		for _, format := range []wire.Format{wire.Anthropic, wire.OpenAIChat, wire.Gemini} {
			v, err := wire.Parse(format, []byte(body), nil)
			if err != nil {
				continue
			}
			sim := NewSimulator(SimulatorConfig{Rules: func(string, time.Time) Rules { return r }})
			for _, when := range []time.Time{start, start.Add(time.Duration(later) * time.Second)} {
				run, refused := sim.Begin(Call{View: v, Client: v, At: when})
				if refused != nil {
					if refused.Message == "" {
						t.Error("refused without a word")
					}
					return
				}
				u := run.Usage()
				if n := sim.Count(v); u.Prompt() > n || len(run.Dropped()) == 0 && u.Prompt() != n {
					t.Errorf("%+v of %d tokens", u, n)
				}
				if u.Read < 0 || u.Write5m < 0 || u.Write1h < 0 || u.Uncached < 0 || r.Cost(u) < 0 {
					t.Errorf("%+v", u)
				}
				run.FirstByte(when)
			}
		}
	})
}
