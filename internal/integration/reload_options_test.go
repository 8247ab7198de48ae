// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// optioned is a Caddyfile with options of the app and of its site.
func (p *proxy) optioned(options, site string) []byte {
	p.t.Helper()
	return p.adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nauto_https off\ngrace_period 100ms\nlog {\noutput "+
		"discard\n}\nllm_cache {\n%s\n}\n}\nhttp://%s {\n%s\n}\n", p.admin, options, p.addr, site))
}

// changes are options of configurations that follow one another in any order.
func changes(t *testing.T) map[string][2]string {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	key := func(digit string) string { return strings.Repeat(digit, 64) }
	disk := "store disk {\npath " + in("a.db") + "\nkey " + key("a") + "\n"
	originals := "originals disk {\nfolder " + in("texts") + "\nkey " + key("c") + "\n"
	return map[string][2]string{
		"nothing":            {"", ""},
		"a memory":           {"memory 64MiB\nstore memory {\nidle_ttl 2m\n}", ""},
		"a file":             {disk + "}", ""},
		"limits of the file": {disk + "max_size 2MiB\nttl 2m\n}", ""},
		"another key":        {"store disk {\npath " + in("a.db") + "\nkey " + key("b") + "\n}", ""},
		"another file":       {"store disk {\npath " + in("b.db") + "\nkey " + key("a") + "\n}", ""},
		"texts":              {originals + "}", ""},
		"limits of texts":    {originals + "max_size 2MiB\nttl 2m\n}", ""},
		"texts by a file":    {disk + "}\n" + originals + "}", ""},
		"texts, another key": {disk + "}\noriginals disk {\nfolder " + in("texts") + "\nkey " + key("d") + "\n}", ""},
		"texts elsewhere":    {disk + "}\noriginals disk {\nfolder " + in("others") + "\nkey " + key("c") + "\n}", ""},
		"a record":           {"audit sqlite " + in("audit.db"), ""},
		"another record":     {"audit sqlite " + in("other.db") + " {\nretention 2h\ncontent on\n}", ""},
		"a record in lines":  {"audit jsonl {\noutput file " + in("audit.jsonl") + "\n}", ""},
		"a budget":           {"audit sqlite " + in("audit.db") + "\nbudget * $1000 day", ""},
		"pings":              {"keepalive {\nhourly 1\n}", "keepalive"},
		"coalesce off":       {"memory 64MiB", "coalesce off"},
		"a queue":            {"", "queue {\nslots 2\n}\nheartbeat off"},
		"no rejoining":       {"", "rejoin 1s"},
	}
}

// However options change from one configuration to the next, no reload is refused, no
// request fails, and a conversation goes on in the very bytes of one for which nothing
// changed.
func TestReloadOfOptions(t *testing.T) {
	all := changes(t)
	site := func(u *upstream, options string) string {
		return strings.Replace(eager(u), "policy eager", "policy eager\n"+options, 1)
	}
	// run has a conversation over these configurations, and tells what went upstream.
	run := func(t *testing.T, names ...string) []received {
		u := newBinder(t)
		p := start(t, "respond 204")
		p.host = "127.0.0.1:80"
		for turn := range 3 * len(names) {
			if turn%3 == 0 {
				c := all[names[turn/3]]
				p.move()
				if err := p.caddy.Load(p.optioned(c[0], site(u.upstream, c[1]))); err != nil {
					t.Fatalf("%s is refused: %v", names[turn/3], err)
				}
			}
			if res := p.post("/v1/messages", thoughtful(turn), "X-Session-Id", t.Name(), "X-Api-Key",
				"secret-key"); res.StatusCode != http.StatusOK {
				t.Fatalf("turn %d: status %d", turn, res.StatusCode)
			}
		}
		if s := p.sessions(); len(s) != 1 || s[0].requests() != 3*len(names) {
			t.Errorf("sessions are %v", s)
		}
		if u.refused > 0 {
			t.Errorf("%d requests were refused", u.refused)
		}
		p.caddy.Stop(t)
		return u.requests()
	}
	var want []received
	t.Run("without changes", func(t *testing.T) { want = run(t, "nothing", "nothing", "nothing") })
	folds := 0
	for _, r := range want {
		folds += strings.Count(r.body, "[Compacted: ")
	}
	if folds == 0 {
		t.Fatal("nothing was folded")
	}
	for a := range all {
		for b := range all {
			if a >= b {
				continue
			}
			t.Run(a+" and "+b, func(t *testing.T) {
				got := run(t, a, b, a)
				if len(got) != len(want) {
					t.Fatalf("%d requests, not %d", len(got), len(want))
				}
				for i := range want {
					if got[i].body != want[i].body {
						t.Fatalf("request %d:\n%s\nnot\n%s", i, got[i].body, want[i].body)
					}
				}
			})
		}
	}
}
