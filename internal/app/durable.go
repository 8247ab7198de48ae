// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Persister returns a persister of a store's sessions that counts and logs its failures, see
// [sessioncache.Store.Prepare]. The log names the backend.
func Persister(
	store *sessioncache.Store, logger *zap.Logger, o sessioncache.BackendOptions,
) (*sessioncache.Persister, error) {
	t := &trouble{logger: logger, where: o.Name, store: store, message: "sessions may not outlive the process"}
	o.Failed = t.failed
	return store.Prepare(o)
}

// trouble counts each failure of a store, and logs one per tellAgain.
type trouble struct {
	logger  *zap.Logger
	where   string // the file or server
	store   *sessioncache.Store
	message string
	logged  atomic.Int64 // the last log, in Unix nanoseconds
}

const tellAgain = 10 * time.Minute

func (t *trouble) failed(what string, err error) {
	if errors.Is(err, sessioncache.ErrPanicked) {
		httpx.BackgroundPanics.Inc()
	}
	storeFailed(t.store, what)
	now, last := time.Now().UnixNano(), t.logged.Load()
	// A store that is down fails with every session.
	if last != 0 && now-last < int64(tellAgain) || !t.logged.CompareAndSwap(last, now) {
		return
	}
	t.logger.Error(t.message, zap.String("operation", what), zap.String("store", t.where),
		zap.Error(err))
}
