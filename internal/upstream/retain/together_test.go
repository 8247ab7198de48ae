// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestTogether: a turn's base stays unchanged until the turn ends, despite concurrent turns, and
// every delta rebuilds its body from the state of its handle.
func TestTogether(t *testing.T) {
	e := retain.New(delta.NewEdge(), lru.NewPool[sessioncache.Tenant](1<<20), time.Hour, time.Now)
	var upstream sync.Map // states by handle
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				k := key(byte(g%2), fmt.Sprint(i%3), byte(i%2))
				body := bytes.Repeat(fmt.Appendf(nil, "%d said %d; ", g, i%7), 40+i)
				turn := e.Begin(k, &retain.Request{Body: body})
				if turn.Delta != nil {
					var base []byte
					if turn.Base != nil {
						v, _ := upstream.Load(turn.Base.Handle)
						if base, _ = v.([]byte); !bytes.Equal(base, turn.Base.Body) {
							t.Error("what is gone on from is not what the upstream holds")
						}
					}
					if got, err := delta.Make(base, turn.Delta, 1<<20); err != nil || !bytes.Equal(got, body) {
						t.Errorf("another body: %v", err)
					}
				}
				if i%11 == 0 {
					turn.Miss(retain.Cut)
				}
				handle := fmt.Sprint(g, " ", i)
				upstream.Store(handle, body)
				turn.Retain(retain.Verdict{Handle: handle})
				turn.End()
			}
		})
	}
	all.Wait()
}

// TestPieces: bodies of many pieces are rebuilt exactly, wherever they have changed, and unchanged
// bytes are not sent.
func TestPieces(t *testing.T) {
	e := retain.New(delta.NewEdge(), lru.NewPool[sessioncache.Tenant](8<<20), time.Hour, time.Now)
	noise := rand.New(rand.NewPCG(1, 2))
	text := func(n int) (b []byte) {
		for range n {
			b = append(b, byte(noise.Uint32()))
		}
		return b
	}
	body := text(300 << 10)
	var kept []byte // at the upstream
	for i := range 200 {
		at, was := noise.IntN(len(body)), len(kept)
		switch next := bytes.Clone(body); i % 6 {
		case 0: // unchanged
		case 1:
			body = append(next, text(20<<10)...)
		case 2:
			next[at] ^= 1
			body = next
		case 3:
			body = slices.Insert(next, at, text(100)...)
		case 4:
			body = slices.Delete(next, at, min(at+10<<10, len(next)))
		case 5: // cut at the end of a piece
			body = next[:max(1, len(next)>>16)<<16]
		}
		turn := e.Begin(key(1, "s", 1), &retain.Request{Body: body})
		switch {
		case i == 0:
			if turn.Delta != nil {
				t.Fatal("the first is a difference")
			}
		case turn.Delta == nil:
			t.Fatalf("%d: %d bytes after %d go whole: %s", i, len(body), was, turn.Cause)
		default:
			if got, err := delta.Make(kept, turn.Delta, 1<<24); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%d: another body: %v", i, err)
			}
			if n := (was + 1<<16 - 1) >> 16; i > 1 && len(turn.Base.Sums) != n {
				t.Errorf("%d: %d hashes of %d pieces are known", i, len(turn.Base.Sums), n)
			}
			if len(turn.Delta) > 21<<10 {
				t.Errorf("%d: a difference of %d bytes", i, len(turn.Delta))
			}
		}
		kept = body
		turn.Retain(retain.Verdict{Handle: fmt.Sprint(i)})
		turn.End()
	}
}
