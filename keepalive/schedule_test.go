// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

var epoch = At(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))

// held is a payload that records its wipe.
type held struct {
	size  int64
	wiped bool
}

func (h *held) Size() int64 { return h.size }
func (h *held) Wipe()       { h.wiped = true }

// idle is a conversation that is well worth a ping.
func idle(begun Instant) *Target {
	return &Target{
		Moment: Moment{Tool: true, Prompts: 5}, Begun: begun, Lifetime: 5 * time.Minute, Every: 4 * time.Minute, MaxPings: 6,
		Prompt: 100_000, Write: 1.25, Read: 0.1, Dollars: 3e-6, MaxLoss: 1e9, Payload: &held{size: 1000},
	}
}

func id(n int) ID { return ID{Session: fmt.Sprint(n), Conversation: 0} }

// pingAll ends the pings that are due as read and returns their number.
func pingAll(s *Schedule, now Instant) (n int) {
	for {
		due := s.Due(now)
		if len(due) == 0 {
			return n
		}
		for _, p := range due {
			n++
			p.End(Read, p.ping())
		}
	}
}

func TestPingsUntilTheReturn(t *testing.T) {
	s := New(Options{})
	target := idle(epoch)
	p := target.Payload.(*held)
	s.Leave(id(1), false, target)
	for minute := 1; minute <= 8; minute++ {
		want := 0
		if minute%4 == 0 {
			want = 1
		}
		if n := pingAll(s, epoch.Add(time.Duration(minute)*time.Minute)); n != want {
			t.Errorf("minute %d: %d pings, want %d", minute, n, want)
		}
	}
	got := s.Enter(id(1), epoch.Add(9*time.Minute))
	if got == nil || got.Pings != 2 || got.Cost != 20_000 || !got.Kept || got.Age != 9*time.Minute {
		t.Errorf("the pause was %+v", got)
	}
	if !p.wiped {
		t.Error("the payload is kept although the client is back")
	}
	if n := pingAll(s, epoch.Add(12*time.Minute)); n != 0 {
		t.Errorf("%d pings while a request is in flight", n)
	}
}

// A stretch of pings ends by itself.
func TestPingsEnd(t *testing.T) {
	s := New(Options{})
	target := idle(epoch)
	p := target.Payload.(*held)
	s.Leave(id(1), false, target)
	n := 0
	for at := time.Duration(0); at < 24*time.Hour; at += 10 * time.Second {
		n += pingAll(s, epoch.Add(at))
	}
	if n == 0 || n > 6 {
		t.Errorf("%d pings in a day, want 1 to 6", n)
	}
	if st := s.Stats(epoch.Add(24 * time.Hour)); st.Targets+st.Watched+int(st.Bytes) != 0 || !p.wiped {
		t.Errorf("after a day the schedule holds %+v, wiped %v", st, p.wiped)
	}
}

func TestNoPing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Target)
		o      Options
		at     Instant
		want   Reason
	}{
		"as it is":             {at: epoch.Add(4 * time.Minute)},
		"late":                 {at: epoch.Add(5 * time.Minute), want: Late},
		"the machine slept":    {at: Instant{epoch.Wall.Add(time.Hour), epoch.Mono + 4*time.Minute}, want: Late},
		"the calendar was set": {at: Instant{epoch.Wall.Add(-24 * time.Hour), epoch.Mono + 4*time.Minute}, want: Late},
		"a day ahead":          {at: Instant{epoch.Wall.Add(24 * time.Hour), epoch.Mono + 4*time.Minute}, want: Late},
		"nothing to gain": {
			at: epoch.Add(4 * time.Minute), change: func(t *Target) { t.Write = t.Read },
			want: Worthless,
		},
		"better cold": {
			at: epoch.Add(4 * time.Minute), change: func(t *Target) { t.Cold = 200_000 },
			want: Worthless,
		},
		"max_loss": {
			at: epoch.Add(4 * time.Minute), change: func(t *Target) { t.MaxLoss = 9_999 },
			want: LossReached,
		},
		"all money":          {at: epoch.Add(4 * time.Minute), o: Options{Hourly: 0.02}, want: Broke},
		"the tenant's money": {at: epoch.Add(4 * time.Minute), o: Options{TenantHourly: 0.02}, want: Broke},
		"no price": {
			at: epoch.Add(4 * time.Minute), o: Options{Hourly: 100},
			change: func(t *Target) { t.Dollars = 0 }, want: Broke,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(c.o)
			target := idle(epoch)
			p := target.Payload.(*held)
			if c.change != nil {
				c.change(target)
			}
			s.Leave(id(1), false, target)
			n := pingAll(s, c.at)
			if c.want == "" {
				if n != 1 {
					t.Errorf("%d pings, want 1", n)
				}
				return
			}
			if st := s.Stats(c.at); n != 0 || st.Stopped[c.want] != 1 || !p.wiped {
				t.Errorf("%d pings, stopped %v, wiped %v; want none for %s", n, st.Stopped, p.wiped, c.want)
			}
		})
	}
}

