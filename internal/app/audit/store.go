// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"time"
)

// Store is where records are kept. Its methods are called by one goroutine at a
// time, except Each.
type Store interface {
	// Write keeps a batch, all of it or nothing. A batch that is written again
	// after an error, because nobody knows what became of it, is kept once.
	Write(ctx context.Context, batch []*Record) error
	// Prune forgets what is older than before and returns the number of records
	// that went.
	Prune(ctx context.Context, before time.Time) (int64, error)
	// Close releases what the store holds.
	Close() error
}

// Prober is a store that opens without being reached.
type Prober interface {
	// Probe reaches the store, or returns why it cannot.
	Probe(ctx context.Context) error
}

// Source is a store that can be read again.
type Source interface {
	// Each calls f for every record since a time, oldest first, without content,
	// until f returns an error, which it returns. The record is f's only until
	// it returns.
	Each(ctx context.Context, since time.Time, f func(*Record) error) error
	// Close releases what the source holds.
	Close() error
}
