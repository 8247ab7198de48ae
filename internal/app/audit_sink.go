// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

const (
	// flushTime bounds what the end of a sink waits for its store.
	flushTime = 5 * time.Second
	// startTime bounds what the start of a configuration waits for it.
	startTime = 5 * time.Second
	// A store that cannot be read is looked at again after a pause that doubles.
	firstLook, longestLook = time.Second, 15 * time.Second
)

// sinks holds every open audit sink, so that it outlives the configurations
// that use it.
var sinks = caddy.NewUsagePool()

// Sink is a queue of records and the store behind it. It closes when the last
// configuration has let go of it and the last turn that began on it has ended;
// at the end of the process it closes at once, and turns that have not ended go
// on record as interrupted.
type Sink struct {
	queue   *audit.Queue
	store   *lateStore
	content atomic.Bool
	pins    atomic.Int64 // one for the configurations, one for each open turn
	logger  *zap.Logger
	key     func() *tenant.Key
	// Spending is what people have spent, for their budgets.
	Spending *spending
	budgets  atomic.Pointer[[]allowance.Budget] // those in force
}

// NewSink returns a queue of records and the store behind it, which is opened when the
// first batch is due.
func NewSink(open func() (audit.Store, error), o audit.Options, content bool, logger *zap.Logger) *Sink {
	s := &Sink{store: &lateStore{open: open, logger: logger}, logger: logger, Spending: newSpending()}
	s.queue = audit.NewQueue(s.store, o, &auditCounters)
	s.content.Store(content)
	s.key = sync.OnceValue(func() *tenant.Key {
		key, err := LastingKey("audit")
		if err != nil {
			logger.Warn("tenants have other hashes after a restart", zap.Error(err))
		}
		return key
	})
	s.pins.Store(1)
	return s
}

