// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// ordered is a shelf that knows in which order it was given records.
type ordered struct {
	*storetest.Shelf
	saved []sessioncache.Digest
}

func (o *ordered) Save(ctx context.Context, records []sessioncache.Record) error {
	for i := range records {
		o.saved = append(o.saved, records[i].Digest)
	}
	return o.Shelf.Save(ctx, records)
}

// Changed sessions are written in the order of their creation.
func TestWritesInOrder(t *testing.T) {
	o := &ordered{Shelf: new(storetest.Shelf)}
	d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return o, nil }, Interval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	var want []sessioncache.Digest
	for i := range 100 {
		k := sharedKey
		k.ID = strconv.Itoa(i)
		want = append(want, k.Digest())
		s := d.Acquire(t.Context(), k)
		v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Lock()
		s.CountRequest(s.Commit(s.Match(v), v, sessioncache.NewBlockStates(1)))
		s.Unlock()
		d.Release(s)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(o.saved, func(d sessioncache.Digest) bool { return d == sessioncache.Digest{} })
	if !slices.Equal(got, want) {
		t.Errorf("%d sessions were written in another order", len(got))
	}
}
