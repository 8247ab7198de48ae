// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// The savings of pings by the handler's account equal those of the replay.
func TestKeepAliveAccount(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"agent":"pi","session":"s","prompt_fit":{"overhead_tokens":30000}}` + "\n")
	at := 0.0
	for i, pause := range []float64{0, 10, 20, 20, 400, 20, 900, 90000, 30} {
		at += pause
		said := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"prompt %d"}]}`, i)
		if i > 0 {
			said = `{"role":"assistant","content":[{"type":"tool_use","id":"t` + fmt.Sprint(i) +
				`","name":"Bash","input":{"command":"make"}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t` + fmt.Sprint(i) + `","content":"done"}]}`
		}
		fmt.Fprintf(&b, `{"t":%g,"messages":[%s]}`+"\n", at, said)
	}
	file := filepath.Join(t.TempDir(), "pi-s-p1.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	conversations, err := recording.Find(file)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), conversations, Options{
		Policies: []pipeline.Policy{pipeline.Observe}, KeepAlive: true, Handler: []byte(`{"keepalive":{"max_loss":10}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &report.Runs[0].Total
	if r.Pings == 0 || r.PingSaved == 0 {
		t.Fatalf("%d pings saved %.0f", r.Pings, r.PingSaved)
	}
	if saved := r.BaseCost - r.Cost; math.Abs(saved-(r.PingSaved-r.PingCost)) > 1 {
		t.Errorf("the replay finds %.0f saved, the pings' account says %.0f", saved, r.PingSaved-r.PingCost)
	}
	sum := 0.0
	for _, p := range report.Runs[0].Conversations[0].PingList {
		if !p.Tail {
			sum += p.Net
		}
	}
	if math.Abs(sum-(r.PingSaved-r.PingCost)) > 1 {
		t.Errorf("the single pings sum up to %.0f, all to %.0f", sum, r.PingSaved-r.PingCost)
	}
}

// The text report has a line for each conversation with pings, and their sum.
func TestKeepAliveText(t *testing.T) {
	one := Result{
		Conversation: "a", BaseCost: 1000, Cost: 900, Pings: 2, PingCost: 10_000, PingSaved: 30_000,
		TailPings: 1, TailCost: 4_000,
	}
	two := one
	two.Conversation, two.Pings, two.PingSaved = "b", 3, 5_000
	run := Combination{Total: Result{Conversation: "total"}}
	for _, r := range []Result{one, two, {Conversation: "without", BaseCost: 1000, Cost: 1000}} {
		run.add(r)
	}
	var b strings.Builder
	run.writePings(&b)
	rows := map[string]string{}
	for line := range strings.Lines(b.String()) {
		if f := strings.Fields(line); len(f) == 7 {
			rows[f[0]] = strings.Join(f[1:], " ")
		}
	}
	want := map[string]string{
		"a": "2 10.0k 30.0k 20.0k 1 4.0k", "b": "3 10.0k 5.0k -5.0k 1 4.0k",
		"total": "5 20.0k 35.0k 15.0k 2 8.0k",
	}
	if !maps.Equal(rows, want) {
		t.Errorf("got\n%s\nwant %v", b.String(), want)
	}
}
