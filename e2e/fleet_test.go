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

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/redis"
)

// fleet is several Caddys in front of one model, of which a client asks any.
type fleet struct {
	nodes   []*fleetNode
	model   *fleetModel
	retries atomic.Int64 // requests that a node did not answer
}

// fleetNode is one of them. It is killed and started anew in the same folder.
type fleetNode struct {
	addr, admin, dir, config string

	mu      sync.Mutex
	process *caddy.Process
	loads   int
}

// startFleet starts so many Caddys, which keep sessions in a store and edit by a policy.
func startFleet(t *testing.T, n int, store, policy string, model *fleetModel) *fleet {
	t.Helper()
	f := &fleet{model: model}
	for range n {
		f.nodes = append(f.nodes, startNode(t, store, "llm_cache {\n\t\tupstream anthropic\n\t\tpolicy "+policy+"\n\t}\n\treverse_proxy "+model.addr))
	}
	return f
}

func startNode(t *testing.T, store, site string) *fleetNode {
	t.Helper()
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[1])
	n := &fleetNode{addr: addrs[1], admin: addrs[0], dir: t.TempDir()}
	n.config = fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	grace_period 5s
	log {
		level WARN
	}
	llm_cache {
		store %s
	}
}
http://:%s {
	bind 127.0.0.1
	%s
}
`, n.admin, store, port, site)
	n.start(t)
	t.Cleanup(func() {
		if err := n.process.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log of a node ends with\n%s", n.process.LogTail())
		}
	})
	return n
}

func (n *fleetNode) start(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p, err := caddy.Start(ctx, binary, n.dir, n.admin, n.config)
	if err != nil {
		t.Error(err)
		return
	}
	n.process = p
}

// dies ends the node as a crash would, and starts it anew.
func (n *fleetNode) dies(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process.Kill()
	n.start(t)
}

// reloads loads another configuration, of the same meaning.
func (n *fleetNode) reloads(t *testing.T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loads++
	if err := n.process.Reload(t.Context(), fmt.Sprintf("%s\nhttp://127.0.0.1:1 {\n\tbind unix//%s/x.sock\n\trespond %d\n}\n", n.config, n.dir, 200+n.loads%100)); err != nil {
		t.Error(err)
	}
}

// fleetHost is the name under which clients know all nodes.
const fleetHost = "llm.example"

var errCut = errors.New("the answer has no end")

// ask sends a call of a conversation to a node chosen at random, and to another one if
// that does not answer, as a balancer does with what its upstreams drop.
func (f *fleet) ask(ctx context.Context, talk *fleetTalk, call int) error {
	var err error
	for range 100 {
		n := f.nodes[rand.IntN(len(f.nodes))] //nolint:gosec // any will do
		var retry bool
		if retry, err = f.askOne(ctx, n, talk, call); !retry {
			return err
		}
		f.retries.Add(1)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

func (f *fleet) askOne(ctx context.Context, n *fleetNode, talk *fleetTalk, call int) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.addr+"/v1/messages", bytes.NewReader(talk.body(call)))
	if err != nil {
		return false, err
	}
	req.Host = fleetHost
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "sk-test")
	if talk.named {
		req.Header.Set("X-Session-Id", talk.name)
	}
	req.Header.Set(headerTalk, talk.name)
	req.Header.Set(headerCall, fmt.Sprint(call))
	resp, err := fresh.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return true, err
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s: %.300s", resp.Status, b)
	case talk.streamed && !bytes.Contains(b, []byte("event: message_stop")):
		return true, errCut
	}
	return false, nil
}

// runs has all conversations run to their ends, side by side, and in the order that a
// seed says. After is told how many calls have been answered.
func (f *fleet) runs(t *testing.T, talks []*fleetTalk, seed uint64, after func(calls int64)) {
	t.Helper()
	var (
		mu     sync.Mutex
		random = rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // must repeat
		at     = make([]int, len(talks))
		busy   = make([]bool, len(talks))
		calls  atomic.Int64
		work   sync.WaitGroup
	)
	next := func() (which int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		var free []int
		for i := range talks {
			if !busy[i] && at[i] < len(talks[i].calls) {
				free = append(free, i)
			}
		}
		if len(free) == 0 {
			return 0, false
		}
		which = free[random.IntN(len(free))]
		busy[which] = true
		return which, true
	}
	for range 3 {
		work.Go(func() {
			for !t.Failed() {
				i, ok := next()
				if !ok {
					return
				}
				if err := f.ask(t.Context(), talks[i], at[i]); err != nil {
					t.Errorf("%s, call %d: %v", talks[i].name, at[i], err)
				}
				mu.Lock()
				at[i]++
				busy[i] = false
				mu.Unlock()
				after(calls.Add(1))
			}
		})
	}
	work.Wait()
}

// startRedis starts a Redis server, which is killed when the test ends.
func startRedis(t *testing.T, args ...string) *redis.Server {
	t.Helper()
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	return starts(t)(redis.New(filepath.Join(t.TempDir(), "redis"), addrs[0], args...))
}

func starts(t *testing.T) func(*redis.Server, error) *redis.Server {
	return func(s *redis.Server, err error) *redis.Server {
		t.Helper()
		if errors.Is(err, redis.ErrMissing) {
			lacking(t, err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		return s
	}
}

// patient is a store at a server for which requests wait: what is compared is what is
// sent while the server can be asked, on a machine that may be slow.
func patient(s *redis.Server) string {
	return impatient("{\n\t\t\taddress " + s.Addr + waits)
}

// fleetKey is the key of all stores: the ids of stubs depend on it.
const fleetKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// Several Caddys over one Redis, any of which gets the next request of recorded
// conversations; now and then one is killed, and one gets a new configuration. No
// request fails, and what the model gets is what it gets from a single Caddy that never
// stopped, to the byte, up to a call that was answered and asked again.
//
// LLM_CACHE_FLEET is for how long it goes on, with all recordings. Without it a few of
// them are sent once.
func TestFleetSendsWhatOneSends(t *testing.T) {
	needCaddy(t)
	long, err := time.ParseDuration(cmp.Or(os.Getenv("LLM_CACHE_FLEET"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	most, calls := 4, 120
	if long > 0 {
		most, calls = 100, 1000
	}
	talks := recordedTalks(t, most, calls)
	for _, c := range []struct {
		size   int
		policy string
	}{{2, "cost_aware"}, {4, "cost_aware"}, {4, "eager"}} {
		t.Run(fmt.Sprintf("%d %s", c.size, c.policy), func(t *testing.T) {
			for begun, seed := time.Now(), uint64(1); seed == 1 || time.Since(begun) < long && !t.Failed(); seed++ {
				compareFleet(t, c.size, c.policy, talks, seed)
			}
		})
	}
}

func compareFleet(t *testing.T, size int, policy string, talks []*fleetTalk, seed uint64) {
	const (
		killEvery   = 60 // calls
		reloadEvery = 25
	)
	alone := startModel(t, talks)
	startFleet(t, 1, "disk {\n\t\t\tkey "+fleetKey+"\n\t\t}", policy, alone).runs(t, talks, seed, func(int64) {})
	model := startModel(t, talks)
	f := startFleet(t, size, patient(startRedis(t)), policy, model)
	var killed, loaded atomic.Int64
	f.runs(t, talks, seed, func(calls int64) {
		n := f.nodes[rand.IntN(size)] //nolint:gosec // any will do
		switch {
		case calls%killEvery == 0:
			n.dies(t)
			killed.Add(1)
		case calls%reloadEvery == 0:
			n.reloads(t)
			loaded.Add(1)
		}
	})
	all, same, folds := 0, 0, 0
	for _, talk := range talks {
		again := false
		for call := range talk.calls {
			want, got := alone.of(talk, call), model.of(talk, call)
			all++
			if bytes.Contains(want[0], []byte("[[llm_cache:folded ")) || bytes.Contains(want[0], []byte("[Compacted: ")) {
				folds++
			}
			// What was answered twice counts twice for what it refers to, as it would have
			// if one Caddy had been asked again.
			again = again || len(got) > 1
			if !slices.ContainsFunc(got, func(b []byte) bool { return !bytes.Equal(b, want[0]) }) {
				same++
			} else if !again {
				t.Fatalf("%s, call %d: %s", talk.name, call, firstDifference(want[0], got))
			}
		}
	}
	one, many := alone.cost(), model.cost()
	t.Logf("%d Caddys: %d calls, %d with folds, %d the same, %d killed, %d loaded, %d asked again, cost %.0f against %.0f (%+.2f %%)",
		size, all, folds, same, killed.Load(), loaded.Load(), f.retries.Load(), many, one, (many/one-1)*100)
	if folds == 0 || killed.Load() == 0 || loaded.Load() == 0 {
		t.Error("nothing was tested")
	}
	if same < all/2 {
		t.Errorf("only %d of %d are the same", same, all)
	}
	if many > one*1.01 {
		t.Errorf("they cost %.0f, one alone %.0f", many, one)
	}
}

// firstDifference tells where bodies part.
func firstDifference(want []byte, got [][]byte) string {
	for _, b := range got {
		if bytes.Equal(b, want) {
			continue
		}
		i := 0
		for i < min(len(b), len(want)) && b[i] == want[i] {
			i++
		}
		return fmt.Sprintf("%d and %d bytes part at %d: %.120q, not %.120q", len(b), len(want), i, b[i:], want[i:])
	}
	return "none"
}
