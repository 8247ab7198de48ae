// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func TestHours(t *testing.T) {
	const monday = "2026-11-23 "
	for _, c := range []struct{ hours, at, want string }{
		{"08:00-18:30", monday + "08:00", "in"},
		{"08:00-18:30", monday + "07:59", "out"},
		{"08:00-18:30", monday + "18:30", "out"},
		{"mon-fri 08:00-18:30", monday + "12:00", "in"},
		{"mon-fri 08:00-18:30", "2026-11-22 12:00", "out"},
		{"Sat,Mon 08:00-18:30", monday + "12:00", "in"},
		{"sat,sun 08:00-18:30", monday + "12:00", "out"},
		{"fri-mon 08:00-18:30", monday + "12:00", "in"},
		{"fri-mon 08:00-18:30", "2026-11-24 12:00", "out"},
		{"sun 22:00-06:00", monday + "05:59", "in"},
		{"mon 22:00-06:00", monday + "05:59", "out"},
		{"mon 22:00-06:00", monday + "23:00", "in"},
		{"", monday + "12:00", "out"},
		{"monday 08:00-18:00", monday + "12:00", "error"},
		{"mon-fri", monday + "12:00", "error"},
		{"08:00", monday + "12:00", "error"},
		{"8-25:00", monday + "12:00", "error"},
	} {
		h, err := parseHours(c.hours)
		at, bad := time.Parse("2006-01-02 15:04", c.at)
		if bad != nil {
			t.Fatal(bad)
		}
		got := "out"
		switch {
		case err != nil:
			got = "error"
		case h.at(at):
			got = "in"
		}
		if got != c.want {
			t.Errorf("%q at %s: %s (%v), want %s", c.hours, c.at, got, err, c.want)
		}
	}
}

// TestLoadedInWorkingHours: in working hours an idle server gets the most used base, and at no
// other time.
func TestLoadedInWorkingHours(t *testing.T) {
	for preset, every := range map[string]time.Duration{
		"ollama": 4 * time.Minute, "mlx_lm": 4 * time.Minute,
		"lm_studio": 50 * time.Minute, "llama_cpp": 30 * time.Second,
	} {
		t.Run(preset, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Options{Loaded: "09:00-17:00"}
				if preset == "llama_cpp" {
					w.Every = caddy.Duration(every)
				}
				hours, err := parseHours(w.Loaded)
				if err != nil {
					t.Fatal(err)
				}
				often, seldom := &base{id: "often"}, &base{id: "seldom"}
				x := &Box{
					of: boxes(), queue: queue.New(queue.Limits{}), site: site(w, preset), hours: hours,
					bases: map[string]*base{"often": often, "seldom": seldom},
				}
				defer x.stop()
				due := func() (ids []string) {
					x.mu.Lock()
					defer x.mu.Unlock()
					for _, j := range x.due {
						if !j.keeps {
							t.Errorf("%s is sent, and not only to keep the model loaded", j.base.id)
						}
						ids = append(ids, j.base.id)
					}
					x.due = nil
					return ids
				}
				// Of the day on which the test's clock begins, before the hours.
				at := func(hour, minute int) {
					day := time.Now().Local()
					time.Sleep(time.Until(time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, time.Local)))
					synctest.Wait()
				}
				if time.Now().Local().Hour() > 8 {
					at(24, 0)
				}
				often.use(time.Now())
				often.use(time.Now())
				seldom.use(time.Now())
				x.back(nil, false) // a request was answered
				at(8, 59)
				if ids := due(); len(ids) > 0 {
					t.Fatalf("before the hours: %v", ids)
				}
				at(9, 59)
				if ids := due(); len(ids) != 1 || ids[0] != "often" {
					t.Fatalf("within an hour without requests: %v, want the base used most", ids)
				}
				x.back(nil, false)
				time.Sleep(every - time.Second)
				synctest.Wait()
				if ids := due(); len(ids) > 0 {
					t.Fatalf("%s after a request: %v", every-time.Second, ids)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if ids := due(); len(ids) != 1 {
					t.Fatalf("%s after a request: %v", every, ids)
				}
				at(17, 0)
				due()
				at(23, 59)
				if ids := due(); len(ids) > 0 {
					t.Fatalf("after the hours: %v", ids)
				}
			})
		})
	}
}

// basesLimit is the memory for bases of the servers, in bytes.
const basesLimit = 64 << 20

// boxes returns the servers of a store that is never closed, without a configuration in force.
func boxes() *Boxes {
	b := &Boxes{state: new(state.State)}
	b.SetLimit(basesLimit)
	return b
}

// box returns the server behind a queue.
func box(t *testing.T, of *Boxes, q *queue.Queue) *Box {
	t.Helper()
	share, err := of.Open("", q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = share.Release() })
	return share.Of
}

// site returns a site in front of a server with a preset.
func site(o *Options, preset string) *Site {
	u := &upstream.Upstream{Preset: preset}
	return &Site{Options: o, Upstream: u.Profile(upstream.Options{}), Log: zap.NewNop(), Now: time.Now}
}

// targetOf returns a target for [through].
func targetOf() *selfrequest.Target {
	return selfrequest.Reopen(selfrequest.Open{
		Method: http.MethodPost, URI: "/v1/chat/completions",
		Body: selfrequest.Pack([]byte(`{"model":"m"}`)), Client: wire.OpenAIChat,
	})
}

