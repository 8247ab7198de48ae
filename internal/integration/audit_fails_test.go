// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"modernc.org/sqlite"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// fullAudit is the name of a file that is on a full disk, as far as SQLite can tell.
const fullAudit = "on-a-full-disk.db"

var diskIsFull atomic.Bool

func init() {
	sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, name string) error {
		if !diskIsFull.Load() || !strings.Contains(name, fullAudit) {
			return nil
		}
		_, err := c.ExecContext(context.Background(), "PRAGMA max_page_count = 1", nil)
		return err
	})
}

// failingAudit loads a site with a health page and an audit store.
func (p *proxy) failingAudit(u *upstream, store, users string) {
	p.t.Helper()
	p.move()
	site := "llm_cache {\n health /health\n }\n reverse_proxy " + u.Listener.Addr().String()
	p.load([]byte(strings.Replace(string(p.auditing(site, store)), `"llm_cache":{`, `"llm_cache":{"users":`+users+`,`,
		1)))
}

// record is what the health page says of the audit store.
func (p *proxy) record() gjson.Result {
	p.t.Helper()
	res, err := p.client.Get("http://" + p.addr + "/health")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	return gjson.Get(read(p.t, response{res}), `checks.#(name=="Record")`)
}

// TestFullAuditDisk: Caddy starts on a full disk, says so, and puts all of it on record
// once there is room. What the budget knows from before is read then.
func TestFullAuditDisk(t *testing.T) {
	diskIsFull.Store(true)
	t.Cleanup(func() { diskIsFull.Store(false) })
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), fullAudit)
	p.failingAudit(u, sqliteAt(path, ""), `[{"name":"*","budgets":[{"tokens":1000000}]}]`)
	const n = 5
	for i := range n {
		if res := p.post("/v1/messages", conversation(i, false)); res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	if r := p.record(); r.Get("state").Str != "failing" || !strings.Contains(r.Get("note").Str, "the disk is full") {
		t.Errorf("the health page says %s", r.Raw)
	}
	if p.metric("caddy_llm_cache_audit_failing") != 1 ||
		p.metric(`caddy_llm_cache_audit_errors_total{reason="full"}`) < 1 {
		t.Error("the metrics do not tell")
	}
	diskIsFull.Store(false)
	if got := turns(t, path, n); len(got) != n {
		t.Errorf("%d records, want %d", len(got), n)
	}
	until(t, "the store is found to work or fail", func() bool {
		return p.record().Get("state").Str == "ok" && p.metric("caddy_llm_cache_audit_failing") == 0
	})
}

// TestUnusableAuditFile: Caddy starts over a file that it cannot use. A damaged one is
// set aside; others are left as they are.
func TestUnusableAuditFile(t *testing.T) {
	rubbish := []byte(strings.Repeat("rubbish ", 1000))
	for name, test := range map[string]struct {
		prepare func(path string) error
		damaged bool
		note    string
	}{
		"rubbish": {func(path string) error { return os.WriteFile(path, rubbish, 0o600) }, true, ""},
		"zeros":   {func(path string) error { return os.WriteFile(path, make([]byte, 1<<16), 0o600) }, true, ""},
		"hole": {func(path string) error {
			s, err := audit.OpenSQLite(path)
			if err != nil {
				return err
			}
			for i := range 200 {
				if err := s.Write(context.Background(),
					[]*audit.Record{{
						ID: audit.NewID(time.Now()), At: time.Now(), Turns: 1, Model: fmt.Sprint(i), Tenant: "a",
						User: "a",
					}}); err != nil {
					return err
				}
			}
			if err := s.Close(); err != nil {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i := range b[4096:] { // all but the schema
				b[4096+i] = 0xa5
			}
			return os.WriteFile(path, b, 0o600)
		}, true, ""},
		"folder": {func(path string) error { return os.Mkdir(path, 0o700) }, false, "may not be opened"},
		"no folder": {
			func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) }, false,
			"may not be opened",
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerMessage)
			path := filepath.Join(t.TempDir(), "folder", "audit.db")
			if name != "no folder" {
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.prepare(path); err != nil {
				t.Fatal(err)
			}
			p := start(t, "respond 204")
			p.failingAudit(u, sqliteAt(path, ""), `[{"name":"*","budgets":[{"tokens":1000000}]}]`)
			const n = 3
			for i := range n {
				if res := p.post("/v1/messages", conversation(i, false)); res.StatusCode != http.StatusOK {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			aside := func() []string {
				all, err := filepath.Glob(path + ".damaged-*")
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			if test.damaged {
				turns(t, path, n)
				if got := aside(); len(got) != 1 {
					t.Errorf("set aside are %q, want one file", got)
				}
				until(t, "the store is found to work or fail", func() bool { return p.record().Get("state").Str == "ok" })
				return
			}
			if r := p.record(); r.Get("state").Str != "failing" || !strings.Contains(r.Get("note").Str, test.note) {
				t.Errorf("the health page says %s, want %q", r.Raw, test.note)
			}
			if got := aside(); len(got) != 0 {
				t.Errorf("set aside are %q", got)
			}
			obstacle := path
			if name == "no folder" {
				obstacle = filepath.Dir(path)
			}
			if err := os.Remove(obstacle); err != nil {
				t.Fatal(err)
			}
			turns(t, path, n)
		})
	}
}

// TestAuditOnError: with on_error refuse a file that cannot be opened is found when the
// configuration is loaded, and the one before goes on; a store that fails later ends
// requests in their own API's words.
func TestAuditOnError(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	refuse := `,"on_error":"refuse"`
	if err := p.caddy.Load(p.auditing(plain(u), sqliteAt(t.TempDir(), refuse))); err == nil ||
		!strings.Contains(err.Error(), "audit") {
		t.Errorf("loaded a folder as a file: %v", err)
	}
	if res := p.post("/v1/messages", conversation(1, false)); res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	p.audited(plain(u), `{"module":"shaky","interval":10000000`+refuse+`}`)
	ask := func() response { return p.post("/v1/messages", conversation(1, false)) }
	if res := ask(); res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	shaky.Store(true)
	t.Cleanup(func() { shaky.Store(false) })
	ask() // finds out, unless the record of the request before has waited until now
	until(t, "the store is found to work or fail", func() bool { return p.metric("caddy_llm_cache_audit_failing") == 1 })
	for path, want := range map[string]string{"/v1/messages": `"type":"error"`, "/v1/chat/completions": `"error":{`} {
		res := p.post(path, conversation(1, false))
		if body := read(t, res); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
			!strings.Contains(body, want) || !strings.Contains(body, "on record") {
			t.Errorf("%s: %s: %s", path, res.Status, body)
		}
	}
	shaky.Store(false)
	until(t, "the store is found to work or fail", func() bool { return ask().StatusCode == http.StatusOK })
}

// shaky has the audit store of that name fail.
var shaky atomic.Bool

// shakyAudit is an audit store that fails as it is told.
type shakyAudit struct{ app.AuditOptions }

func init() { caddy.RegisterModule(shakyAudit{}) }

func (shakyAudit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.shaky", New: func() caddy.Module { return new(shakyAudit) }}
}

func (*shakyAudit) Identity() string             { return "" }
func (s *shakyAudit) Open() (audit.Store, error) { return s, nil }

func (*shakyAudit) Write(context.Context, []*audit.Record) error {
	if shaky.Load() {
		return syscall.ENOSPC
	}
	return nil
}

func (*shakyAudit) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (*shakyAudit) Close() error                                    { return nil }
