// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	summary "github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
)

// TestPeople: one key in any header is one person on record, who has a name as soon as
// the operator gives one, and keeps it with the next key. No key is on record.
func TestPeople(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	named := func(users string) []byte {
		return []byte(strings.Replace(string(p.auditing(plain(u), sqliteAt(path, ""))), `"llm_cache":{`,
			`"llm_cache":{`+users, 1))
	}
	p.move()
	p.load(named(""))
	post := func(header, value string) {
		read(t, p.post("/v1/messages", conversation(1, false), header, value, "X-Session-Id", "s"))
	}
	post("X-Api-Key", "sk-anna-1")
	post("Authorization", "Bearer sk-anna-1")
	post("X-Goog-Api-Key", "sk-anna-1")
	all := turns(t, path, 3)
	hash := all[0].Tenant
	for _, r := range all {
		if r.Tenant != hash || r.User != hash {
			t.Errorf("one key is %s, called %s, and %s", r.Tenant, r.User, hash)
		}
	}
	p.load(named(`"users":[{"name":"anna","keys":["` + hash + `","sk-anna-2"]}],`))
	post("X-Api-Key", "sk-anna-1")
	post("Authorization", "Bearer sk-anna-2")
	post("X-Api-Key", "sk-ben")
	all = turns(t, path, 6)
	if all[3].User != "anna" || all[4].User != "anna" || all[5].User != all[5].Tenant {
		t.Errorf("called %q, %q and %q", all[3].User, all[4].User, all[5].User)
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
	if len(s.Groups) != 2 || max(s.Groups[0].Turns, s.Groups[1].Turns) != 5 {
		t.Errorf("the report has %+v", s.Groups)
	}
	for _, file := range []string{path, path + "-wal"} {
		if b, _ := os.ReadFile(file); strings.Contains(string(b), "sk-anna") || strings.Contains(string(b), "sk-ben") {
			t.Errorf("a key is in %s", file)
		}
	}
}
