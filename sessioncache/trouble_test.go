// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// troubled is a shared backend of three shards, some records of which are in trouble.
type troubled struct {
	storetest.SharedShelf

	mu      sync.Mutex
	trouble func(ctx context.Context, d sessioncache.Digest, write bool) error // nil if there is none
	tries   map[sessioncache.Digest]int                                        // in vain
}

const troubledShards = 3

func (*troubled) Shard(d sessioncache.Digest) uint8 { return d[0] % troubledShards }

func (b *troubled) set(trouble func(context.Context, sessioncache.Digest, bool) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = trouble
}

// tried is how often a record could not be written.
func (b *troubled) tried(d sessioncache.Digest) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries[d]
}

func (b *troubled) meets(ctx context.Context, d sessioncache.Digest, write bool) error {
	b.mu.Lock()
	trouble := b.trouble
	b.mu.Unlock()
	if trouble == nil {
		return nil
	}
	err := trouble(ctx, d, write)
	if err != nil && write {
		b.mu.Lock()
		b.tries[d]++
		b.mu.Unlock()
	}
	return err
}

func (b *troubled) Fetch(
	ctx context.Context, d sessioncache.Digest, have sessioncache.Version,
) ([]byte, sessioncache.Version, error) {
	if err := b.meets(ctx, d, false); err != nil {
		return nil, 0, err
	}
	return b.SharedShelf.Fetch(ctx, d, have)
}

func (b *troubled) Swap(ctx context.Context, swaps []*sessioncache.Swap) {
	for _, w := range swaps {
		if w.Err = b.meets(ctx, w.Digest, true); w.Err == nil {
			b.SharedShelf.Swap(ctx, []*sessioncache.Swap{w})
		}
	}
}