func TestOutcomesThatEnd(t *testing.T) {
	for outcome, want := range map[Outcome]Reason{WroteCache: Wrote, Denied: Refused, Broken: Failed, Canceled: Failed} {
		s := New(Options{})
		target := idle(epoch)
		p := target.Payload.(*held)
		s.Leave(id(1), false, target)
		s.Due(epoch.Add(4 * time.Minute))[0].End(outcome, 0)
		if n := pingAll(s, epoch.Add(8*time.Minute)); n != 0 || !p.wiped || s.Stats(epoch).Stopped[want] != 1 {
			t.Errorf("after %s: %d more pings, wiped %v", outcome, n, p.wiped)
		}
	}
}

// A ping never runs beside a request of its conversation.
func TestReturnDuringPing(t *testing.T) {
	s := New(Options{})
	target := idle(epoch)
	p := target.Payload.(*held)
	s.Leave(id(1), false, target)
	flying := s.Due(epoch.Add(4 * time.Minute))[0]
	s.Enter(id(1), epoch.Add(4*time.Minute+time.Second))
	select {
	case <-flying.Canceled():
	default:
		t.Fatal("the client is back and the ping was not canceled")
	}
	if p.wiped {
		t.Error("the payload of a ping in flight was wiped under it")
	}
	flying.End(Canceled, 0)
	if !p.wiped {
		t.Error("the payload outlives its ping")
	}
	// Two concurrent requests: the conversation is idle after both.
	now := epoch.Add(5 * time.Minute)
	s.Enter(id(1), now)
	s.Leave(id(1), true, idle(now))
	if n := pingAll(s, now.Add(4*time.Minute)); n != 0 {
		t.Errorf("%d pings while a request is in flight", n)
	}
	s.Leave(id(1), true, idle(now))
	if n := pingAll(s, now.Add(4*time.Minute)); n != 1 {
		t.Errorf("%d pings once the last request is over, want 1", n)
	}
}

// With many conversations due at once, the limit of pings in flight holds. Conversations without a
// ping in time get none.
func TestNoBurst(t *testing.T) {
	s := New(Options{Flying: 3})
	for i := range 100 {
		s.Leave(id(i), false, idle(epoch))
	}
	at := epoch.Add(4 * time.Minute)
	first := s.Due(at)
	if len(first) != 3 || len(s.Due(at)) != 0 {
		t.Fatalf("%d pings at once, want 3", len(first))
	}
	for _, p := range first { // the upstream is down, and each request takes an hour to fail
		p.End(Broken, 0)
	}
	if n := pingAll(s, at.Add(time.Hour)); n != 0 {
		t.Errorf("%d pings an hour late", n)
	}
}

func TestStop(t *testing.T) {
	s := New(Options{})
	a, b := idle(epoch), idle(epoch)
	pa, pb := a.Payload.(*held), b.Payload.(*held)
	s.Leave(id(1), false, a)
	flying := s.Due(epoch.Add(4 * time.Minute))
	s.Leave(id(2), false, b)
	s.Stop()
	<-flying[0].Canceled()
	flying[0].End(Canceled, 0)
	if !pa.wiped || !pb.wiped || pingAll(s, epoch.Add(8*time.Minute)) != 0 {
		t.Error("something is left after the stop")
	}
	late := idle(epoch)
	s.Leave(id(3), false, late)
	if !late.wiped() || pingAll(s, epoch.Add(4*time.Minute)) != 0 {
		t.Error("a conversation was taken after the stop")
	}
}

func (t *Target) wiped() bool { return t.Payload == nil }

