// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package sessioncache

import (
	"container/list"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// The bounds of the store of folded texts.
const (
	// MaxBlockBytes bounds all texts together.
	MaxBlockBytes = 64 << 20
	// MaxTenantBlockBytes bounds those of one tenant.
	MaxTenantBlockBytes = 16 << 20
	// BlockTTL is how long a text is kept after it was last put or asked for.
	BlockTTL = 3 * time.Hour
)

// Blocks keeps texts that were folded, for when the client itself has dropped
// them from its history. It is bounded by bytes, in all and for each tenant, and
// by time; what was not used for longest goes first. A text is found only by the
// session, the conversation and the name that it was put under.
type Blocks struct {
	mu      sync.Mutex
	all     map[blockKey]*list.Element
	order   *list.List // most recently used first
	bytes   int64
	tenants map[Tenant]int64
	files   *BlockFiles // where they are kept besides, nil for nowhere
}

type blockKey struct {
	session string
	scope   wire.Hash
	name    string
}

type block struct {
	key    blockKey
	tenant Tenant
	text   string
	at     time.Time
}

// blockOverhead is about what an entry takes besides its text, in bytes.
const blockOverhead = 250

func (b *block) size() int64 { return int64(len(b.text)) + blockOverhead }

// NewBlocks returns a store that is empty but for what the files hold, where
// texts are kept besides. They may be nil.
func NewBlocks(files *BlockFiles) *Blocks {
	return &Blocks{all: make(map[blockKey]*list.Element), order: list.New(), tenants: make(map[Tenant]int64), files: files}
}

// Put keeps a text under its name. The scope is the hash of the conversation's
// opening. Texts beyond the tenant's bound are not kept, nor are those of a session
// that was forgotten.
func (b *Blocks) Put(s *Session, scope wire.Hash, name, text string, now time.Time) {
	if s.Gone() {
		return
	}
	e := &block{key: blockKey{s.digest, scope, name}, tenant: s.tenant, text: text, at: now}
	if e.size() > MaxTenantBlockBytes {
		return
	}
	if b.files != nil {
		b.files.put(e.key, e.tenant, text, now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.all[e.key]; ok {
		b.drop(old)
	}
	b.all[e.key] = b.order.PushFront(e)
	b.bytes += e.size()
	b.tenants[e.tenant] += e.size()
	for at := b.order.Back(); at != nil; {
		x := at.Value.(*block)
		before := at.Prev()
		if now.Sub(x.at) > BlockTTL || b.bytes > MaxBlockBytes || b.tenants[x.tenant] > MaxTenantBlockBytes {
			b.drop(at)
		} else if b.tenants[e.tenant] <= MaxTenantBlockBytes {
			break
		}
		at = before
	}
}

// Get returns the text of a name in a conversation of a session.
func (b *Blocks) Get(s *Session, scope wire.Hash, name string, now time.Time) (string, bool) {
	key := blockKey{s.digest, scope, name}
	if text, ok := b.remembered(key, now); ok || b.files == nil {
		return text, ok
	}
	return b.files.get(key, s.tenant, now)
}

func (b *Blocks) remembered(key blockKey, now time.Time) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.all[key]
	if !ok {
		return "", false
	}
	e := at.Value.(*block)
	if now.Sub(e.at) > BlockTTL {
		b.drop(at)
		return "", false
	}
	e.at = now
	b.order.MoveToFront(at)
	return e.text, true
}

// Forget forgets all texts of a session.
func (b *Blocks) Forget(s *Session) {
	b.mu.Lock()
	for key, at := range b.all {
		if key.session == s.digest {
			b.drop(at)
		}
	}
	b.mu.Unlock()
	if b.files != nil {
		b.files.forget(s.digest, s.tenant)
	}
}

// Bytes returns the memory that is held.
func (b *Blocks) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// Close writes to the files what is yet to be written.
func (b *Blocks) Close() error { return b.files.Close() }

// SetLimits changes the bounds of the files, if there are any: the bytes of all
// of them, and how long a text is kept.
func (b *Blocks) SetLimits(maxBytes int64, ttl time.Duration, now time.Time) {
	if b.files != nil {
		b.files.setLimits(maxBytes, ttl, now)
	}
}

func (b *Blocks) drop(at *list.Element) {
	e := b.order.Remove(at).(*block)
	delete(b.all, e.key)
	b.bytes -= e.size()
	if b.tenants[e.tenant] -= e.size(); b.tenants[e.tenant] <= 0 {
		delete(b.tenants, e.tenant)
	}
}