// pin keeps the sink open for one turn. It returns false when it is closed.
func (s *Sink) pin() bool {
	for {
		n := s.pins.Load()
		if n == 0 {
			return false
		}
		if s.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Pinned pins the sink. For a request that has come late, its configuration
// being gone and the sink closed, it is one that the present configuration has
// opened. It returns nil where no record is to be kept.
func (s *Sink) Pinned() *Sink {
	if s == nil || s.pin() {
		return s
	}
	for _, other := range openSinks() {
		if other.pin() {
			return other
		}
	}
	auditCounters.Drop(1)
	return nil
}

// Unpin ends a turn's hold. The one that holds a sink without a configuration
// does not wait for it to close.
func (s *Sink) Unpin() {
	if s.pins.Add(-1) == 0 {
		go httpx.Background("closing the audit store", s.close)
	}
}

// Content reports whether prompts and answers are kept as well.
func (s *Sink) Content() bool { return s.content.Load() }

// Refuses reports whether no request is to be answered, because the store fails and the
// operator wants none that is not on record.
func (s *Sink) Refuses() bool { return s != nil && s.store.strict.Load() && s.store.trouble() != "" }

// Key hashes whoever is behind requests, as they stand on record: it outlives the
// process.
func (s *Sink) Key() *tenant.Key { return s.key() }

// Begin begins a record: what is known now stands in it should the process end before
// the turn does.
func (s *Sink) Begin(rec *audit.Record) *audit.Turn { return s.queue.Begin(rec) }

// End ends it.
func (s *Sink) End(t *audit.Turn, rec *audit.Record) { s.queue.End(t, rec) }

// Put puts a record that is complete.
func (s *Sink) Put(rec *audit.Record) { s.queue.End(s.queue.Begin(rec), rec) }

// detached are sinks that no configuration uses any more and that are not
// closed yet.
var detached = struct {
	sync.Mutex
	sinks map[*Sink]struct{}
	hook  sync.Once
}{sinks: map[*Sink]struct{}{}}

// Destruct implements caddy.Destructor.
func (s *Sink) Destruct() error {
	detached.Lock()
	detached.sinks[s] = struct{}{}
	detached.Unlock()
	detached.hook.Do(func() { caddy.OnExit(closeDetached) })
	if caddy.Exiting() || s.pins.Add(-1) == 0 {
		s.close()
	}
	return nil
}

// closeDetached closes, at the end of the process, what turns still hold open.
func closeDetached(context.Context) {
	detached.Lock()
	all := make([]*Sink, 0, len(detached.sinks))
	for s := range detached.sinks {
		all = append(all, s)
	}
	detached.Unlock()
	for _, s := range all {
		s.close()
	}
}

// close flushes the queue. Closing again waits for the first to be done.
func (s *Sink) close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := s.queue.Close(ctx); err != nil {
		s.logger.Error("closing the audit store", zap.Error(err))
	}
	detached.Lock()
	delete(detached.sinks, s)
	detached.Unlock()
}

// AuditLease is one configuration's share of a sink.
type AuditLease struct {
	// Sink is what it is a share of.
	Sink *Sink

	key string
}

// Release gives the share back.
func (l *AuditLease) Release() error {
	if l == nil {
		return nil
	}
	_, err := sinks.Delete(l.key)
	return err
}

// provisionAudit loads the audit store and takes a share of it, if the
// configuration names one.
func (a *App) provisionAudit(ctx caddy.Context) error {
	if a.AuditRaw == nil {
		return nil
	}
	v, err := ctx.LoadModule(a, "AuditRaw")
	if err != nil {
		return fmt.Errorf("loading the audit store: %w", err)
	}
	store, ok := v.(AuditStore)
	if !ok {
		return fmt.Errorf("loading the audit store: %T keeps no records", v)
	}
	a.audit, a.logger = store, ctx.Logger()
	a.ledger, err = a.ShareAudit()
	return err
}

// ShareAudit takes one more share of the audit sink, nil if there is none.
func (a *App) ShareAudit() (*AuditLease, error) {
	if a.audit == nil {
		return nil, nil
	}
	key := string(a.audit.(caddy.Module).CaddyModule().ID) + " " + a.audit.Identity()
	before := spentSoFar()
	v, _, err := sinks.LoadOrNew(key, func() (caddy.Destructor, error) {
		s := NewSink(a.audit.Open, a.auditOptions(), a.audit.Settings().Content, a.logger)
		if before != nil {
			s.Spending = before
		}
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("opening the audit store: %w", err)
	}
	return &AuditLease{v.(*Sink), key}, nil
}

func (a *App) auditOptions() audit.Options {
	s := a.audit.Settings()
	o := audit.Options{Batch: s.Batch, Interval: time.Duration(s.Interval)}
	if k, ok := a.audit.(interface{ KeepsFor() time.Duration }); ok {
		o.Retention = k.KeepsFor()
	}
	logger := a.logger
	o.Log = func(message string, err error) {
		if errors.Is(err, audit.ErrPanic) {
			httpx.BackgroundPanics.Inc()
		}
		logger.Error(message, zap.Error(err))
	}
	return o
}

// openAudit opens the audit store. Where that fails records wait in memory, unless the
// operator wants Caddy not to start.
func (a *App) openAudit() error {
	if a.audit == nil {
		return nil
	}
	store := a.ledger.Sink.store
	if a.refuses() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		if err := store.ready(ctx, true); err != nil {
			return fmt.Errorf("opening the audit store: %w", err)
		}
		return nil
	}
	if _, err := store.opened(false); err != nil {
		a.logger.Error("audit store cannot be opened: records are kept in memory until it can", zap.Error(err))
	}
	return nil
}

// refuses reports whether nothing is to go on without the audit store.
func (a *App) refuses() bool { return a.audit != nil && a.audit.Settings().OnError == refuseOnError }

// adjustAudit applies this configuration's options and budgets to an audit sink that an
// earlier one may have opened.
func (a *App) adjustAudit() {
	if a.audit == nil {
		return
	}
	s := a.ledger.Sink
	s.content.Store(a.audit.Settings().Content)
	s.store.strict.Store(a.refuses())
	s.queue.SetOptions(a.auditOptions())
	a.adjustBudgets()
}

// readRecord reads from the record what this process does not know yet, in the
// background, as soon as the store can be read.
func (a *App) readRecord() {
	if a.ledger == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.unlearn = cancel
	go httpx.Background("opening the audit store", func() {
		for pause := firstLook; !a.readNow(ctx); pause = min(2*pause, longestLook) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
}

// readNow reports whether the store could be read.
func (a *App) readNow(ctx context.Context) bool {
	late, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	store := a.ledger.Sink.store
	if store.ready(late, store.strict.Load()) != nil || a.readSpent(late) != nil {
		return false
	}
	a.seed()
	a.learn(ctx)
	return true
}
