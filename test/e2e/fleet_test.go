// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/redis"
)

// fleet is several Caddys before one model. A client uses any of them.
type fleet struct {
	nodes   []*fleetNode
	model   *fleetModel
	retries atomic.Int64 // requests without a response
	begun   sync.Map     // requests that a node may have read, by fleetCall
	answers sync.Map     // fleetAnswer by fleetCall
}

// startFleet starts n Caddys with a store and a policy.
func startFleet(t *testing.T, n int, store, policy string, model *fleetModel) *fleet {
	t.Helper()
	f := &fleet{model: model}
	for range n {
		f.nodes = append(f.nodes, startNode(t, store, "llm_cache {\n\t\tupstream anthropic\n\t\tpolicy "+policy+
			"\n\t}\n\treverse_proxy "+model.addr))
	}
	return f
}

// fleetCall is a call of a conversation.
type fleetCall struct {
	talk *fleetTalk
	call int
}

// fleetHost is the clients' name for all nodes.
const fleetHost = "llm.example"

var errCut = errors.New("the answer has no end")

// ask sends a call of a conversation to a random node, and to another one without a response, like
// a load balancer.
func (f *fleet) ask(ctx context.Context, talk *fleetTalk, call int) error {
	var err error
	for range 600 {
		n := f.nodes[rand.IntN(len(f.nodes))]
		var retry bool
		if retry, err = f.askOne(ctx, n, talk, call); !retry {
			f.answers.Store(fleetCall{talk, call}, fleetAnswer{n, time.Now()})
			return err
		}
		f.retries.Add(1)
		if !errors.Is(err, syscall.ECONNREFUSED) { // the node may have read it, and committed its edits
			f.begun.Store(fleetCall{talk, call}, true)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

func (f *fleet) askOne(ctx context.Context, n *fleetNode, talk *fleetTalk, call int) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.addr+"/v1/messages",
		bytes.NewReader(talk.body(call)))
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

// runs runs all conversations concurrently to their ends, in the order of a seed. after receives
// the number of finished calls.
func (f *fleet) runs(t *testing.T, talks []*fleetTalk, seed uint64, after func(calls int64)) {
	t.Helper()
	var (
		mu     sync.Mutex
		random = rand.New(rand.NewPCG(seed, 1))
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

// patient returns a store with a long timeout. The test compares requests while the server
// responds, on a machine that may be slow.
func patient(s *redis.Server) string {
	return impatient("{\n\t\t\taddress " + s.Addr + waits)
}

// fleetKey is the key of all stores: the ids of stubs depend on it.
const fleetKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// Several Caddys share one Redis, and any of them gets the next request of recorded conversations.
// Some are killed or reloaded meanwhile. No request fails, and the model gets the same bytes as
// from a single Caddy that never stops. Exceptions are retried calls that were read or answered
// before, and calls after one whose node was killed right after its response.
//
// LLM_CACHE_FLEET is the duration of the test, with all recordings. Without it a few of them are
// sent once. The timing of folds under cost_aware depends on learned pauses, which Caddys share
// only every ten seconds. So for long tests its costs are compared.
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
	for _, c := range []fleetCase{
		{"2 cost_aware", 2, "cost_aware", true, long == 0},
		{"4 cost_aware", 4, "cost_aware", true, long == 0},
		{"4 eager", 4, "eager", true, true},
		{"2 eager, none killed", 2, "eager", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for begun, seed := time.Now(), uint64(1); seed == 1 || time.Since(begun) < long && !t.Failed(); seed++ {
				c.compare(t, talks, seed)
			}
		})
	}
}

// fleetCase is a number of Caddys with a policy. It says whether some are killed, and whether
// bodies or only costs are compared.
type fleetCase struct {
	name            string
	size            int
	policy          string
	kills, bytewise bool
}

func (c *fleetCase) compare(t *testing.T, talks []*fleetTalk, seed uint64) {
	const (
		killEvery   = 60 // calls, each right after a response: far more is lost than by a crash every ten seconds
		reloadEvery = 25
		mostCost    = 1.03 // times the cost of one alone
	)
	alone := startModel(t, talks)
	startFleet(t, 1, "disk {\n\t\t\tkey "+fleetKey+"\n\t\t}", c.policy, alone).runs(t, talks, seed, func(int64) {})
	model := startModel(t, talks)
	f := startFleet(t, c.size, patient(startRedis(t)), c.policy, model)
	var killed, loaded atomic.Int64
	f.runs(t, talks, seed, func(calls int64) {
		n := f.nodes[rand.IntN(c.size)]
		switch {
		case c.kills && calls%killEvery == 0:
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
			// A call that was answered twice counts twice for the decisions after it, as with a
			// single Caddy. The same holds for calls of a node that ended between commit and
			// sending, or right after its response.
			_, begun := f.begun.Load(fleetCall{talk, call})
			answer, _ := f.answers.Load(fleetCall{talk, call - 1})
			before, ok := answer.(fleetAnswer)
			again = again || begun || len(got) > 1 || ok && before.untold()
			if !slices.ContainsFunc(got, func(b []byte) bool { return !bytes.Equal(b, want[0]) }) {
				same++
			} else if !again && c.bytewise {
				t.Fatalf("%s, call %d: %s", talk.name, call, firstDifference(want[0], got))
			}
		}
	}
	one, many := alone.cost(), model.cost()
	t.Logf("%d Caddys: %d calls, %d with folds, %d the same, %d killed, %d loaded, %d asked again, cost %.0f against "+
		"%.0f (%+.2f %%)",
		c.size, all, folds, same, killed.Load(), loaded.Load(), f.retries.Load(), many, one, (many/one-1)*100)
	if folds == 0 || (killed.Load() > 0) != c.kills || loaded.Load() == 0 {
		t.Error("nothing was tested")
	}
	if same < all/4 && c.bytewise {
		t.Errorf("only %d of %d are the same", same, all)
	}
	if many > one*mostCost {
		t.Errorf("they cost %.0f, one alone %.0f", many, one)
	}
}

// firstDifference describes the first difference between bodies.
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

// Caddys with the same key send a conversation to the same upstream, regardless of the node.
func TestFleetAgreesOnUpstreams(t *testing.T) {
	needCaddy(t)
	var behind []string
	for range 4 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w,
				`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"%s"}],`+
					`"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}`, r.Host)
		}))
		t.Cleanup(s.Close)
		behind = append(behind, s.Listener.Addr().String())
	}
	site := "llm_cache\n\treverse_proxy " + strings.Join(behind, " ") +
		" {\n\t\tlb_policy llm_session\n\t\theader_up Host {upstream_hostport}\n\t}"
	store := patient(startRedis(t))
	nodes := []*fleetNode{startNode(t, store, site), startNode(t, store, site), startNode(t, store, site)}
	used := map[string]bool{}
	for i := range 20 {
		said := map[string]bool{}
		for _, n := range nodes {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.addr+"/v1/messages",
				strings.NewReader(fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user",`+
					`"content":"Question %d."}]}`, i)))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = fleetHost
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Api-Key", "sk-test")
			resp, err := fresh.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			text := gjson.GetBytes(b, "content.0.text").Str
			if err != nil || text == "" {
				t.Fatalf("%v: %s", err, b)
			}
			said[text] = true
			used[text] = true
		}
		if len(said) != 1 {
			t.Errorf("conversation %d goes to %v", i, said)
		}
	}
	if len(used) < 2 {
		t.Errorf("all conversations go to %v", used)
	}
}