func TestMemoryIsBounded(t *testing.T) {
	s := New(Options{Memory: 10_000})
	for i := range 100 {
		target := idle(epoch)
		if i < 5 {
			target.Prompt = 1_000_000 // the highest earnings
		}
		s.Leave(id(i), false, target)
	}
	if st := s.Stats(epoch); st.Bytes > 10_000 || st.Targets != 10 {
		t.Errorf("%d bytes of %d targets are held, want at most 10000", st.Bytes, st.Targets)
	}
	n := 0
	for i := range 5 {
		if s.Enter(id(i), epoch.Add(time.Second)) != nil {
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d of the 5 most valuable are known", n)
	}
}

func TestLearns(t *testing.T) {
	var l Learned
	h, other := Habit{Tenant: [16]byte{1}, Hour: 9}, Habit{Tenant: [16]byte{2}, Hour: 9}
	m := Moment{Prompts: 3}
	prior := Prior(m)
	for range 200 { // no client ever returns
		l.Observe(h, m, patience, false)
	}
	if c := l.Chance(h, m); c.Away(4*time.Minute, 8*time.Minute) < 0.9 {
		t.Errorf("after 200 pauses without a return, away is %.2f", c.Away(4*time.Minute, 8*time.Minute))
	}
	if c := l.Chance(other, m); c != prior {
		t.Error("one tenant's habits changed another's")
	}
	for range 200 {
		l.Observe(other, m, 5*time.Minute, true)
	}
	if c := l.Chance(other, m); c.Away(4*time.Minute, 8*time.Minute) > 0.5 {
		t.Errorf("after 200 quick returns, away is %.2f", c.Away(4*time.Minute, 8*time.Minute))
	}
}

// TestPlanIsBest compares the plan with every number of pings, valued by a sum over the times of
// return.
func TestPlanIsBest(t *testing.T) {
	for _, read := range []float64{0.02, 0.05, 0.1, 0.3} {
		for _, rate := range []float64{0.1, 0.5, 1, 2} {
			c := Case{
				Chance: Prior(Moment{}).Times(rate), Lifetime: 5 * time.Minute, Every: 4 * time.Minute, Ping: read,
				Gain: 1.25 - read, MaxPings: 20,
			}
			n, value := Plan(&c, 0)
			best, most := 0, 0.0
			for k := 1; k <= c.MaxPings; k++ {
				if v := c.worth(k); v > most+1e-9 {
					best, most = k, v
				}
			}
			if got := c.worth(n); n != best && got < most-1e-9 || value < most-1e-9 || value > most+1e-9 {
				t.Errorf("read %v, rate %v: planned %d pings worth %.4f (told %.4f), best are %d worth %.4f", read, rate, n, got,
					value, best, most)
			}
		}
	}
}

// worth is the value of up to n pings for a client who is away at the time of the first.
func (c *Case) worth(n int) (sum float64) {
	from := c.Every
	for k := 1; k <= n; k++ { // a ping is paid only if the client is still away
		sum -= c.Ping * c.Chance.Away(from, time.Duration(k)*c.Every)
	}
	if n > 0 {
		sum += c.Gain * (c.Chance.Away(from, c.Lifetime) - c.Chance.Away(from, time.Duration(n)*c.Every+c.Lifetime))
	}
	return sum
}

// BenchmarkIdle is an hour of ten thousand idle conversations. The time of one iteration, divided
// by an hour, is the load of one core.
func BenchmarkIdle(b *testing.B) {
	const conversations = 10_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := New(Options{Flying: 8})
		for i := range conversations {
			target := idle(epoch.Add(time.Duration(i) * 24 * time.Millisecond))
			target.Payload = &held{size: 6000}
			s.Leave(id(i), false, target)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		pings := 0
		for at := time.Duration(0); at < time.Hour; at += time.Second {
			pings += pingAll(s, epoch.Add(at))
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(pings), "pings")
	}
	b.ReportMetric(100*b.Elapsed().Hours()/float64(b.N), "%core")
}

// growing is a payload that returns another size on each call.
type growing struct {
	held
	told int64
}

func (g *growing) Size() int64 {
	g.size++
	g.told = g.size
	return g.size
}

// TestAccount: after any sequence of events, the total is the sum of the initial sizes of all
// payloads not yet wiped. It stays within the limit, payloads in flight excepted.
func TestAccount(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 13))
		s := New(Options{Flying: 3, Memory: 5000})
		var came []*growing
		var flying []*Ping
		bound := int64(5000)
		now := epoch
		entered := map[ID]int{}
		for step := range 400 {
			id := id(random.IntN(12))
			switch op := random.IntN(20); {
			case op < 7:
				p := &growing{held: held{size: random.Int64N(3000)}}
				target := idle(now)
				target.Payload = p
				target.Every = time.Duration(1+random.IntN(4)) * time.Minute
				began := entered[id] > 0
				if began {
					entered[id]--
				}
				s.Leave(id, began, target)
				came = append(came, p)
			case op < 9:
				s.Enter(id, now)
				entered[id]++
			case op < 10:
				s.Drop(id)
			case op < 11:
				s.Forget(id.Session)
			case op < 12:
				bound = 1 + random.Int64N(9000)
				s.Configure(Options{Flying: 3, Memory: bound})
			case op < 15:
				now = now.Add(time.Duration(random.IntN(300)) * time.Second)
				flying = append(flying, s.Due(now)...)
			case len(flying) > 0:
				i := random.IntN(len(flying))
				p := flying[i]
				flying[i] = flying[len(flying)-1]
				flying = flying[:len(flying)-1]
				p.End([]Outcome{Read, WroteCache, Denied, Broken, Canceled}[random.IntN(5)], 1)
			}
			var want, aloft int64
			for _, p := range came {
				if !p.wiped {
					want += p.told
				}
			}
			for _, p := range flying {
				aloft += p.Payload.(*growing).told
			}
			got := s.Stats(now)
			if got.Bytes != want {
				t.Fatalf("seed %d, step %d: the account says %d bytes, %d are held", seed, step, got.Bytes, want)
			}
			if got.Bytes > bound && got.Bytes > aloft {
				t.Fatalf("seed %d, step %d: %d bytes are held, %d of them in flight, with a bound of %d", seed, step, got.Bytes,
					aloft, bound)
			}
		}
		s.Stop()
		for _, p := range flying {
			p.End(Canceled, 0)
		}
		if got := s.Stats(now); got.Bytes != 0 || got.Flying != 0 {
			t.Fatalf("seed %d: stopped, the schedule holds %+v", seed, got)
		}
		for _, p := range came {
			if !p.wiped {
				t.Fatalf("seed %d: a payload is kept by a schedule that has stopped", seed)
			}
		}
	}
}