// hangs is a shard or a record of which nothing is heard.
func hangs(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// passage is one request of a conversation at one of the processes. It returns how long
// the request waited, and of how many of its answers the process knew.
func passage(t *testing.T, d *sessioncache.Store, id string, turn int) (waited time.Duration, known int) {
	t.Helper()
	messages := `{"role":"user","content":"0"}`
	for i := range turn {
		messages += fmt.Sprintf(`,{"role":"assistant","content":"a%d"},{"role":"user","content":"u%d"}`, i, i)
	}
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := sharedKey
	k.ID, k.Request = id, v
	begun := time.Now()
	s := d.Acquire(t.Context(), k)
	s.Lock()
	m := s.Match(v)
	s.Unlock()
	states := sessioncache.NewBlockStates(len(v.MessageBlocks()))
	ctx, cancel := context.WithTimeout(t.Context(), d.Budget()-time.Since(begun))
	defer cancel()
	d.Claim(ctx, s, m, v, states, func(*sessioncache.Conversation) {})
	waited = time.Since(begun)
	s.Lock()
	s.CountRequest(s.Commit(m, v, states))
	s.Unlock()
	d.Keep(s)
	d.Publish(s)
	d.Release(s)
	return waited, (m.Common + 1) / 2
}

// A record that cannot be saved, or a shard that is lost, costs the others nothing: two
// processes go on with these as one does. The record is tried less and less often.
func TestTroubleIsConfined(t *testing.T) {
	const budget = 5 * time.Millisecond
	digest := func(id string) sessioncache.Digest {
		k := sharedKey
		k.ID = id
		return k.Digest()
	}
	var shards [troubledShards]string // sessions, one in each shard
	for i := 0; shards[0] == "" || shards[1] == "" || shards[2] == ""; i++ {
		shards[new(troubled).Shard(digest(strconv.Itoa(i)))] = strconv.Itoa(i)
	}
	victim, neighbour := shards[0], ""
	for i := 1000; neighbour == ""; i++ {
		if id := strconv.Itoa(i); new(troubled).Shard(digest(id)) == 0 {
			neighbour = id
		}
	}
	refused := errors.New("the server answers: no")
	for name, c := range map[string]struct {
		trouble  func(ctx context.Context, d sessioncache.Digest, write bool) error
		sound    []string // go on as if nothing was
		rests    []string // do so but for a few seconds
		maxTries int      // tries to write the victim in a minute
	}{
		"a record is refused": {
			trouble: func(_ context.Context, d sessioncache.Digest, write bool) error {
				if d == digest(victim) && write {
					return refused
				}
				return nil
			},
			sound:    []string{neighbour, shards[1], shards[2]},
			maxTries: 20, // by either process
		},
		"a record cannot be read": {
			trouble: func(_ context.Context, d sessioncache.Digest, _ bool) error {
				if d == digest(victim) {
					return refused
				}
				return nil
			},
			sound:    []string{neighbour, shards[1], shards[2]},
			maxTries: 20,
		},
		"a record takes too long": {
			trouble: func(ctx context.Context, d sessioncache.Digest, _ bool) error {
				if d == digest(victim) {
					return hangs(ctx)
				}
				return nil
			},
			sound:    []string{shards[1], shards[2]},
			rests:    []string{neighbour},
			maxTries: 20,
		},
		"a shard hangs": {
			trouble: func(ctx context.Context, d sessioncache.Digest, _ bool) error {
				if d[0]%troubledShards == 0 {
					return hangs(ctx)
				}
				return nil
			},
			sound:    []string{shards[1], shards[2]},
			maxTries: 130, // each second
		},
		"a shard is gone": {
			trouble: func(_ context.Context, d sessioncache.Digest, _ bool) error {
				if d[0]%troubledShards == 0 {
					return fmt.Errorf("dial: %w", sessioncache.ErrUnavailable)
				}
				return nil
			},
			sound:    []string{shards[1], shards[2]},
			maxTries: 1500, // a few times each second, with every turn and without
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := &troubled{tries: map[sessioncache.Digest]int{}}
				open := func() *sessioncache.Store {
					d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return back, nil }, Budget: budget}})
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				nodes := [2]*sessioncache.Store{open(), open()}
				defer func() { _, _ = nodes[0].Close(), nodes[1].Close() }()
				all := append(append([]string{victim}, c.sound...), c.rests...)
				const turns, begins, ends = 80, 5, 65
				for turn := range turns {
					switch turn {
					case begins:
						back.set(c.trouble)
					case ends:
						back.set(nil)
						if n := back.tried(digest(victim)); n > c.maxTries || n == 0 {
							t.Errorf("the victim was tried %d times, want 1 to %d", n, c.maxTries)
						}
						time.Sleep(64 * time.Second) // as long as a record waits at most
					}
					for i, id := range all {
						waited, known := passage(t, nodes[turn%2], id, turn)
						if waited > budget {
							t.Errorf("turn %d of %q waits %s, want %s at most", turn, id, waited, budget)
						}
						inTrouble := i == 0 && turn >= begins && turn <= ends+2 ||
							i > len(c.sound) && turn >= begins && turn < begins+8
						if !inTrouble && (waited != 0 || known != turn) && i <= len(c.sound) {
							t.Errorf("turn %d of %q: it waits %s and knows %d answers, want all", turn, id, waited, known)
						}
						if !inTrouble && i > len(c.sound) && known != turn {
							t.Errorf("turn %d of %q: it knows %d answers, want all", turn, id, known)
						}
						time.Sleep(time.Second / time.Duration(len(all)))
					}
				}
			})
		})
	}
}

// A batch in which a store of one process cannot keep one record keeps the others, and that
// one is tried less and less often.
func TestBatchWithoutTheOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := sharedKey
		k.ID = "refused"
		refused := k.Digest()
		shelf := &choosy{refuses: refused}
		d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return shelf, nil }}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "refused", "b"} {
			k.ID = id
			commitTo(t, d, k, firstMessage)
		}
		d.Flush()
		if kept := shelf.kept(); kept != 3 { // with the store's own
			t.Errorf("%d records are kept, want 3", kept)
		}
		before := shelf.meet(refused)
		time.Sleep(time.Minute)
		if tries := shelf.meet(refused) - before; tries == 0 || tries > 20 {
			t.Errorf("it is tried %d times in a minute, want 1 to 20", tries)
		}
		shelf.meet(sessioncache.Digest{0xff})
		time.Sleep(65 * time.Second)
		if kept := shelf.kept(); kept != 4 {
			t.Errorf("%d records are kept, want 4", kept)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// choosy is a backend that fails to write one record, and all records in the same call.
type choosy struct {
	storetest.Shelf
	mu      sync.Mutex
	refuses sessioncache.Digest
	tries   int
}

// meet lets it refuse another record, and returns how often it has met the one before.
func (c *choosy) meet(refuses sessioncache.Digest) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = refuses
	return c.tries
}

// kept is the number of its records.
func (c *choosy) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.Records())
}

func (c *choosy) Save(ctx context.Context, records []sessioncache.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(records, func(r sessioncache.Record) bool { return r.Digest == c.refuses }) {
		c.tries++
		return errors.New("string or blob too big")
	}
	return c.Shelf.Save(ctx, records)
}