// folded matches the ids of stubs in a body.
var folded = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8})`)

// A Caddy with sessions on disk that is killed repeatedly keeps its folds: no request fails, and
// folded blocks stay folded.
func TestDiskOverKills(t *testing.T) {
	needCaddy(t)
	talks := recordedTalks(t, 4, 120)
	model := startModel(t, talks)
	f := startFleet(t, 1, "disk", "cost_aware", model)
	killed := 0
	var mu sync.Mutex
	f.runs(t, talks, 1, func(calls int64) {
		if calls%40 == 0 {
			mu.Lock()
			defer mu.Unlock()
			f.nodes[0].dies(t)
			killed++
		}
	})
	folds := 0
	for _, talk := range talks {
		stays := map[string]bool{}
		for call := range talk.calls {
			for _, body := range model.of(talk, call) {
				there := map[string]bool{}
				for _, m := range folded.FindAllSubmatch(body, -1) {
					there[string(m[1])] = true
				}
				for id := range stays {
					if !there[id] {
						t.Fatalf("%s, call %d: block %s is not folded any more", talk.name, call, id)
					}
				}
				stays = there
				folds += len(there)
			}
		}
	}
	if folds == 0 || killed == 0 {
		t.Errorf("%d folds, %d killed", folds, killed)
	}
	t.Logf("%d folds in all bodies, %d times killed, %d asked again", folds, killed, f.retries.Load())
}
