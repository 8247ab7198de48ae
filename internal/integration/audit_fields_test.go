// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// TestAuditDecisions: a record tells what was done to the request and why, and
// what became of the cache.
func TestAuditDecisions(t *testing.T) {
	t.Parallel()
	refuse := false
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch {
		case refuse:
			refuse = false
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "tool_use ids were found without tool_result blocks")
		default:
			read, write := "9000", "1000"
			if r.Header.Get("X-Do") == "lost" {
				read, write = "0", "10000"
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.NewReplacer(":1234,", ":"+read+",", ":40,", ":"+write+",").Replace(message))
		}
	})
	p := start(t, "respond 204")
	// files of two kilobytes are folded
	bold := strings.Replace(plain(u), "llm_cache", "llm_cache {\n planner {\n risk 100\n }\n}", 1)
	path := filepath.Join(t.TempDir(), "audit.db")
	n := 0
	ask := func(site, do, body string) audit.Record {
		t.Helper()
		p.audited(site, sqliteAt(path, ""))
		body = strings.Replace(body, `"messages":[`,
			`"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[`, 1)
		read(t, p.post("/v1/messages", body, "X-Do", do, "X-Session-Id", strconv.Itoa(len(site))))
		n++
		all := turns(t, path, n)
		return all[len(all)-1]
	}

	first := ask(bold, "", conversation(12, false))
	if len(first.Edits) > 0 && first.Edits[0].Stage != "breakpoints" || first.Epoch != "none" || first.Break != "" ||
		first.Conversation != 0 || first.Queue <= 0 || first.Policy != "cost_aware" {
		t.Errorf("first: %+v", first)
	}
	lost := ask(bold, "lost", conversation(13, false))
	if lost.Break != "unknown" {
		t.Errorf("what was cached is gone: %+v", lost)
	}
	other := ask(bold, "", strings.Replace(conversation(14, false), "claude-opus-4-6", "claude-opus-4-5", 1))
	if other.Epoch != "model" || other.Folded == 0 || other.Removed == 0 || other.SentTokens >= other.OriginalTokens ||
		len(other.Edits) == 0 {
		t.Errorf("another model: %+v", other)
	}
	if other.ClientBilled == other.Billed || other.ClientCost == other.Cost {
		t.Errorf("the client's own bytes would have cost the same: %+v", other)
	}

	edited := ask(eager(u), "", conversation(9, false))
	if len(edited.Edits) == 0 || edited.Edits[0].Count == 0 || edited.SentTokens >= edited.OriginalTokens ||
		edited.Policy != "eager" {
		t.Errorf("eager: %+v", edited)
	}
	refuse = true
	resent := ask(eager(u), "", strings.Replace(conversation(9, false), "Fix the build.", "Mend it.", 1))
	if !resent.Resent || resent.SentTokens != resent.OriginalTokens || resent.Outcome != audit.Completed ||
		resent.Conversation == edited.Conversation {
		t.Errorf("resent: %+v", resent)
	}
}
