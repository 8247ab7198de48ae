// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command fleet loads a Valkey or Redis server like many Caddys that share it, and prints the cost
// of a turn there.
//
//	go -C test run ./lab/fleet -address 127.0.0.1:6379 -nodes 50 -people 200
//
// Each node has its own store and pipeline, all in this process, without HTTP. Users talk
// concurrently, as fast as responses come. The server's counters are read before and after.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	own "github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/valkey"
	"github.com/valkey-io/valkey-go"
)

var (
	address = flag.String("address", "127.0.0.1:6379", "`host:port` of the server, which should have nothing else to do")
	nodes   = flag.Int("nodes", 50, "how many Caddys there are")
	people  = flag.Int("people", 200, "how many conversations there are at once")
	turns   = flag.Int("turns", 60, "how many requests each of them has")
	stray   = flag.Float64("stray", 1,
		"share of requests that come to a node chosen at random; the others to that of the request before")
	budget = flag.Duration("timeout", time.Second, "how long a request waits for the server")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// node is the state of one Caddy.
type node struct {
	store *sessioncache.Store
	pipe  *pipeline.Pipeline
}

func run(ctx context.Context) error {
	server, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{*address}, ForceSingleClient: true,
		DisableCache: true,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	prefix := fmt.Sprintf("fleet:%d:", rand.Uint32()) //nolint:gosec // no secret
	before, err := read(ctx, server)
	if err != nil {
		return err
	}
	var failed atomic.Int64
	all := make([]node, *nodes)
	for i := range all {
		all[i].pipe = pipeline.New(pipeline.Options{}, func(string, time.Time) pricing.Rules {
			return pricing.Rules{Write: 1.25, Write1h: 2, Read: 0.1, TTL: 5 * time.Minute, LongTTL: time.Hour}
		})
		v := own.Open(own.Options{Addresses: []string{*address}, Prefix: prefix, TTL: time.Hour})
		v.Reached(ctx)
		all[i].store, err = sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open:   func() (sessioncache.Backend, error) { return v, nil },
			Budget: *budget, Failed: func(string, error) { failed.Add(1) },
		}})
		if err != nil {
			return err
		}
		if err := all[i].store.Persister().Begin(); err != nil {
			return err
		}
	}
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		took []time.Duration
		sum  atomic.Int64
	)
	begun := time.Now()
	free := make(chan struct{}, 4*runtime.NumCPU())
	for i := range *people {
		work.Go(func() {
			c := newTalk(i)
			at := rand.IntN(*nodes) //nolint:gosec // any will do
			for range *turns {
				if rand.Float64() < *stray { //nolint:gosec // any will do
					at = rand.IntN(*nodes) //nolint:gosec // any will do
				}
				free <- struct{}{}
				waited, blocks := c.turn(&all[at])
				<-free
				sum.Add(int64(blocks))
				mu.Lock()
				took = append(took, waited)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	lasted := time.Since(begun)
	after, err := read(ctx, server)
	if err != nil {
		return err
	}
	n := float64(len(took))
	slices.Sort(took)
	fmt.Printf("%d nodes, %d conversations of %d turns, %.0f%% of requests at any node: %.0f turns/s, %d failures\n",
		*nodes, *people, *turns, *stray*100, n/lasted.Seconds(), failed.Load())
	fmt.Printf("a turn: %.1f blocks; %.2f commands (%s); %.0f bytes to the server, %.0f back; waits p50 %s, p99 %s; "+
		"server %.0f us of processor\n",
		float64(sum.Load())/n, (after.commands-before.commands)/n, after.less(before, n), (after.in-before.in)/n,
		(after.out-before.out)/n,
		took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond),
		(after.cpu-before.cpu)*1e6/n)
	memory := 0.0
	for i := range *people {
		d := keyOf(i).Digest()
		bytes, err := server.Do(ctx, server.B().MemoryUsage().Key(prefix+"session:{"+hex.EncodeToString(d[:8])+
			"}").Build()).AsInt64()
		if err != nil {
			return err
		}
		memory += float64(bytes)
	}
	fmt.Printf("a conversation at its end: %.0f bytes of the server's memory\n", memory/float64(*people))
	for i := range all {
		if err := all[i].store.Close(); err != nil {
			return err
		}
	}
	return nil
}

// talk is a conversation of an agent: one tool call a turn, and ten turns a task.
type talk struct {
	key      sessioncache.Key
	messages bytes.Buffer
	n, last  int
	random   *rand.Rand
}

func newTalk(i int) *talk {
	c := &talk{key: keyOf(i), random: rand.New(rand.NewPCG(1, uint64(i)))} //nolint:gosec // must repeat
	fmt.Fprintf(&c.messages, `{"role":"user","content":"Task %d: mend the build."}`, i)
	return c
}

func keyOf(i int) sessioncache.Key {
	return sessioncache.Key{
		Tenant: sessioncache.Tenant{byte(i), byte(i >> 8)}, Upstream: "anthropic llm.example",
		ID: strconv.Itoa(i),
	}
}

// turn sends the next request through a node. It returns the wait for the store and the number of
// blocks of the conversation.
func (c *talk) turn(n *node) (waited time.Duration, blocks int) {
	body := append([]byte(`{"model":"claude-sonnet-4-5","system":[{"type":"text","text":"`+strings.Repeat("Be helpful. ",
		400)+`","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read"}],"messages":[`), c.messages.Bytes()...)
	v, err := wire.Parse(wire.Anthropic, append(body, "]}"...), nil)
	if err != nil {
		panic(err) // the body is our own
	}
	clock := func(f func()) {
		begun := time.Now()
		f()
		waited += time.Since(begun)
	}
	var s *sessioncache.Session
	k := c.key
	k.Request = v
	clock(func() { s = n.store.Acquire(context.Background(), k) })
	x := n.pipe.Begin(v, s, time.Now())
	clock(func() {
		for !x.Claim(context.Background(), n.store) {
			x.Abandon()
			x = n.pipe.Begin(v, s, time.Now())
		}
	})
	c.n++
	id := fmt.Sprintf("toolu_%s_%d", c.key.ID, c.n)
	path := fmt.Sprintf("/src/pkg%d/file%d.go", c.random.IntN(20), c.random.IntN(200))
	prompt := x.Prompt.Body.Len() / 4
	x.Commit(&wire.Turn{ID: "msg_" + id, Done: true, Usage: wire.Usage{
		Read:    int64(min(c.last, prompt)),
		Write5m: int64(max(prompt-c.last, 0)), Output: 80, Reported: true,
	}}, time.Now())
	c.last = prompt
	clock(func() { n.store.Keep(s); n.store.Publish(s) })
	n.store.Flush() // it takes less time than passes between two turns
	n.store.Release(s)
	if c.n%10 == 0 {
		c.messages.WriteString(`,{"role":"assistant","content":"It is done."},{"role":"user","content":"Go on with the ` +
			`next."}`)
		return waited, len(v.Blocks)
	}
	fmt.Fprintf(&c.messages,
		`,{"role":"assistant","content":[{"type":"text","text":"I look at %s."},{"type":"tool_use","id":"%s",`+
			`"name":"Read","input":{"file_path":"%s"}}]}`, path, id, path)
	fmt.Fprintf(&c.messages, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":"`, id)
	for i := range 20 + c.random.IntN(80) {
		fmt.Fprintf(&c.messages, `%6d\tline %d of %s\n`, i, c.random.IntN(1e6), path)
	}
	c.messages.WriteString(`"}]}`)
	return waited, len(v.Blocks)
}

// counts are a server's counters.
type counts struct {
	commands, in, out, cpu float64
	by                     map[string]float64
}

func read(ctx context.Context, c valkey.Client) (counts, error) {
	text, err := c.Do(ctx, c.B().Info().Section("all").Build()).ToString()
	if err != nil {
		return counts{}, err
	}
	n := counts{by: map[string]float64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n.by[command], _ = strconv.ParseFloat(calls, 64)
			continue
		}
		x, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "total_net_input_bytes":
			n.in = x
		case "total_net_output_bytes":
			n.out = x
		case "used_cpu_user", "used_cpu_sys":
			n.cpu += x
		}
	}
	scripts := n.by["evalsha"] + n.by["eval"]
	n.by["getrange"] -= 2 * scripts // each script calls it twice, as a rule
	n.by["set"] -= scripts - n.by["rename"]
	for _, sent := range sentByNodes {
		n.commands += n.by[sent]
	}
	return n, nil
}

// sentByNodes are the commands that nodes send. Scripts run others.
var sentByNodes = []string{"evalsha", "eval", "set", "get", "getrange"}

// less formats the difference of the commands since before, divided by n.
func (c counts) less(before counts, n float64) string {
	var parts []string
	for _, name := range sentByNodes {
		if d := c.by[name] - before.by[name]; d > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f", name, d/n))
		}
	}
	return strings.Join(parts, ", ")
}
