// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// TestProject: turns are counted by the project that the client names or works in, on record, in
// metrics and on the page. The folders above it are nowhere.
func TestProject(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	const counter = `caddy_llm_cache_project_turns_total{project="%"}`
	counted := func(project string) float64 {
		t.Helper()
		return p.metric(strings.Replace(counter, "%", project, 1))
	}
	p.audited("llm_cache {\n project {http.request.header.X-Project}\n}\nreverse_proxy "+u.Listener.Addr().String(),
		sqliteAt(path, ""))
	before := map[string]float64{}
	want := map[string]float64{"shop": 2, "by-header": 1, "by-tag": 1, "by-codex": 1, "(none)": 1}
	for project := range want {
		before[project] = counted(project)
	}
	inShop := func(turns int) string {
		return strings.Replace(conversation(turns, false), "You are an agent.",
			`You are an agent.\n - Primary working directory: /home/secretive/shop\n`, 1)
	}
	codex := `{"workspaces":{"/home/secretive/x":{"associated_remote_urls":{"origin":"git@example.com:secretive/by-codex.git"}}}}`
	for _, c := range []struct {
		body    string
		headers []string
	}{
		{inShop(1), nil},
		{inShop(2), nil},
		{inShop(3), []string{"X-Project", "/srv/secretive/by-header"}},
		{strings.Replace(inShop(4), `{"model"`, `{"tags":{"team":"by-tag"},"model"`, 1), nil},
		{inShop(5), []string{"X-Codex-Turn-Metadata", codex}},
		{conversation(1, false), []string{"X-Session-Id", "other"}},
	} {
		read(t, p.post("/v1/messages", c.body, append([]string{"X-Api-Key", "k", "X-Session-Id", "s"}, c.headers...)...))
	}
	got := map[string]float64{}
	for _, r := range turns(t, path, 6) {
		got[r.ProjectName()]++
	}
	var page struct{ Today audit.Period }
	p.adminDo(http.MethodGet, "/llm_cache/data", &page)
	named := map[string]bool{}
	for _, s := range page.Today.Of("project") {
		named[s.Name] = true
	}
	for project, n := range want {
		if m := counted(project) - before[project]; got[project] != n || m != n || !named[project] {
			t.Errorf("%s: got %g on record, %g in metrics, on the page %t; want %g turns", project, got[project], m,
				named[project], n)
		}
	}
	for _, file := range []string{path, path + "-wal"} {
		if b, _ := os.ReadFile(file); strings.Contains(string(b), "secretive") {
			t.Errorf("a folder above the project is in %s", file)
		}
	}
}
