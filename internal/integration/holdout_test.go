// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// TestHoldout: some sessions pass as the client wrote them, and stay in the control group after a reload; the others are
// edited. Responses and records tell the group, and the report compares both.
func TestHoldout(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	site := strings.Replace(plain(u), "llm_cache", "llm_cache {\n policy eager\n holdout 40%\n}", 1)
	p.audited(site, sqliteAt(path, ""))
	const sessions = 30
	group := map[string]bool{} // whether each session is held out
	send := func() {
		for i := range sessions {
			name, body := fmt.Sprint("s", i), conversation(12, false)
			r := p.post("/v1/messages", body, "X-Session-Id", name)
			holdout, policy := r.Header.Get("X-Llm-Cache-Holdout") == "1", r.Header.Get("X-Llm-Cache-Policy")
			read(t, r)
			if before, known := group[name]; known && before != holdout {
				t.Errorf("%s changed its group", name)
			}
			group[name] = holdout
			if same := u.last().body == body; same != holdout || (policy == "observe") != holdout {
				t.Errorf("%s: got %s, the client's bytes %t, want observe and these bytes if and only if it is held out (%t)",
					name, policy, same, holdout)
			}
		}
	}
	send()
	p.audited(site, sqliteAt(path, `,"batch":1`))
	send()
	control := 0
	for _, out := range group {
		if out {
			control++
		}
	}
	if control < 2 || control > 26 {
		t.Fatalf("got %d of %d sessions held out, want about 12", control, sessions)
	}
	for _, r := range turns(t, path, 2*sessions) {
		if r.Holdout != (r.Policy == "observe") {
			t.Errorf("got holdout %t under %s", r.Holdout, r.Policy)
		}
	}
	from, err := audit.ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	period, err := audit.Read(t.Context(), from, time.Time{}, time.Now(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := period.Holdout; h == nil || h.Control != control || h.Edited == 0 {
		t.Errorf("got %+v, want %d sessions in the control group", h, control)
	}
}
