// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // for queries of the store

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/postgres"
)

// audited starts a stack whose front keeps records, as a separate process that the test may kill.
func audited(t *testing.T, audit, model string) *stack {
	t.Helper()
	s := startStack(t, setup{model: model, unwatched: true})
	s.config = strings.Replace(s.config, "auto_https off", "auto_https off\n\tgrace_period 1s\n\tllm_cache {\n\t\taudit "+
		audit+"\n\t}", 1)
	if err := s.Process.Stop(); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	return s
}

func (s *stack) restart(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := caddy.Start(ctx, binary, filepath.Join(s.dir, "front"), s.Admin, s.config)
	if err != nil {
		t.Fatal(err)
	}
	*s.Process = *p
}

// summary is the used part of the report.
type summary struct {
	Groups []struct {
		Name        string `json:"name"`
		Turns       int    `json:"turns"`
		Interrupted int    `json:"interrupted"`
	} `json:"groups"`
	Total struct {
		Turns       int     `json:"turns"`
		Interrupted int     `json:"interrupted"`
		ClientUSD   float64 `json:"client_usd"`
	} `json:"total"`
}

// report runs `caddy llm-cache report` by session, like a user.
func report(t *testing.T, store string) (s summary, sessions map[string]int) {
	t.Helper()
	out, err := exec.Command(binary, "llm-cache", "report", "--json", "--by", "session", "--since", "1h", "--store",
		store).Output()
	if err != nil {
		t.Fatalf("report: %v: %s", err, out)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	sessions = map[string]int{}
	for _, g := range s.Groups {
		sessions[g.Name] = g.Turns
	}
	return s, sessions
}

// answered is a turn that a client has received completely.
type answered struct {
	session string
	at      time.Time
}

// A Caddy killed with SIGKILL loses no turn older than the batch interval. The file is intact, and
// the next Caddy continues it.
func TestAuditSurvivesKill(t *testing.T) {
	const interval = 500 * time.Millisecond
	path := filepath.Join(t.TempDir(), "audit.db")
	s := audited(t, fmt.Sprintf("sqlite %s {\n\t\t\tinterval %s\n\t\t}", path, interval), "pace 1ms")
	tape := conversation.NewTape(conversation.Claude, conversation.Agent, 20<<10)
	lost, total := 0, 0
	for round := range 3 {
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			seen []answered
		)
		ctx, stop := context.WithCancel(t.Context())
		for i := range 4 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id, err := s.ask(ctx, tape, fmt.Sprintf("%d-%d-%d", round, i, n), 0)
					if err != nil {
						return // killed
					}
					mu.Lock()
					seen = append(seen, answered{id, time.Now()})
					mu.Unlock()
				}
			})
		}
		time.Sleep(3*time.Second + time.Duration(round)*170*time.Millisecond)
		killed := time.Now()
		s.Kill()
		stop()
		wg.Wait()
		check(t, path)
		_, kept := report(t, path)
		for _, a := range seen {
			total++
			if kept[a.session] == 1 {
				continue
			}
			lost++
			// A batch is due after the interval, and writing takes time.
			if age := killed.Sub(a.at); age > 2*interval {
				t.Errorf("round %d: a turn that ended %s before the kill is not on record", round, age)
			}
		}
		s.restart(t)
	}
	t.Logf("%d of %d turns were not on record after 3 kills, all of the last %s", lost, total, 2*interval)
	if total < 100 {
		t.Errorf("only %d turns", total)
	}
	if id, err := s.ask(t.Context(), tape, "after", 0); err != nil {
		t.Error(err)
	} else {
		eventually(t, "the turn after the kills", func() bool { _, kept := report(t, path); return kept[id] == 1 })
	}
}

// check looks for corruption.
func check(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity of the file: %s, %v", verdict, err)
	}
}

