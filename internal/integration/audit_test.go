// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	auditreport "github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
)

// audited loads a site with an audit store, given in JSON.
func (p *proxy) audited(site, store string) {
	p.t.Helper()
	p.move()
	p.load(p.auditing(site, store))
}

func (p *proxy) auditing(site, store string) []byte {
	p.t.Helper()
	return []byte(strings.Replace(string(p.config(site)), `"apps":{`, `"apps":{"llm_cache":{"audit":`+store+`},`, 1))
}

// turns are the records in a SQLite file, once there are so many turns.
func turns(t *testing.T, path string, n int) (all []audit.Record) {
	t.Helper()
	for range 3000 {
		all = all[:0]
		got := 0
		if s, err := audit.ReadSQLite(path); err == nil {
			err = s.Each(t.Context(), time.Time{}, func(r *audit.Record) error {
				all = append(all, *r)
				got += int(r.Turns)
				return nil
			})
			_ = s.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		if got == n {
			return all
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d records, want %d: %+v", len(all), n, all)
	return nil
}

func sqliteAt(path, more string) string {
	return fmt.Sprintf(`{"module":"sqlite","path":%q,"interval":10000000%s}`, path, more)
}

// TestAuditOutcomes: each turn becomes one record, however it ends.
func TestAuditOutcomes(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch r.Header.Get("X-Do") {
		case "refuse":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`)
		case "cut":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Join(events[:3], ""))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Join(events, ""))
		default:
			answerMessage(w, r, n)
		}
	})
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(plain(u), sqliteAt(path, ""))
	ask := func(do, agent string) response {
		return p.post("/v1/messages", conversation(2, do == "stream" || do == "cut"), "X-Do", do, "X-Session-Id", do,
			"User-Agent", agent, "X-Api-Key", "sk-secret")
	}
	id := ask("", "claude-cli/2.1.3 (external, cli)").Header.Get("X-Llm-Cache-Session")
	read(t, ask("stream", "opencode/1.0"))
	_, _ = io.ReadAll(ask("cut", "Anthropic/Python 0.9").Body)
	read(t, ask("refuse", "curl/8.0"))

	got := map[string]audit.Record{}
	for _, r := range turns(t, path, 4) {
		got[r.Client] = r
	}
	for client, want := range map[string]struct {
		outcome string
		status  int
		read    int64
	}{
		"claude-code":   {audit.Completed, 200, 1234},
		"opencode":      {audit.Completed, 200, 1234},
		"anthropic-sdk": {audit.Interrupted, 200, 1234},
		"curl":          {audit.Failed, 429, 0},
	} {
		r, ok := got[client]
		if !ok || r.Outcome != want.outcome || r.Status != want.status || r.Billed.Read != want.read {
			t.Errorf("%s: %+v", client, r)
		}
		if r.Turns != 1 || r.Model != "claude-opus-4-6" || r.ClientFormat != "anthropic" || len(r.Tenant) != 16 ||
			r.User != r.Tenant || r.Total <= 0 || r.OriginalTokens == 0 {
			t.Errorf("%s: %+v", client, r)
		}
	}
	whole := got["claude-code"]
	if whole.Session != id || whole.Billed.Write5m != 40 || whole.Billed.Uncached != 3 || whole.Billed.Output != 5 ||
		whole.StopReason != "end_turn" {
		t.Errorf("%+v", whole)
	}
	// (3 + 40·1.25 + 1234·0.1 + 5·5) at 5 dollars a million
	if d := whole.USD - 201.4*5/1e6; d > 1e-12 || d < -1e-12 || whole.ClientUSD != whole.USD {
		t.Errorf("cost %v and %v", whole.USD, whole.ClientUSD)
	}
	if r := got["opencode"]; r.FirstByte <= 0 || r.FirstToken < r.FirstByte || r.LastToken < r.FirstToken ||
		r.Total < r.LastToken || !r.Stream {
		t.Errorf("latencies of a stream: %+v", r)
	}
	if got := p.metric(`caddy_llm_cache_cost_usd_total{kind="client"}`); got <= 0 {
		t.Error("no cost is counted")
	}
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "sk-secret") ||
		strings.Contains(string(b), "Fix the build") {
		t.Errorf("a key or a prompt is in the file, or %v", err)
	}
}

// TestAuditOff: a site may be left out.
func TestAuditOff(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	addr := u.Listener.Addr().String()
	p.audited("handle /private/* {\n llm_cache {\n audit off\n }\n reverse_proxy "+addr+
		"\n}\nhandle {\n llm_cache\n reverse_proxy "+addr+"\n}", sqliteAt(path, ""))
	p.post("/private/v1/messages", conversation(1, false), "User-Agent", "private/1")
	p.post("/v1/messages", conversation(1, false), "User-Agent", "public/1")
	if r := turns(t, path, 1); r[0].Client != "public" {
		t.Errorf("%+v", r)
	}
}

// TestReportOfRunningCaddy: the report reads the store of the running Caddy, wherever it is.
func TestReportOfRunningCaddy(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	run := func() (string, error) {
		cmd := auditreport.Command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs([]string{"--admin", p.admin, "--by", "client"})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	p.adminDo(http.MethodGet, "/config/", nil) // is up
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "keeps no records") {
		t.Errorf("without a store: got %v, want an error that says so", err)
	}
	path := filepath.Join(t.TempDir(), "elsewhere.db")
	p.audited(plain(u), sqliteAt(path, ""))
	p.post("/v1/messages", conversation(1, false), "User-Agent", "gardener/1")
	turns(t, path, 1)
	if out, err := run(); err != nil || !strings.Contains(out, "gardener") {
		t.Errorf("got %v, %s, want a line of the client gardener", err, out)
	}
}

// TestAuditContent is kept only when asked for.
func TestAuditContent(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	for _, on := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "audit.db")
		p.audited(plain(u), sqliteAt(path, fmt.Sprintf(`,"content":%t`, on)))
		body := conversation(1, false)
		p.post("/v1/messages", body)
		r := turns(t, path, 1)[0]
		s, err := audit.ReadSQLite(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := s.Content(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !on {
			if c != nil {
				t.Errorf("content is off, kept was %s", c.Prompt)
			}
			continue
		}
		if c == nil || string(c.Prompt) != body || !strings.Contains(string(c.Answer), "Done.") {
			t.Errorf("%+v", c)
		}
	}
}

// TestAuditReload loads configurations while turns go on: every turn is on
// record, once, also those that began before and ended after.
func TestAuditReload(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path, other := filepath.Join(t.TempDir(), "audit.db"), filepath.Join(t.TempDir(), "other.db")
	store := sqliteAt(path, "")
	p.audited(plain(u), store)
	const workers = 4
	done := make(chan struct{})
	var sent atomic.Int64
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			client := &http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
					strings.NewReader(conversation(n%5, false)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Session-Id", "worker-"+strconv.Itoa(i))
				res, err := client.Do(req)
				if err != nil { // reset
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				sent.Add(1)
			}
		})
	}
	for i := range 8 {
		if i == 4 { // another store, and back
			p.load(p.auditing(plain(u), sqliteAt(other, "")))
		} else {
			p.load(p.auditing(plain(u), sqliteAt(path, fmt.Sprintf(`,"batch":%d`, 10+i))))
		}
		for before := sent.Load(); sent.Load() < before+workers; {
			time.Sleep(time.Millisecond)
		}
	}
	close(done)
	group.Wait()
	p.audited("respond 204", store)
	n := 0
	ids := map[audit.ID]bool{}
	for range 3000 { // the last ones are being written
		n = 0
		for _, file := range []string{path, other} {
			s, err := audit.ReadSQLite(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Each(t.Context(), time.Time{}, func(r *audit.Record) error {
				n++
				ids[r.ID] = true
				if r.Outcome != audit.Completed {
					t.Errorf("%+v", *r)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
		}
		if n >= int(sent.Load()) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n != int(sent.Load()) || len(ids) != n {
		t.Errorf("%d records, %d ids, of %d turns", n, len(ids), sent.Load())
	}
}

// TestAuditOverReload: a stream that outlives the configuration it began under
// is on record in the store it began with.
func TestAuditOverReload(t *testing.T) {
	seen := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events[0])
		w.(http.Flusher).Flush()
		<-seen
		_, _ = io.WriteString(w, strings.Join(events[1:], ""))
	})
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(plain(u), sqliteAt(path, ""))
	res := p.post("/v1/messages", conversation(1, true))
	p.reload("respond 204")
	close(seen)
	read(t, res)
	if r := turns(t, path, 1); r[0].Outcome != audit.Completed || r[0].Billed.Output != 5 {
		t.Errorf("%+v", r)
	}
}

// TestAuditStoreDown: a database that is not there fails no request, and all
// that is lost in the end is counted.
func TestAuditStoreDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for a database that does not come")
	}
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	const dropped = "caddy_llm_cache_audit_dropped_total"
	p.audited(plain(u), `{"module":"postgres","dsn":"postgres://llm@127.0.0.1:1/none","interval":10000000}`)
	before := p.metric(dropped)
	const n = 20
	for i := range n {
		if res := p.post("/v1/messages", conversation(i%3, false)); res.StatusCode != http.StatusOK {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	for range 6000 {
		if p.metric("caddy_llm_cache_audit_write_errors_total") > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if p.metric("caddy_llm_cache_audit_write_errors_total") == 0 || p.metric("caddy_llm_cache_audit_queue_records") != n ||
		p.metric("caddy_llm_cache_audit_lag_seconds") <= 0 {
		t.Error("the metrics do not tell that the store is down")
	}
	p.reload(plain(u))
	if got := p.metric(dropped); got != before+n {
		t.Errorf("%v turns are counted as dropped, want %v", got-before, n)
	}
}
