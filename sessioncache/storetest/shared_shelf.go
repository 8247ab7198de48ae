// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"context"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// SharedShelf is a [sessioncache.Shared] in memory, for several stores at once.
type SharedShelf struct {
	Shelf
	// Fetches counts the calls of Fetch.
	Fetches int
}

var _ sessioncache.Watcher = (*SharedShelf)(nil)

// Unchanged implements [sessioncache.Watcher].
func (s *SharedShelf) Unchanged(d sessioncache.Digest, have sessioncache.Version) bool {
	end, err := s.begin()
	defer end()
	return err == nil && have != 0 && s.versions[d] == have
}

// Fetch implements [sessioncache.Shared].
func (s *SharedShelf) Fetch(
	_ context.Context, d sessioncache.Digest, have sessioncache.Version,
) ([]byte, sessioncache.Version, error) {
	end, err := s.begin()
	defer end()
	s.Fetches++
	now := s.versions[d]
	if err != nil || now == have {
		return nil, now, err
	}
	return bytes.Clone(s.records[d].Snapshot), now, nil
}

// Seek implements [sessioncache.Shared].
func (s *SharedShelf) Seek(
	ctx context.Context, answer, d sessioncache.Digest, have sessioncache.Version,
) (of sessioncache.Digest, snapshot []byte, now sessioncache.Version, err error) {
	of, ok, err := s.Answered(ctx, answer)
	if err != nil || ok && of != d {
		return of, nil, 0, err
	}
	snapshot, now, err = s.Fetch(ctx, d, have)
	return d, snapshot, now, err
}

// Swap implements [sessioncache.Shared].
func (s *SharedShelf) Swap(_ context.Context, swaps []*sessioncache.Swap) {
	end, err := s.begin()
	defer end()
	for _, w := range swaps {
		now, snapshot := s.versions[w.Digest], s.records[w.Digest].Snapshot
		switch {
		case err != nil:
			w.Err = err
		case now != 0 && now != w.Have && (w.Have != 0 || len(snapshot) > 0):
			w.Other, w.Now = bytes.Clone(snapshot), now
		default:
			if w.Now = w.Next; w.Forget {
				delete(s.records, w.Digest)
				delete(s.versions, w.Digest)
				continue
			}
			s.put(&w.Record, w.Next)
		}
	}
}

// Save implements [sessioncache.Backend].
func (s *SharedShelf) Save(_ context.Context, records []sessioncache.Record) error {
	end, err := s.begin()
	defer end()
	for i := range records {
		if err == nil {
			s.put(&records[i], sessioncache.NewVersion())
		}
	}
	return err
}

// Delete implements [sessioncache.Backend].
func (s *SharedShelf) Delete(_ context.Context, d sessioncache.Digest) error {
	end, err := s.begin()
	defer end()
	if err == nil {
		s.put(&sessioncache.Record{Digest: d}, sessioncache.NewVersion())
	}
	return err
}

// put keeps a record, or deletes it if its snapshot is empty. The lock is held.
func (s *SharedShelf) put(r *sessioncache.Record, version sessioncache.Version) {
	if s.records == nil {
		s.records = map[sessioncache.Digest]sessioncache.Record{}
	}
	if s.versions == nil {
		s.versions = map[sessioncache.Digest]sessioncache.Version{}
	}
	s.versions[r.Digest] = version
	s.Saves++
	if len(r.Snapshot) == 0 {
		delete(s.records, r.Digest)
		return
	}
	kept := *r
	kept.Snapshot = bytes.Clone(r.Snapshot)
	s.records[r.Digest] = kept
}