// through makes internal requests pass through a site to an upstream that answers at once.
func (b *Boxes) through(t *testing.T, s *Site) *Boxes {
	t.Helper()
	b.state.Carrier.Use(func(string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(http.StatusOK)
				return nil
			})
			if err := selfrequest.Of(r).Arrive(w, r, &selfrequest.Site{
				Sends: selfrequest.WarmUp, Upstream: s.Upstream, Next: next,
				Layers: func(*selfrequest.Errand) caddyhttp.Handler { return next },
				Record: func(*http.Request, *audit.Record, wire.Usage) {},
			}); err != nil {
				t.Error(err)
			}
		})
	})
	t.Cleanup(b.state.Carrier.Stop)
	return b
}

// await waits for a condition that must come true.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 10000 {
		if f() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestBoxGoesOnAfterAPanic: a panic while a base is sent affects only that base. The slot is free
// again, and the other bases and later ones are sent.
func TestBoxGoesOnAfterAPanic(t *testing.T) {
	var trouble atomic.Bool
	in := site(&Options{}, "mlx_lm")
	in.Now = func() time.Time {
		if trouble.CompareAndSwap(true, false) {
			panic("of a test")
		}
		return time.Now()
	}
	x := box(t, boxes().through(t, in), queue.New(queue.Limits{Slots: 1}))
	x.site = in
	panics, read := httpx.BackgroundPanics, metrics.sent.WithLabelValues(warmRead)
	before, sent := testkit.MetricValue(t, panics), testkit.MetricValue(t, read)
	for round := range 2 {
		trouble.Store(true)
		x.mu.Lock()
		for range 3 {
			x.add(&base{to: targetOf(), target: wire.OpenAIChat})
		}
		x.start()
		x.mu.Unlock()
		await(t, "the bases", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.halt == nil
		})
		if got, want := testkit.MetricValue(t, panics)-before, float64(round+1); got != want {
			t.Errorf("%v panics, want %v", got, want)
		}
		if got, want := testkit.MetricValue(t, read)-sent, float64(2*round+2); got != want {
			t.Errorf("%v bases were sent, want %v", got, want)
		}
	}
	turn, err := x.queue.Enter(queue.Ticket{})
	if err != nil || turn.Wait(t.Context()) != nil {
		t.Errorf("the slot is not free: %v", err)
	}
}

// TestBaseLeavesTakenSlots: a slot taken by a conversation while its base was due stays with the
// conversation.
func TestBaseLeavesTakenSlots(t *testing.T) {
	in := site(&Options{}, "llama_cpp")
	x := box(t, boxes().through(t, in), queue.New(queue.Limits{Slots: 2}))
	x.site = in
	b := &base{id: "b", to: targetOf(), target: wire.OpenAIChat}
	j := &job{base: b, slot: queue.AnySlot, turn: new(local.Replica)}
	if outcome := x.send(t.Context(), j); outcome != warmRead || j.slot != 0 || len(x.due) != 1 || x.due[0].slot != 1 {
		t.Fatalf("%s in slot %d, then %+v", outcome, j.slot, x.due)
	}
	turn, err := x.queue.Enter(queue.Ticket{Conversation: "a"})
	if err != nil || turn.Wait(t.Context()) != nil || turn.Slot != 0 {
		t.Fatalf("a request in slot %d: %v", turn.Slot, err)
	}
	turn.Leave()
	for _, c := range []struct {
		slot int
		want string
	}{{0, warmNeedless}, {1, warmRead}, {2, warmNeedless}} { // there are two slots
		if outcome := x.send(t.Context(), &job{base: b, slot: c.slot, turn: new(local.Replica)}); outcome != c.want {
			t.Errorf("slot %d: %s, want %s", c.slot, outcome, c.want)
		}
	}
}

// TestBaseIsSentWhileItChanges: requests with a base may come while the base is sent, and replace
// its target. The race detector verifies the locking.
func TestBaseIsSentWhileItChanges(t *testing.T) {
	in := site(&Options{}, "mlx_lm")
	x := box(t, boxes().through(t, in), queue.New(queue.Limits{Slots: 1}))
	x.site = in
	b := x.keep(prefixKey{}, &base{id: "b", to: targetOf(), target: wire.OpenAIChat}, time.Now())
	var others sync.WaitGroup
	for i := range byte(100) {
		others.Go(func() { x.keep(prefixKey{i}, &base{id: "b", to: targetOf()}, time.Now()) })
		if outcome := x.send(t.Context(), &job{base: b, slot: queue.AnySlot, turn: new(local.Replica)}); outcome != warmRead {
			t.Fatalf("the base was %s", outcome)
		}
	}
	others.Wait()
}

// Bases are weighed, and one tenant cannot evict another's.
func TestBasesAreShared(t *testing.T) {
	in := site(&Options{Prefixes: maxPrefixes}, "mlx_lm")
	x := box(t, boxes(), queue.New(queue.Limits{Slots: 1}))
	x.site = in
	keep := func(id, owner byte, size int) {
		to := targetOf()
		to.Body = make([]byte, size)
		x.keep(prefixKey{id}, &base{id: string(id), to: to, owner: sessioncache.Tenant{owner}}, time.Now())
	}
	for i := range byte(8) {
		keep(i, 'm', 1<<20)
	}
	for i := range byte(100) {
		keep(100+i, 'g', 4<<20)
	}
	var size int64
	for _, b := range x.bases {
		size += b.to.Size()
	}
	if size > basesLimit || size < basesLimit/2 {
		t.Errorf("%d bytes of bases", size)
	}
	for i := range byte(8) {
		if !x.knows(prefixKey{i}) {
			t.Errorf("base %d of somebody else was pushed out", i)
		}
	}
	if !x.knows(prefixKey{199}) {
		t.Error("the last one is not kept")
	}
}

// Ollama keeps the model for longer than the interval of load requests.
func TestLoadBody(t *testing.T) {
	got := string(loadBody("qwen3:8b", 4*time.Minute))
	if want := `{"model":"qwen3:8b","keep_alive":"480s"}`; strings.TrimSpace(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
