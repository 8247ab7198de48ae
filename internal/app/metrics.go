// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

var storeErrors = metric.CounterOf("store_errors_total",
	"What the store of sessions failed to do: open, load, save, claim, delete, restore, or damaged for a file that was "+
		"set aside.", "operation",
	"open", "load", "save", "claim", "delete", "restore", "damaged")

// troubleTime is the time for which a store counts as failing after a failure.
const troubleTime = time.Minute

type failed struct {
	operation string
	at        time.Time
}

// lastFailed has the last failure of each open store.
var lastFailed sync.Map // of *failed, by *sessioncache.Store

func storeFailed(store *sessioncache.Store, operation string) {
	storeErrors.WithLabelValues(operation).Inc()
	// A later failure must not hide that the file is not open.
	if last, ok := lastFailed.Load(store); !ok || last.(*failed).operation != "open" {
		lastFailed.Store(store, &failed{operation, time.Now()})
	}
}

// worksAgain clears a failure to open a store: it is open now, or not needed.
func worksAgain(store *sessioncache.Store) {
	if last, ok := lastFailed.Load(store); ok && last.(*failed).operation == "open" {
		lastFailed.CompareAndDelete(store, last)
	}
}

func storeTrouble(store *sessioncache.Store, now time.Time) string {
	last, ok := lastFailed.Load(store)
	if !ok {
		return ""
	}
	switch f := last.(*failed); {
	// A store that could not be opened fails until a configuration opens it.
	case f.operation == "open":
		return "the file cannot be opened: sessions are kept in memory only"
	case now.Sub(f.at) < troubleTime:
		return fmt.Sprintf("the file failed (%s) %s ago", f.operation, now.Sub(f.at).Round(time.Second))
	}
	return ""
}

func init() { // a variable would put these into the initialization order
	states := func(name, help string, value func(*state.State) float64) {
		metric.GaugeFunc(name, help, func(i *shared.Instance) (sum float64) {
			for _, s := range state.Open(i) {
				sum += value(s)
			}
			return sum
		})
	}
	sessions := func(name, help string, value func(sessioncache.StoreStats) float64) {
		states(name, help, func(s *state.State) float64 { return value(s.Stats()) })
	}
	sessions("sessions", "Sessions held.", func(s sessioncache.StoreStats) float64 { return float64(s.Sessions) })
	sessions("store_bytes", "Estimated bytes that sessions take.",
		func(s sessioncache.StoreStats) float64 { return float64(s.Bytes) })
	sessions("store_kept_sessions", "Sessions that outlive the process.",
		func(s sessioncache.StoreStats) float64 { return float64(s.Kept) })
	sessions("store_kept_bytes", "Estimated bytes that they take where they are kept.",
		func(s sessioncache.StoreStats) float64 { return float64(s.KeptBytes) })
}
