// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// soakTime is how long TestSoak goes on, unless LLM_CACHE_SOAK says otherwise.
const soakTime = 6 * time.Second

// soakSites are the ways through llm_cache; the first is bare Caddy.
var soakSites = []struct{ name, directives string }{
	{"bare", ""},
	{"native", "llm_cache {\nkeepalive {\nmin_tokens 0\nmax_loss 10\n}\n}"}, // pings come after 4m45s, in long runs
	{"expand", "llm_cache {\npolicy eager\nzones {\nfrozen 0\nhot 1\nmin_messages 0\n}\nprune {\nafter 1\n}\n}"},
	{"to_chat", "llm_cache {\nupstream openai {\nformat openai_chat\n}\n}"},
	{"to_anthropic", "llm_cache {\nupstream anthropic\n}"},
	{"held_socket", "llm_cache {\nupstream openai\nretain websocket on\n}"},
	{"held_thread", "llm_cache {\nupstream anthropic\nretain threads on\n}"},
	{"box", "llm_cache {\nupstream mlx_lm\nqueue {\nslots 6\nmax_waiting 1000\nmax_wait 1m\n}\nrejoin 1s\nidle_folding\n}"},
}

// anthropicTongue speaks as an agent over the Messages API does.
var anthropicTongue = tongue{
	format: wire.Anthropic,
	path:   func(bool) string { return "/v1/messages" },
	request: func(history []remark, stream bool) string {
		body := conversation((len(history)-1)/2, stream)
		return strings.Replace(body, `"messages":`, `"tools":[{"name":"Read","description":`+js(longTool)+
			`,"input_schema":{"type":"object"}}],"messages":`, 1)
	},
}

// unsigned are the signatures that geminiTongue gives to calls.
var unsigned = regexp.MustCompile(`"thoughtSignature":"[^"]*"`)

// soakCounts are counters that tell whether everything took part, and whether
// anything broke.
var soakCounts = regexp.MustCompile(`^caddy_llm_cache_(pings_total|continuations_total|detached_total|idle_folds_total|background_panics_total|fail_open_total|sessions)\b`)

