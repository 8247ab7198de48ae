// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// NewDurable returns a durable store that counts and logs its failures. where names the server in
// the log.
func NewDurable(logger *zap.Logger, where string, open func() (sessioncache.Backend, error), o sessioncache.DurableOptions) (*sessioncache.Durable, error) {
	return newDurable(nil, logger, where, open, o)
}

// newDurable is [NewDurable] with the failures counted for the store of, unless that is nil.
func newDurable(of sessioncache.Store, logger *zap.Logger, where string, open func() (sessioncache.Backend, error), o sessioncache.DurableOptions) (*sessioncache.Durable, error) {
	t := &trouble{logger: logger, where: where, store: of}
	o.Failed = t.failed
	d, err := sessioncache.NewDurable(open, o)
	if err == nil && t.store == nil {
		t.store = d
	}
	return d, err
}

// trouble counts each failure of a store, and logs one per tellAgain.
type trouble struct {
	logger *zap.Logger
	where  string // the file or server
	store  sessioncache.Store
	told   atomic.Int64 // the last log, in Unix nanoseconds
}

const tellAgain = 10 * time.Minute

func (t *trouble) failed(what string, err error) {
	storeFailed(t.store, what)
	now, last := time.Now().UnixNano(), t.told.Load()
	if last != 0 && now-last < int64(tellAgain) || !t.told.CompareAndSwap(last, now) {
		return
	}
	t.logger.Error("sessions may not outlive the process", zap.String("operation", what), zap.String("store", t.where), zap.Error(err))
}
