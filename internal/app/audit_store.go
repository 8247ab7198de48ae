// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// mendAgain is the minimum time between two damaged files that are set aside.
const mendAgain = time.Hour

// lateStore opens a store when the configuration starts, or when the first batch is due.
type lateStore struct {
	open   func() (audit.Store, error)
	logger *zap.Logger
	strict atomic.Bool // damaged files are left to the operator
	reads  atomic.Bool // the open store can be read again

	opening, writing fault

	mu     sync.Mutex
	store  audit.Store
	mended time.Time
	closed bool
}

type fault struct{ atomic.Pointer[string] }

func (f *fault) note(err error) {
	if err == nil {
		f.Store(nil)
		return
	}
	reason := audit.ReasonOf(err)
	auditErrors.WithLabelValues(reason).Inc()
	f.Store(&reason)
}

// trouble returns the reason for the store's failure, "" if it works.
func (l *lateStore) trouble() string {
	for _, f := range [...]*fault{&l.opening, &l.writing} {
		if reason := f.Load(); reason != nil {
			return *reason
		}
	}
	return ""
}

func (l *lateStore) get() (audit.Store, error) { return l.opened(l.strict.Load()) }

func (l *lateStore) opened(strict bool) (audit.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil || l.closed {
		return l.store, errClosed(l.store)
	}
	// A configuration that is only validated must not touch files, so nothing is open yet.
	store, err := l.open()
	l.opening.note(err)
	if !strict && l.mend(err) {
		store, err = l.open()
		l.opening.note(err)
	}
	if err != nil {
		// The next call tries again.
		return nil, err
	}
	l.store = store
	_, reads := store.(audit.Source)
	l.reads.Store(reads)
	return store, nil
}

func errClosed(s audit.Store) error {
	if s == nil {
		return errors.New("the audit store is closed")
	}
	return nil
}

// ready opens the store and connects to it. With strict set, damaged files are left alone.
func (l *lateStore) ready(ctx context.Context, strict bool) error {
	s, err := l.opened(strict)
	// The store of a server opens without connecting.
	if p, ok := s.(audit.Prober); ok && err == nil {
		err = p.Probe(ctx)
		l.opening.note(err)
	}
	return err
}

// mend sets the damaged file of an error aside, and reports whether a new one can be made.
func (l *lateStore) mend(err error) bool {
	d, ok := errors.AsType[*audit.DamagedError](err)
	// If a medium damages one file after another, further ones are of no use.
	if !ok || time.Since(l.mended) < mendAgain {
		return false
	}
	if l.store != nil {
		_ = l.store.Close() // fails like every call on a damaged file
		l.store = nil
		l.reads.Store(false)
	}
	damaged, failed := d.SetAside()
	if failed != nil {
		l.logger.Error("audit file is damaged and cannot be set aside", zap.Error(errors.Join(err, failed)))
		return false
	}
	l.mended = time.Now()
	l.logger.Error("audit file is damaged: it was set aside, and a new one begins", zap.String("aside", damaged),
		zap.Error(err))
	return true
}

func (l *lateStore) check(s audit.Store, err error) error {
	if _, ok := errors.AsType[*audit.DamagedError](err); ok && !l.strict.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		// Another goroutine may have set this file aside.
		if l.store == s {
			l.mend(err)
		}
	}
	return err
}

// Write implements audit.Store.
func (l *lateStore) Write(ctx context.Context, batch []*audit.Record) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	err = s.Write(ctx, batch)
	l.writing.note(err)
	return l.check(s, err)
}

// Prune implements audit.Store.
func (l *lateStore) Prune(ctx context.Context, before time.Time) (int64, error) {
	s, err := l.get()
	if err != nil {
		return 0, err
	}
	n, err := s.Prune(ctx, before)
	return n, l.check(s, err)
}

// source returns the store if it can be read again, else nil.
func (l *lateStore) source() (audit.Source, error) {
	s, err := l.get()
	if _, ok := s.(audit.Source); !ok || err != nil {
		return nil, err
	}
	return l, nil
}

// Each implements audit.Source.
func (l *lateStore) Each(ctx context.Context, since time.Time, f func(*audit.Record) error) error {
	s, err := l.get()
	if err != nil {
		return err
	}
	source, ok := s.(audit.Source)
	if !ok {
		return errForgets
	}
	return l.check(s, source.Each(ctx, since, f))
}

// Recent implements audit.RecentSource.
func (l *lateStore) Recent(ctx context.Context, f audit.Filter) ([]audit.Turn, error) {
	s, err := l.get()
	if err != nil {
		return nil, err
	}
	source, ok := s.(audit.Source)
	if !ok {
		return nil, errForgets
	}
	turns, err := audit.Recent(ctx, source, f)
	return turns, l.check(s, err)
}

// Close implements audit.Store.
func (l *lateStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}
