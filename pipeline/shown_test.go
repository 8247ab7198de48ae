// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// shown is a conversation of commands with their output.
func shown(t *testing.T, outputs ...string) *wire.View {
	t.Helper()
	messages := []string{`{"role":"user","content":"go on"}`}
	for i, o := range outputs {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages,
			fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"bash","input":{"command":"make `+
				`%d"}}]}`, i, i),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, i, text))
	}
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","tools":[{"name":"bash"}],"messages":[`+
		strings.Join(messages, ",")+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func fiveMinutes(string, time.Time) pricing.Rules {
	return pricing.Rules{
		Regime: pricing.Markers, Markers: 4, LookBack: 20, Write: 1.25, Read: 0.1, TTL: 5 * time.Minute,
		MinTokens: 1024,
	}
}

func source(from, to int) string {
	var s strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&s, "\tresult = append(result, compute(%d))\n", i)
	}
	return s.String()
}

// Lines repeated by later blocks are found in the earlier ones, whatever command has shown them.
func TestShownAgain(t *testing.T) {
	m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := New(Options{Policy: Observe}, fiveMinutes)
	x := p.Begin(shown(t, source(0, 200), source(1000, 1200), "git diff\n+"+strings.ReplaceAll(source(0, 200), "\n",
		"\n+")), m.Acquire(t.Context(), sessioncache.Key{ID: "a"}), time.Unix(0, 0))
	defer x.Abandon()
	var got []string
	for i := range x.History().States {
		if s := &x.History().States[i]; s.Trait != "" {
			got = append(got, fmt.Sprintf("%t %t %d", s.Sampled > 20, 8*int(s.Again) >= 7*int(s.Sampled), s.Source))
		}
	}
	if want := "true true 15, true false 15, true false 15"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
}
