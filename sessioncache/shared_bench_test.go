// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// BenchmarkSharedTurn measures a turn with a shared store in this process: the check for foreign
// changes, and the publishing of the session.
func BenchmarkSharedTurn(b *testing.B) {
	for _, blocks := range []int{4, 100, 1000} {
		b.Run(fmt.Sprintf("%d blocks", blocks), func(b *testing.B) {
			d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return &storetest.SharedShelf{}, nil }, Budget: time.Minute}})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			var messages strings.Builder
			for i := range blocks {
				fmt.Fprintf(&messages, `{"role":"%s","content":"%d"},`, []string{"user", "assistant"}[i%2], i)
			}
			v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages.String()+
				`{"role":"user","content":"last"}]}`), nil)
			if err != nil {
				b.Fatal(err)
			}
			key := sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"}
			b.ReportAllocs()
			for b.Loop() {
				s := d.Acquire(b.Context(), key)
				s.Lock()
				match := s.Match(v)
				states := sessioncache.NewBlockStates(len(v.MessageBlocks()))
				if match.Conversation != nil {
					states = match.Conversation.States
				}
				l := s.Commit(match, v, states)
				l.Requests++ // as every turn changes something
				l.First = wire.AnswerID("first")
				s.Unlock()
				d.Keep(s)
				d.Publish(s)
				d.Release(s)
			}
		})
	}
}
