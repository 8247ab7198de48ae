// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// shakyStore fails to open, write and read for given numbers of times.
type shakyStore struct {
	mu                sync.Mutex
	open, write, read int
	err               error
	before, written   []audit.Record
}

func (s *shakyStore) fails(times *int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *times > 0 {
		*times--
		return s.err
	}
	return nil
}

func (s *shakyStore) Open() (audit.Store, error) {
	if err := s.fails(&s.open); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *shakyStore) Write(_ context.Context, batch []*audit.Record) error {
	if err := s.fails(&s.write); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range batch {
		s.written = append(s.written, *r)
	}
	return nil
}

func (s *shakyStore) Each(_ context.Context, _ time.Time, f func(*audit.Record) error) error {
	if err := s.fails(&s.read); err != nil {
		return err
	}
	for i := range s.before {
		if err := f(&s.before[i]); err != nil {
			return err
		}
	}
	return nil
}

func (*shakyStore) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (*shakyStore) Close() error                                    { return nil }

// A failing store blocks nothing: records wait in memory and are written in order. Budgets begin
// with the spending that this process knows, and learn the rest once.
func TestStoreThatFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		store  *shakyStore
		reason string
	}{
		{"works", &shakyStore{}, ""},
		{"full at start", &shakyStore{open: 3, err: fmt.Errorf("x: %w", syscall.ENOSPC)}, audit.ReasonFull},
		{"foreign", &shakyStore{open: 3, err: audit.ErrForeign}, audit.ReasonForeign},
		{"newer", &shakyStore{open: 3, err: audit.ErrNewer}, audit.ReasonNewer},
		{"may not be opened", &shakyStore{open: 3, err: os.ErrPermission}, audit.ReasonDenied},
		{"unreachable", &shakyStore{write: 6, read: 6, err: context.DeadlineExceeded}, audit.ReasonUnreachable},
		{"cannot be read at first", &shakyStore{read: 2, err: errors.New("x")}, ""},
		{"full while it runs", &shakyStore{write: 6, err: syscall.ENOSPC}, audit.ReasonFull},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			test.store.before = []audit.Record{{At: begun, Turns: 1, Tenant: "a", User: "anna", USD: 2}}
			time.Sleep(time.Minute)
			sink := NewSink(shared.Process, test.store.Open, audit.Options{Interval: 10 * time.Millisecond}, false, zap.NewNop())
			sink.spending.read = map[string]bool{}
			a := &App{
				instance: shared.Process,
				Users:    []User{{Name: "anna", Budgets: []allowance.Budget{{Dollars: 10, Per: "month"}}}}, audit: new(AuditSQLite),
				auditShare: &AuditShare{Of: sink, Key: "k"}, logger: zap.NewNop(),
				share: &state.Share{Of: &state.State{Store: new(sessioncache.Store)}},
			}
			a.inForce(t)
			turnsOf(shared.Process).seeded.Store(true)
			if err := errors.Join(a.openAudit(), a.openBudgets()); err != nil {
				t.Fatalf("%s: the configuration does not start: %v", test.name, err)
			}
			a.adjustAudit()
			var want []string
			for i := range 5 {
				now := &audit.Record{
					ID: audit.NewID(time.Now()), At: time.Now(), Turns: 1, Tenant: "a", User: "anna", USD: 1,
					Model: fmt.Sprint(i),
				}
				want = append(want, now.Model)
				sink.Spend(now)
				sink.Put(now)
			}
			got := sink.store.trouble()
			for range 2000 { // the queue writes once a second
				if got != "" {
					break
				}
				time.Sleep(time.Millisecond)
				got = sink.store.trouble()
			}
			if got != test.reason {
				t.Errorf("%s: the reason is %q, want %q", test.name, got, test.reason)
			}
			a.readRecord()
			time.Sleep(time.Minute)
			var written []string
			test.store.mu.Lock()
			for _, r := range test.store.written {
				written = append(written, r.Model)
			}
			test.store.mu.Unlock()
			if !slices.Equal(written, want) {
				t.Errorf("%s: on record are %q, want %q", test.name, written, want)
			}
			if got := sink.store.trouble(); got != "" {
				t.Errorf("%s: it works, and is said to fail: %s", test.name, got)
			}
			all := sink.Ledger().Standings(&a.users.Load().Budgets, time.Now())
			if len(all) != 1 || all[0].Spent.Dollars != 7 {
				t.Errorf("%s: anna has spent 7, the budgets say %+v", test.name, all)
			}
			a.unlearn()
			_ = sink.Close()
		})
	}
}

