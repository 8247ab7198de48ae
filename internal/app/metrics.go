// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// storeErrors counts what the session store failed to do beyond the process.
var storeErrors = metric.CounterOf("store_errors_total", "What the store of sessions failed to do: open, load, save, claim, delete, restore, or damaged for a file that was set aside.", "operation",
	"open", "load", "save", "claim", "delete", "restore", "damaged")

// troubleTime is for how long a store is said to fail after it did. One that could not be
// opened fails until a configuration opens it.
const troubleTime = time.Minute

// failed is what a store failed to do last.
type failed struct {
	operation string
	at        time.Time
}

// lastFailed are the open stores that have failed to do something.
var lastFailed sync.Map // of *failed, by sessioncache.Store

func storeFailed(store sessioncache.Store, operation string) {
	storeErrors.WithLabelValues(operation).Inc()
	if last, ok := lastFailed.Load(store); !ok || last.(*failed).operation != "open" {
		lastFailed.Store(store, &failed{operation, time.Now()})
	}
}

// worksAgain forgets that a store could not be opened: it is open now, or not needed.
func worksAgain(store sessioncache.Store) {
	if last, ok := lastFailed.Load(store); ok && last.(*failed).operation == "open" {
		lastFailed.CompareAndDelete(store, last)
	}
}

// storeTrouble says in words what a store failed to do, "" where all is well.
func storeTrouble(store sessioncache.Store, now time.Time) string {
	last, ok := lastFailed.Load(store)
	if !ok {
		return ""
	}
	switch f := last.(*failed); {
	case f.operation == "open":
		return "the file cannot be opened: sessions are kept in memory only"
	case now.Sub(f.at) < troubleTime:
		return fmt.Sprintf("the file failed (%s) %s ago", f.operation, now.Sub(f.at).Round(time.Second))
	}
	return ""
}

func init() { // which keeps these out of the order in which variables begin
	states := func(name, help string, value func(*State) float64) {
		metric.GaugeFunc(name, help, func() (sum float64) {
			for _, s := range Open() {
				sum += value(s)
			}
			return sum
		})
	}
	sessions := func(name, help string, value func(sessioncache.StoreStats) float64) {
		states(name, help, func(s *State) float64 { return value(s.Stats()) })
	}
	sessions("sessions", "Sessions held.", func(s sessioncache.StoreStats) float64 { return float64(s.Sessions) })
	sessions("store_bytes", "Estimated bytes that sessions take.", func(s sessioncache.StoreStats) float64 { return float64(s.Bytes) })
	sessions("store_kept_sessions", "Sessions that outlive the process.", func(s sessioncache.StoreStats) float64 { return float64(s.Kept) })
	sessions("store_kept_bytes", "Estimated bytes that they take where they are kept.", func(s sessioncache.StoreStats) float64 { return float64(s.KeptBytes) })
	states("ping_targets", "Idle conversations that may be pinged.", func(s *State) float64 { return float64(s.Keeper.Targets()) })
}
