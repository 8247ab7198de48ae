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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

const (
	// flushTime bounds the wait for the store at the end of a sink.
	flushTime = 5 * time.Second
	// chargeTime bounds the wait for the counters of budgets at the end of a sink.
	chargeTime = 500 * time.Millisecond
	// startTime bounds the wait for the store at the start of a configuration.
	startTime = 5 * time.Second
	// learnTime bounds the reading of the records in the background.
	learnTime = time.Minute
	// The pauses between attempts to read a store double from firstLook to maxLook.
	firstLook, maxLook = time.Second, 15 * time.Second
)

func sinksOf(i *shared.Instance) *shared.Pool[*Sink] { return shared.PoolOf[*Sink](i) }

// Sink is a queue of records and the store behind it. Each open turn pins it. When the process exits
// it closes at once, and open turns are recorded as interrupted.
type Sink struct {
	shared.Pins
	instance *shared.Instance
	queue    *audit.Queue
	store    *lateStore
	content  atomic.Bool
	logger   *zap.Logger
	key      func() *tenant.Key
	// spending is what was spent, for budgets.
	spending *spending
	users    atomic.Pointer[Directory] // in force
}

// Ledger reserves and charges the costs of requests.
func (s *Sink) Ledger() allowance.Ledger { return s.spending.ledger() }

// NewSink returns a queue of records and its store.
func NewSink(
	i *shared.Instance, open func() (audit.Store, error), o audit.Options, content bool, logger *zap.Logger,
) *Sink {
	s := &Sink{instance: i, store: &lateStore{open: open, logger: logger}, logger: logger, spending: newSpending()}
	// The store is opened when the first batch is due.
	s.queue = audit.NewQueue(s.store, o, countersOf(i))
	s.content.Store(content)
	s.key = sync.OnceValue(func() *tenant.Key {
		key, err := option.LastingKey("audit")
		if err != nil {
			logger.Warn("tenants have other hashes after a restart", zap.Error(err))
		}
		return &tenant.Key{Secret: key}
	})
	return s
}

// Pinned pins the sink and returns it, or a sink of the current configuration if this one is
// closed. It returns nil if no record is to be kept.
func (s *Sink) Pinned() *Sink {
	if s == nil || s.Pin() {
		return s
	}
	// The request outlived its configuration, and the sink is closed.
	for _, other := range sinksOf(s.instance).All() {
		if other.Pin() {
			return other
		}
	}
	// The current configuration keeps no records.
	countersOf(s.instance).Drop(1)
	return nil
}

// Content reports whether prompts and responses are recorded as well.
func (s *Sink) Content() bool { return s.content.Load() }

// Refuses reports whether requests are refused because the store fails and the operator wants no
// request without a record.
func (s *Sink) Refuses() bool { return s.store.strict.Load() && s.store.trouble() != "" }

// Key returns the key that hashes tenants on record. It outlives the process.
func (s *Sink) Key() *tenant.Key { return s.key() }

// Begin registers a turn. Should the process end first, the turn is recorded with the fields known now.
func (s *Sink) Begin(rec *audit.Record) *audit.OpenTurn { return s.queue.Begin(rec) }

// End records a finished turn.
func (s *Sink) End(t *audit.OpenTurn, rec *audit.Record) { s.queue.End(t, rec) }

// Put records a turn without an earlier Begin.
func (s *Sink) Put(rec *audit.Record) { s.queue.End(s.queue.Begin(rec), rec) }

// Close implements [shared.Value]. It flushes the queue.
func (s *Sink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if l := s.spending.shared.Load(); l != nil {
		short, cancel := context.WithTimeout(ctx, chargeTime)
		_ = l.Flush(short) // what the counters lack is read from the record at the next start
		cancel()
	}
	if err := s.queue.Close(ctx); err != nil {
		return fmt.Errorf("closing the audit store: %w", err)
	}
	return nil
}

// AuditShare is a configuration's share of a sink.
type AuditShare = shared.Share[*Sink]

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
	a.auditShare, err = a.ShareAudit()
	return err
}

// ShareAudit acquires one more share of the audit sink, nil if there is none.
func (a *App) ShareAudit() (*AuditShare, error) {
	if a.audit == nil {
		return nil, nil
	}
	key := string(a.audit.(caddy.Module).CaddyModule().ID) + " " + a.audit.Identity()
	before := spentSoFar(a.instance)
	share, err := sinksOf(a.instance).Share(key, func() (*Sink, error) {
		s := NewSink(a.instance, a.audit.Open, a.auditOptions(), a.audit.Settings().Content, a.logger)
		if before != nil {
			s.spending = before
		}
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("opening the audit store: %w", err)
	}
	return share, nil
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

// openAudit opens the audit store.
func (a *App) openAudit() error {
	if a.audit == nil {
		return nil
	}
	store := a.auditShare.Of.store
	if a.refuses() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		if err := store.ready(ctx, true); err != nil {
			return fmt.Errorf("opening the audit store: %w", err)
		}
		return nil
	}
	if _, err := store.opened(false); err != nil {
		// Records wait in memory, unless the operator has configured Caddy not to start.
		a.logger.Error("audit store cannot be opened: records are kept in memory until it can", zap.Error(err))
	}
	return nil
}

// refuses reports whether requests need a working audit store.
func (a *App) refuses() bool { return a.audit != nil && a.audit.Settings().OnError == refuseOnError }

// adjustAudit applies this configuration's options and budgets to the audit sink.
func (a *App) adjustAudit() {
	if a.audit == nil {
		return
	}
	// An earlier configuration may have opened the sink.
	s := a.auditShare.Of
	s.content.Store(a.audit.Settings().Content)
	s.store.strict.Store(a.refuses())
	s.queue.SetOptions(a.auditOptions())
	a.shareBudgets()
	a.adjustBudgets()
}

// readRecord reads the data that this process lacks from the records.
func (a *App) readRecord() {
	if a.auditShare == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	// Spending, today's turns and habits come from there.
	a.unlearn = cancel
	// The store may become readable only later. The start does not wait for it.
	go httpx.Background("opening the audit store", func() {
		for pause := firstLook; !a.readNow(ctx); pause = min(2*pause, maxLook) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
}

func (a *App) readNow(ctx context.Context) bool {
	late, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	store := a.auditShare.Of.store
	if store.ready(late, store.strict.Load()) != nil || a.readSpent(late) != nil {
		return false
	}
	a.seed()
	a.learn(ctx)
	return true
}

// learn has the features learn from the records, in the background.
func (a *App) learn(ctx context.Context) {
	source, err := a.auditShare.Of.store.source()
	// A store that only writes has nothing to learn from.
	if err != nil || source == nil {
		return
	}
	for l := range state.Parts[state.Learner](a.share.Of) {
		go httpx.Background("learning from the audit store", func() {
			if err := l.Learn(ctx, source); err != nil {
				a.logger.Warn("learning from the audit store", zap.Error(err))
			}
		})
	}
}