// With on_error refuse nothing starts on a failing store, and a damaged file stays.
func TestStoreThatMayNotFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	if err := os.WriteFile(path, []byte("no database, and long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (audit.Store, error){
		"damaged":     func() (audit.Store, error) { return audit.OpenSQLite(path) },
		"full":        (&shakyStore{open: 1, err: syscall.ENOSPC}).Open,
		"unreachable": func() (audit.Store, error) { return audit.OpenPostgres("postgres://llm@127.0.0.1:1/none") },
	} {
		sink := NewSink(shared.Process, open, audit.Options{}, false, zap.NewNop())
		a := &App{
			instance: shared.Process, audit: &AuditSQLite{AuditOptions: AuditOptions{OnError: refuseOnError}},
			auditShare: &AuditShare{Of: sink}, logger: zap.NewNop(),
			share: &state.Share{Of: &state.State{Store: new(sessioncache.Store)}},
		}
		a.inForce(t)
		if err := a.openAudit(); err == nil {
			t.Errorf("%s: the configuration has started", name)
		}
		if sink.Refuses() {
			t.Errorf("%s: requests of the configuration before are refused", name)
		}
		a.adjustAudit()
		if !sink.Refuses() {
			t.Errorf("%s: requests go unrecorded", name)
		}
		_ = sink.Close()
	}
	if files, err := filepath.Glob(path + "*"); err != nil || len(files) != 1 {
		t.Errorf("files are %q, %v", files, err)
	}
}

// With on_error refuse, `caddy validate` fails for a path at which the store cannot start, and leaves no file behind.
func TestProvisionSQLite(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no database, and long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(dir, "used.db")
	store, err := audit.OpenSQLite(used)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for path, good := range map[string]bool{
		text: false, filepath.Join(text, "audit.db"): false, dir: false, used: true,
		filepath.Join(dir, "audit.db"): true, filepath.Join(dir, "new", "folder", "audit.db"): true,
	} {
		s := &AuditSQLite{Path: path, AuditOptions: AuditOptions{OnError: refuseOnError}}
		if err := s.Provision(caddy.Context{}); (err == nil) != good {
			t.Errorf("%s: got %v, want an error: %v", path, err, !good)
		}
		s = &AuditSQLite{Path: path}
		if err := s.Provision(caddy.Context{}); err != nil {
			t.Errorf("%s, records may wait in memory: %v", path, err)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(entries) > 4 {
		t.Errorf("files are %q, %v, want no more than before", entries, err)
	}
}

// A damaged file is set aside once, and a new one takes the records.
func TestDamagedIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	rubbish := []byte("no database, and long enough to be read as one")
	if err := os.WriteFile(path, rubbish, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &lateStore{open: func() (audit.Store, error) { return audit.OpenSQLite(path) }, logger: zap.NewNop()}
	record := func() error {
		return l.Write(t.Context(), []*audit.Record{{ID: audit.NewID(time.Now()), At: time.Now(), Turns: 1}})
	}
	if err := record(); err != nil {
		t.Fatal(err)
	}
	damaged := func() (names []string) {
		all, err := filepath.Glob(path + ".damaged-*")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := damaged(); len(got) != 1 {
		t.Errorf("set aside are %q, want one file", got)
	} else if b, err := os.ReadFile(got[0]); err != nil || !bytes.Equal(b, rubbish) {
		t.Errorf("set aside is %q, %v", b, err)
	}
	n := 0
	if err := l.Each(t.Context(), time.Time{}, func(*audit.Record) error { n++; return nil }); err != nil || n != 1 ||
		l.trouble() != "" {
		t.Errorf("%d records, %v, trouble %q", n, err, l.trouble())
	}
	// A medium that damages one file after another does not fill the folder.
	if err := errors.Join(l.store.Close(), os.WriteFile(path, make([]byte, 8192), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.store = nil
	for range 3 {
		if err := record(); audit.ReasonOf(err) != audit.ReasonDamaged {
			t.Errorf("got %v, want the error of a damaged file", err)
		}
	}
	if got := damaged(); len(got) != 1 {
		t.Errorf("set aside are %q, want one file", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A configuration may end while its records are still being read.
func TestRecordReadWhileCleanedUp(t *testing.T) {
	panics := func() float64 {
		return testkit.MetricValue(t, httpx.BackgroundPanics)
	}
	before := panics()
	synctest.Test(t, func(t *testing.T) {
		store := &shakyStore{read: 3, err: errors.New("x")}
		sink := NewSink(shared.Process, store.Open, audit.Options{Interval: time.Second}, false, zap.NewNop())
		sink.spending.read = map[string]bool{}
		a := &App{
			instance: shared.Process,
			Users:    []User{{Name: "anna", Budgets: []allowance.Budget{{Dollars: 10, Per: "month"}}}}, audit: new(AuditSQLite),
			auditShare: &AuditShare{Of: sink, Key: "k"}, logger: zap.NewNop(),
			share: &state.Share{Of: &state.State{Store: new(sessioncache.Store)}},
		}
		a.inForce(t)
		turnsOf(shared.Process).seeded.Store(true)
		a.readRecord()
		synctest.Wait()
		_ = a.Cleanup() // these pools retain nothing to release
		time.Sleep(time.Minute)
		a.unlearn()
		_ = sink.Close()
	})
	if got := panics(); got != before {
		t.Errorf("%v panics, want %v", got, before)
	}
}
