// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"time"
)

// Store stores records. One goroutine at a time calls its methods, except Each.
type Store interface {
	// Write stores a batch, all of it or nothing. It stores a batch only once that is written again
	// after an error of unknown effect.
	Write(ctx context.Context, batch []*Record) error
	// Prune deletes the records before a time and returns their number.
	Prune(ctx context.Context, before time.Time) (int64, error)
	// Close releases the store's resources.
	Close() error
}

// Prober is a store that opens without a connection.
type Prober interface {
	// Probe connects to the store, or returns the reason why it cannot.
	Probe(ctx context.Context) error
}

// Source is a store that can be read again.
type Source interface {
	// Each calls f for every record since a time, oldest first, without content. It stops at f's
	// first error and returns it. The record is valid until f returns.
	Each(ctx context.Context, since time.Time, f func(*Record) error) error
	// Close releases the source's resources.
	Close() error
}
