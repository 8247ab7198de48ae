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

// TestServerEdit: where the provider has cut the history itself, as the client asked it
// to, the record and the report name that as the cause of what was not found.
func TestServerEdit(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		answer := strings.NewReplacer(":1234,", ":9000,", ":40,", ":1000,").Replace(message)
		if n > 1 {
			answer = strings.NewReplacer(":1234,", ":0,", ":40,", ":10000,").Replace(message)
			answer = strings.TrimSuffix(answer, "}") +
				`,"context_management":{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":4,` +
				`"cleared_input_tokens":6000}]}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(plain(u), sqliteAt(path, ""))
	managed := `"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"messages":[`
	for turn := range 3 {
		read(t, p.post("/v1/messages", strings.Replace(conversation(12+turn, false), `"messages":[`, managed, 1)))
	}
	// The second cut is that of the first: what is missing behind it is another matter.
	for i, want := range []string{"", "server_edit", "unknown"} {
		if r := turns(t, path, 3)[i]; r.Break != want || r.Cost != r.ClientCost && want == "server_edit" {
			t.Errorf("turn %d: %+v", i, r)
		}
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
	var out bytes.Buffer
	if err := s.WriteJSON(&out); err != nil || !strings.Contains(out.String(), `"server_edit"`) {
		t.Errorf("the report (%v):\n%s", err, out.String())
	}
}
