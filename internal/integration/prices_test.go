// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	summary "github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
)

// TestPrices: what turns cost is counted by the prices of a file, a model that has none is
// named by the report, and a file that cannot be read is refused with the line.
func TestPrices(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	folder := t.TempDir()
	record, prices := filepath.Join(folder, "audit.db"), filepath.Join(folder, "prices.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(prices, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const ours = `{"vendors": {"anthropic": {"families": {"claude-opus": {"claude-opus-4-6": {
"prices": [{"input": %s, "output": 50, "write": 12.5, "write_long": 20, "read": 1}]}}}}}}`
	write(fmt.Sprintf(ours, "10"))
	p := start(t, "respond 204")
	p.move()
	with := fmt.Sprintf(`"llm_cache":{"prices":%q,`, prices)
	cfg := []byte(strings.Replace(string(p.auditing(plain(u), sqliteAt(record, ""))), `"llm_cache":{`, with, 1))
	p.load(cfg)
	body := conversation(2, false)
	read(t, p.post("/v1/messages", body))
	read(t, p.post("/v1/messages", strings.Replace(body, "claude-opus-4-6", "claude-opus-9", 1)))
	for _, r := range turns(t, record, 2) {
		// (3 + 40·1.25 + 1234·0.1 + 5·5) at 10 dollars a million, twice the list price; and
		// with the reads of Opus 5.5, its sibling, at 0.05, and the price of Opus 4.1, the dearest.
		want := map[string]float64{"claude-opus-4-6": 201.4 * 10 / 1e6, "claude-opus-9": 139.7 * 15 / 1e6}[r.Model]
		if d := r.USD - want; d > 1e-12 || d < -1e-12 {
			t.Errorf("%s costs %v, not %v", r.Model, r.USD, want)
		}
	}
	from, err := audit.ReadSQLite(record)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	s, err := summary.Summarise(t.Context(), from, time.Time{}, "user")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil ||
		!strings.Contains(text.String(),
			"stand in: claude-opus-9 assumed from claude-opus-5-5 charged as claude-opus-4-1 (1 turn, $0.00)") {
		t.Errorf("the report (%v):\n%s", err, text.String())
	}

	write(fmt.Sprintf(ours, `"ten"`))
	var c caddy.Config
	if err := json.Unmarshal(cfg, &c); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&c); err == nil ||
		!strings.Contains(err.Error(), prices+
			": vendors: anthropic: families: claude-opus: claude-opus-4-6: prices.input: string is not a float64") {
		t.Errorf("a bad file: %v", err)
	}
}