var foldedName = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8}): `)

// soakModel answers as a model does: mostly at length, now and then by asking for
// what was folded, if it has the tool for that.
func soakModel(_ context.Context, v *wire.View) *simulator.Answer {
	if v.Reply.MaxTokens == 0 && v.Format == wire.Anthropic {
		return nil
	}
	names := foldedName.FindAllSubmatch(v.Raw, -1)
	if len(names) > 0 && bytes.Contains(v.Raw, []byte(`"name":"mcp__llm_cache__expand"`)) && rand.IntN(4) == 0 {
		return &simulator.Answer{Blocks: []simulator.Block{{
			Type: simulator.ToolUse, ID: fmt.Sprint("call_", rand.Uint32()), Name: "mcp__llm_cache__expand",
			Input: []byte(fmt.Sprintf(`{"ids":[%q]}`, names[rand.IntN(len(names))][1])),
		}}}
	}
	return &simulator.Answer{Blocks: []simulator.Block{{Type: simulator.Text, Text: strings.Repeat("All is well so far. ",
		10+rand.IntN(200))}}}
}

// soakUpstream is a simulated model that is killed and comes back.
type soakUpstream struct {
	t    *testing.T
	addr string
	h    http.Handler
	srv  *http.Server
	done chan struct{}
}

func (u *soakUpstream) listen() {
	for range 100 {
		l, err := net.Listen("tcp", u.addr)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		u.srv, u.done = &http.Server{Handler: u.h}, make(chan struct{})
		go func(srv *http.Server, done chan struct{}) {
			defer close(done)
			_ = srv.Serve(l)
		}(u.srv, u.done)
		return
	}
	u.t.Error("the upstream does not come back")
}

func (u *soakUpstream) kill() {
	_ = u.srv.Close()
	<-u.done
}

// soakTally counts how requests ended, by their site and cause.
type soakTally struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

func (s *soakTally) add(site, end string) {
	if end != "ok" && end != "left" {
		defer time.Sleep(100 * time.Millisecond) // as clients do before they try again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[site] == nil {
		s.counts[site] = map[string]int{}
	}
	s.counts[site][end]++
}

// failed is the share of requests that failed for whom stayed to the end.
func (s *soakTally) failed(sites ...string) (n, of int) {
	for _, site := range sites {
		for end, count := range s.counts[site] {
			switch {
			case end == "left":
				continue
			case end != "ok":
				n += count
			}
			of += count
		}
	}
	return n, of
}

// compare checks that over sites of ours no more fails than over the first, which is bare
// Caddy, and that nothing half passes for whole.
func (s *soakTally) compare(t *testing.T, sites []string) {
	t.Helper()
	for _, site := range sites {
		n, of := s.failed(site)
		t.Logf("%-24s %6d requests, %5.2f %% failed: %v", site, of, 100*float64(n)/float64(max(of, 1)), s.counts[site])
		if n := s.counts[site]["half an answer for a whole one"]; n > 0 && site != sites[0] {
			t.Errorf("%s: %d times half an answer passed for a whole one", site, n)
		}
	}
	n, of := s.failed(sites[1:]...)
	bare, ofBare := s.failed(sites[0])
	if of == 0 || ofBare == 0 {
		t.Errorf("%d requests, %d over bare Caddy", of, ofBare)
	}
	share, shareBare := float64(n)/float64(max(of, 1)), float64(bare)/float64(max(ofBare, 1))
	t.Logf("ours %d of %d (%.2f %%), bare %d of %d (%.2f %%)", n, of, 100*share, bare, ofBare, 100*shareBare)
	both := float64(n+bare) / float64(max(of+ofBare, 1))
	chance := 3 * math.Sqrt(both*(1-both)*(1/float64(max(of, 1))+1/float64(max(ofBare, 1)))) // whom a kill strikes
	if share > 1.25*shareBare+chance+0.01 {
		t.Errorf("%.2f %% of requests failed, over bare Caddy %.2f %%", 100*share, 100*shareBare)
	}
}

// soaking is one client.
type soaking struct {
	addr  string
	tally *soakTally
}

// turn sends a request and reads its answer, or leaves.
func (s *soaking) turn(
	ctx context.Context, client *http.Client, site string, g tongue, session, body string, stream bool,
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/"+site+g.path(stream),
		strings.NewReader(body))
	if err != nil {
		s.tally.add(site, "request")
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", "key of "+session[:1])
	r.Header.Set("X-Session-Id", session)
	leaves, slow := rand.IntN(10) == 0, rand.IntN(10) == 0
	if leaves {
		timer := time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	res, err := client.Do(r)
	if err != nil {
		s.tally.add(site, ended(leaves, "no answer"))
		return
	}
	defer res.Body.Close()
	d := wire.NewDecoder(g.format, stream)
	piece := make([]byte, 32<<10)
	if slow {
		piece = piece[:512]
	}
	for {
		n, err := res.Body.Read(piece)
		d.Feed(piece[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.tally.add(site, ended(leaves, "cut"))
			return
		}
		if slow {
			time.Sleep(2 * time.Millisecond)
		}
	}
	switch {
	case res.StatusCode != http.StatusOK:
		s.tally.add(site, ended(leaves, fmt.Sprint("status ", res.StatusCode)))
	case d.Turn().Failed(): // which the client is told: a continuation that was cut cannot end in any other way
		s.tally.add(site, ended(leaves, "error event"))
	case !d.Turn().Done:
		s.tally.add(site, ended(leaves, "half an answer for a whole one"))
	default:
		s.tally.add(site, "ok")
	}
}

func ended(left bool, how string) string {
	if left {
		return "left"
	}
	return how
}

// run has conversations until ctx ends, each turn over one site of llm_cache and
// over the bare one.
func (s *soaking) run(ctx context.Context, n int) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	all := append(slices.Clone(tongues), anthropicTongue)
	for c := 0; ctx.Err() == nil; c++ {
		site, g := soakSites[1+rand.IntN(len(soakSites)-1)].name, all[rand.IntN(len(all))]
		for turns := 0; turns < 8 && ctx.Err() == nil; turns++ {
			stream := rand.IntN(4) > 0
			body := unsigned.ReplaceAllString(g.request(history(turns), stream), `"thoughtSignature":"c2lnbmVk"`)
			session := fmt.Sprintf("%d conversation %d", n, c)
			s.turn(ctx, client, site, g, session, body, stream)
			s.turn(ctx, client, "bare", g, session, body, stream)
		}
	}
}

// soak runs the sites under load for a time, and returns the states that were open in the
// end.
func soak(t *testing.T, d time.Duration, tally *soakTally) (states []weak.Pointer[state.State]) {
	t.Helper()
	u := &soakUpstream{t: t, addr: testkit.FreeAddress(t), h: &simulator.Handler{
		Cache: pricing.NewSimulator(pricing.SimulatorConfig{}), Pace: time.Millisecond,
		Hooks: simulator.Hooks{Answer: soakModel},
	}}
	u.listen()
	var site strings.Builder
	for _, s := range soakSites {
		fmt.Fprintf(&site, "handle_path /%s/* {\n%s\nreverse_proxy %s\n}\n", s.name, s.directives, u.addr)
	}
	p := &proxy{t: t, caddy: caddytest.New(t), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	p.move()
	cfg := strings.Replace(string(p.config(site.String())), `"apps":{`, `"apps":{"llm_cache":{"memory":25165824},`, 1)
	p.load([]byte(cfg))
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	for i := range 10 {
		group.Go(func() { (&soaking{p.addr, tally}).run(ctx, i) })
	}
	for i, kind := range []string{"socket", "socket", "thread", "thread"} {
		group.Go(func() { (&soaking{p.addr, tally}).converse(ctx, i, kind) })
	}
	reload, kill := time.NewTicker(time.Second), time.NewTicker(3700*time.Millisecond)
	defer reload.Stop()
	defer kill.Stop()
	for n := 0; ctx.Err() == nil; {
		select {
		case <-reload.C:
			n++ // another configuration each time, or Caddy would not load it
			p.load([]byte(strings.Replace(cfg, `"handler":"llm_cache"`, fmt.Sprintf(`"handler":"llm_cache","max_body":%d`,
				32<<20+n), 1)))
		case <-kill.C:
			u.kill()
			time.Sleep(200 * time.Millisecond)
			u.listen()
		case <-ctx.Done():
		}
	}
	group.Wait()
	var text string
	p.adminDo(http.MethodGet, "/metrics", &text)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ') // labels have spaces, too
		if at < 0 {
			continue
		}
		if name, n := line[:at], line[at+1:]; n != "0" && soakCounts.MatchString(name) {
			t.Log(name, n)
			if strings.Contains(name, "panic") {
				t.Error("something of ours panicked")
			}
		}
	}
	for _, s := range state.Open(p.caddy.Instance) {
		states = append(states, weak.Make(s))
	}
	p.caddy.Stop(t)
	if n := len(state.Open(p.caddy.Instance)); n > 0 {
		t.Errorf("%d states are open, and no configuration", n)
	}
	// Caddy keeps its last admin server, and with it the configuration that it was of.
	p.load(fmt.Appendf(nil, `{"admin":{"listen":%q}}`, testkit.FreeAddress(t)))
	p.caddy.Stop(t)
	u.kill()
	p.client.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return states
}

// rests is what the process holds once it has come to rest: when it does not get
// any less.
func rests() (heap uint64, goroutines int) {
	for still := 0; still < 10; {
		time.Sleep(100 * time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := runtime.NumGoroutine(); n < goroutines || m.HeapAlloc+m.HeapAlloc/100 < heap || heap == 0 {
			heap, goroutines, still = m.HeapAlloc, n, 0
			continue
		}
		still++
	}
	return heap, goroutines
}

// dropTimers makes Go's runtime drop stopped timers. Few of them beside many others stay on a processor's list until
// their time, and keep their objects from the garbage collector.
func dropTimers() {
	var all sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var many [1000]*time.Timer
			for i := range many {
				many[i] = time.AfterFunc(time.Hour, func() {})
			}
			for _, timer := range many {
				timer.Stop()
			}
			time.Sleep(10 * time.Millisecond)
		})
	}
	all.Wait()
}

// TestSoak has clients of four formats, over WebSockets and in threads, too, at work over all
// kinds of sites, with a reload each second, an upstream that is killed, clients that leave and slow
// readers: no more fails than over bare Caddy, nothing half passes for whole, and
// in the end the process holds what it did before.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	d := soakTime
	if s := os.Getenv("LLM_CACHE_SOAK"); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	// The first round fills pools and caches, which must not count as growth.
	states := soak(t, min(d/4, 20*time.Second), &soakTally{counts: map[string]map[string]int{}})
	heap, goroutines := rests()
	tally := &soakTally{counts: map[string]map[string]int{}}
	states = append(states, soak(t, d, tally)...)
	heapAfter, goroutinesAfter := rests()
	for i, s := range states {
		for end := time.Now().Add(time.Minute); s.Value() != nil && time.Now().Before(end); runtime.GC() {
			dropTimers()
		}
		if s.Value() != nil {
			t.Errorf("state %d of %d, which is closed, is still held", i, len(states))
		}
	}

	var posted []string
	for _, s := range soakSites {
		posted = append(posted, s.name)
	}
	tally.compare(t, posted)
	for kind, sites := range heldSites {
		over := make([]string, len(sites))
		for i, site := range sites {
			over[i] = kind + " over " + site
		}
		tally.compare(t, over)
	}
	t.Logf("heap %.1f MiB before, %.1f after; goroutines %d before, %d after", float64(heap)/(1<<20),
		float64(heapAfter)/(1<<20), goroutines, goroutinesAfter)
	if heapAfter > heap+heap/2+(4<<20) {
		t.Errorf("%d MiB are held, %d before", heapAfter>>20, heap>>20)
	}
	if goroutinesAfter > goroutines+5 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", goroutinesAfter, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}
