// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// All file options take placeholders.
func TestFilesByPlaceholders(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("XDG_DATA_HOME", folder)
	t.Setenv("LLM_CACHE_TEST_FOLDER", folder)
	t.Chdir(folder)
	for file, text := range map[string]string{"users": "user anna sk-anna\n", "prices": `{"vendors": {}}`} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const in = "{env.LLM_CACHE_TEST_FOLDER}/"
	a := &App{
		instance: shared.Process, UsersFile: in + "users", PricesFile: in + "prices",
		Originals: &Originals{Folder: in + "texts", KeyFile: in + "new/key"},
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	if err := a.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	defer a.Cleanup()
	if _, err := os.Stat(filepath.Join(folder, "new", "key")); err != nil ||
		a.Originals.Folder != filepath.Join(folder, "texts") {
		t.Errorf("%v, folder %s", err, a.Originals.Folder)
	}
}

// void is an audit store that drops all records.
type void struct{}

func (void) Write(context.Context, []*audit.Record) error    { return nil }
func (void) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (void) Close() error                                    { return nil }

func testSink(tb testing.TB) *Sink {
	tb.Helper()
	tb.Setenv("XDG_DATA_HOME", tb.TempDir())
	s := NewSink(shared.Process, func() (audit.Store, error) { return void{}, nil }, audit.Options{}, false, zap.NewNop())
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// A request that arrives after its sink was closed is counted.
func TestLateRecord(t *testing.T) {
	var pool shared.Pool[*Sink]
	share, err := pool.Share("", func() (*Sink, error) { return testSink(t), nil })
	if err != nil || share.Release() != nil {
		t.Fatal(err)
	}
	s := share.Of
	before := countersOf(shared.Process).Dropped.Load()
	if s.Pinned() != nil || countersOf(shared.Process).Dropped.Load() != before+1 {
		t.Error("a record was lost without a trace")
	}
}

// cutSource is a store that fails once in the middle of reading.
type cutSource struct {
	audit.Store
	records []audit.Record
	cut     bool
}

func (s *cutSource) Each(_ context.Context, _ time.Time, f func(*audit.Record) error) error {
	for i := range s.records {
		if i == 1 && !s.cut {
			s.cut = true
			return os.ErrDeadlineExceeded
		}
		if err := f(&s.records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (*cutSource) Close() error { return nil }

// Spending counts once, even if the records are read twice.
func TestBudgetsReadAgain(t *testing.T) {
	at := time.Now()
	source := &cutSource{records: []audit.Record{
		{At: at, Turns: 1, Kind: audit.KindTurn, Tenant: "a", User: "a", USD: 1},
		{At: at, Turns: 1, Kind: audit.KindTurn, Tenant: "a", User: "anna", Groups: []string{"web"}, USD: 2},
		{At: at, Turns: 1, Kind: audit.KindTurn, Tenant: "b", User: "ben", Outcome: audit.Refused},
	}}
	sink := NewSink(shared.Process, func() (audit.Store, error) { return source, nil }, audit.Options{}, false,
		zap.NewNop())
	sink.spending.began = at.Add(time.Second)
	t.Cleanup(func() { _ = sink.Close() })
	a := &App{
		instance: shared.Process, audit: new(AuditSQLite), auditShare: &AuditShare{Of: sink}, logger: zap.NewNop(),
		Users: []User{
			{Name: "*", Budgets: []allowance.Budget{{Dollars: 10, Per: allowance.Month}}}, {Name: "anna", Groups: []string{"web"}},
		},
		Groups: []Group{{Name: "web", Budgets: []allowance.Budget{{Dollars: 10, Per: allowance.Month}}}},
		Site:   &Everything{Budgets: []allowance.Budget{{Requests: 10, Per: allowance.Month}}},
	}
	a.inForce(t)
	spent := func() string {
		a.adjustBudgets()
		var all []string
		for _, s := range sink.Ledger().Standings(&a.users.Load().Budgets, time.Now()) {
			all = append(all, s.Account.String()+" "+s.Budget.Amount(s.Spent))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if err := a.openBudgets(); err != nil {
		t.Fatalf("a store that cannot be read keeps Caddy down: %v", err)
	}
	if got := spent(); got != "" {
		t.Errorf("half of what was spent counts: %v", got)
	}
	for range 2 {
		if err := a.readSpent(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := spent(); got != "anna $3.00, group web $2.00, this site 2 requests" {
			t.Errorf("spent: got %v, want $3 of anna, a part of it without a name, $2 of the group and two requests", got)
		}
	}
}

// inForce loads the users of a configuration that is not provisioned.
func (a *App) inForce(tb testing.TB) {
	tb.Helper()
	a.users = new(atomic.Pointer[Directory])
	if err := a.loadUsers(); err != nil {
		tb.Fatal(err)
	}
}
