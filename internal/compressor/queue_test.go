// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestQueue says that tenants take turns, that none fills the queue, and that a text
// waits once.
func TestQueue(t *testing.T) {
	q := newQueue()
	q.limit = 4000
	job := func(tenant, block byte, size int) Job {
		return Job{
			ID: ID{Block: wire.Hash{tenant, block}}, Tenant: sessioncache.Tenant{tenant},
			Text: strings.Repeat("a", size),
		}
	}
	for _, c := range []struct {
		tenant, block byte
		size          int
		want          bool
	}{
		{1, 1, 400, true},
		{1, 2, 400, true},
		{1, 2, 400, true},
		{1, 3, 400, false},
		{2, 1, 1000, true},
		{2, 2, 1, false},
		{3, 1, 1000, true},
		{4, 1, 1000, true},
		{5, 1, 300, false},
		{5, 2, 200, true},
	} {
		if got := q.put(job(c.tenant, c.block, c.size)); got != c.want {
			t.Errorf("%+v: put is %t", c, got)
		}
	}
	if q.bytes != 4000 {
		t.Errorf("%d bytes", q.bytes)
	}
	var order []byte
	for {
		j, ok := q.next()
		if !ok {
			break
		}
		order = append(order, j.Tenant[0])
		if !q.put(j) || q.bytes > 4000 {
			t.Error("what is being worked on waits again")
		}
		q.done(j.ID)
	}
	if string(order) != "\x01\x02\x03\x04\x05\x01" {
		t.Errorf("order is %v", order)
	}
	if q.bytes != 0 || len(q.tenants) != 0 || len(q.known) != 0 {
		t.Errorf("left: %d bytes, %d tenants, %d known", q.bytes, len(q.tenants), len(q.known))
	}
}
