// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Shelf is the simplest correct [sessioncache.Backend], in memory. Its records survive the stores
// that use it one after the other.
type Shelf struct {
	// Fail returns the error of all operations while it is set.
	Fail func() error

	mu       sync.Mutex
	records  map[sessioncache.Digest]sessioncache.Record
	versions map[sessioncache.Digest]sessioncache.Version
	// Saves counts the records that were saved.
	Saves int
}

var _ sessioncache.Backend = (*Shelf)(nil)

func (s *Shelf) begin() (end func(), err error) {
	s.mu.Lock()
	if s.Fail != nil {
		err = s.Fail()
	}
	return s.mu.Unlock, err
}

// Load implements [sessioncache.Backend].
func (s *Shelf) Load(_ context.Context, d sessioncache.Digest) ([]byte, error) {
	end, err := s.begin()
	defer end()
	return bytes.Clone(s.records[d].Snapshot), err
}

// Answered implements [sessioncache.Backend].
func (s *Shelf) Answered(
	_ context.Context, answer sessioncache.Digest,
) (found sessioncache.Digest, ok bool, err error) {
	end, err := s.begin()
	defer end()
	for d, r := range s.records {
		if slices.Contains(r.Answers, answer) && (!ok || r.Used.After(s.records[found].Used)) {
			found, ok = d, true
		}
	}
	return found, ok, err
}

// Named implements [sessioncache.Backend].
func (s *Shelf) Named(_ context.Context, begins [8]byte) (sessioncache.Digest, bool, error) {
	end, err := s.begin()
	defer end()
	for d := range s.records {
		if [8]byte(d[:8]) == begins {
			return d, true, err
		}
	}
	return sessioncache.Digest{}, false, err
}

// Save implements [sessioncache.Backend].
func (s *Shelf) Save(_ context.Context, records []sessioncache.Record) error {
	end, err := s.begin()
	defer end()
	if err != nil {
		return err
	}
	if s.records == nil {
		s.records = map[sessioncache.Digest]sessioncache.Record{}
	}
	for _, r := range records {
		r.Snapshot = bytes.Clone(r.Snapshot)
		s.records[r.Digest] = r
		s.Saves++
	}
	return nil
}

// Delete implements [sessioncache.Backend].
func (s *Shelf) Delete(_ context.Context, d sessioncache.Digest) error {
	end, err := s.begin()
	defer end()
	if err == nil {
		delete(s.records, d)
	}
	return err
}

// Usage implements [sessioncache.Backend].
func (s *Shelf) Usage() (sessions int, bytes int64) {
	end, _ := s.begin()
	defer end()
	for _, r := range s.records {
		bytes += int64(len(r.Snapshot))
	}
	return len(s.records), bytes
}

// Records returns the records, for inspection or damage by a test.
func (s *Shelf) Records() map[sessioncache.Digest]sessioncache.Record { return s.records }

// Close implements [sessioncache.Backend]. The records stay.
func (s *Shelf) Close() error { return nil }