// A terminated Caddy writes all records without waiting for the interval. Interrupted turns are
// recorded as such.
func TestAuditFlushesAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := audited(t, fmt.Sprintf("sqlite %s {\n\t\t\tinterval 1m\n\t\t}", path), "pace 1ms")
	tape := conversation.NewTape(conversation.Claude, conversation.Agent, 20<<10)
	const n, open = 20, 3
	want := map[string]int{}
	for i := range n {
		id, err := s.ask(t.Context(), tape, fmt.Sprint(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		want[id]++
	}
	// Streams that would last for minutes.
	slow := strings.Replace(site(s.model.Admin, s.modelAddr, "model", "llm_cache_simulator ../script.json {\npace 20s\n}"),
		"auto_https off", "auto_https off\n\tgrace_period 1s", 1)
	if err := s.model.Reload(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // connections during the change of listeners are reset
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range open {
		go func() { _, _ = s.ask(ctx, tape, fmt.Sprint("open ", i), 0) }()
	}
	eventually(t, "streams in flight", func() bool {
		return s.metric(t, "caddy_llm_cache_overhead_seconds_count") >= n+
			open
	})
	if err := s.Process.Stop(); err != nil {
		t.Error(err)
	}
	check(t, path)
	sum, kept := report(t, path)
	for id := range want {
		if kept[id] != 1 {
			t.Errorf("session %s has %d records", id, kept[id])
		}
	}
	if sum.Total.Turns != n+open || sum.Total.Interrupted != open || sum.Total.ClientUSD <= 0 {
		t.Errorf("%+v, want %d turns, %d of them interrupted", sum.Total, n+open, open)
	}
	s.restart(t)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 600 {
		if f() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// PostgreSQL is down when Caddy starts, comes up, is cut off and comes back: every turn is recorded
// once, and no request is affected.
func TestAuditPostgres(t *testing.T) {
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "llm_cache-pg-") //nolint:usetesting // its user must get in, and a socket's name be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	db, err := postgres.New(dir, addrs[0])
	if errors.Is(err, postgres.ErrMissing) {
		lacking(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := audited(t, fmt.Sprintf("postgres %s {\n\t\t\tinterval 100ms\n\t\t}", db.DSN), "pace 1ms")
	tape := conversation.NewTape(conversation.Claude, conversation.Agent, 20<<10)
	sent := 0
	ask := func(n int) {
		t.Helper()
		for range n {
			if _, err := s.ask(t.Context(), tape, fmt.Sprint(sent), 0); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	ask(20)
	eventually(t, "a failed write", func() bool { return s.metric(t, "caddy_llm_cache_audit_write_errors_total") > 0 })
	start := func() {
		t.Helper()
		if err := db.Start(); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() { _ = db.Stop() })
	ask(20)
	arrived := func() bool { return s.metric(t, "caddy_llm_cache_audit_records_total") == float64(sent) }
	eventually(t, "all records in the database", arrived)
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	failed := s.metric(t, "caddy_llm_cache_audit_write_errors_total")
	ask(20)
	eventually(t, "another failed write", func() bool {
		return s.metric(t,
			"caddy_llm_cache_audit_write_errors_total") > failed
	})
	start()
	eventually(t, "the rest in the database", arrived)
	sum, kept := report(t, db.DSN)
	if sum.Total.Turns != sent || len(kept) != sent {
		t.Errorf("%d turns in %d sessions, sent were %d", sum.Total.Turns, len(kept), sent)
	}
	if n := s.metric(t, "caddy_llm_cache_audit_dropped_total") +
		s.metric(t, "caddy_llm_cache_audit_coalesced_total"); n != 0 {
		t.Errorf("%v turns were dropped or lost their details", n)
	}

	// The store's own tests that need a database.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^(TestStores|TestMigratePostgres)$",
		"./internal/app/audit")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "LLM_CACHE_POSTGRES="+db.DSN)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the tests of the store: %v\n%s", err, out)
	}
}
