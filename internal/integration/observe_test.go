// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	summary "github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
)

// TestObserveDollars: under observe everything goes out as it came, and the record, the
// report, the metrics and the session say in dollars what would have been saved.
func TestObserveDollars(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.NewReplacer(":1234,", ":9000,", ":40,", ":1000,").Replace(message))
	})
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(strings.Replace(plain(u), "llm_cache", "llm_cache {\n policy observe\n planner {\n risk 100\n }\n}", 1),
		sqliteAt(path, ""))
	before := p.metric(`caddy_llm_cache_cost_usd_total{kind="would"}`)
	actually := p.metric(`caddy_llm_cache_cost_usd_total{kind="actual"}`)
	for n := 12; n < 16; n++ {
		body := strings.Replace(conversation(n, false), `"messages":[`,
			`"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[`, 1)
		if n > 13 { // which is when history is folded
			body = strings.Replace(body, "claude-opus-4-6", "claude-opus-4-5", 1)
		}
		read(t, p.post("/v1/messages", body, "X-Session-Id", "s"))
		if got := u.last().body; got != body {
			t.Fatalf("sent %d bytes, not the client's %d", len(got), len(body))
		}
	}
	all := turns(t, path, 4)
	var would float64
	for i, r := range all {
		if r.USD != r.ClientUSD || r.USD == 0 || (r.WouldSaveUSD != 0) != (r.WouldSave != 0) {
			t.Errorf("turn %d: %+v", i, r)
		}
		would += r.WouldSaveUSD
	}
	if all[2].Folded == 0 || all[2].WouldSaveUSD <= 0 || all[3].WouldSaveUSD <= 0 {
		t.Errorf("a fold would have saved $%f, and $%f after it: %+v", all[2].WouldSaveUSD, all[3].WouldSaveUSD, all[2])
	}
	from, err := audit.ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	s, err := summary.Summarise(t.Context(), from, time.Time{}, "user")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil || !strings.Contains(text.String(), "would save") ||
		s.Total.WouldSaveUSD != would {
		t.Errorf("the report has %f of %f (%v):\n%s", s.Total.WouldSaveUSD, would, err, text.String())
	}
	saved := p.metric(`caddy_llm_cache_cost_usd_total{kind="actual"}`) - actually - (p.metric(`caddy_llm_cache_cost_usd_total{kind="would"}`) - before)
	if saved < 0.99*would || saved > 1.01*would {
		t.Errorf("the metrics say $%f would have been saved, not $%f", saved, would)
	}
}
