// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	parts "github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
)

// line is what lies between an edge and an origin: it counts, and can break.
type line struct {
	net.Listener
	to       atomic.Value  // the address at its end
	up       atomic.Int64  // bytes towards the origin
	cutAfter atomic.Int64  // cuts what goes there next, behind so many bytes or in front of the last ones
	rate     int64         // bytes a second towards the origin, 0 for any number
	delay    time.Duration // each way
}

// newLine returns a line that leads nowhere yet.
func newLine(t testing.TB, rate int64, delay time.Duration) *line {
	t.Helper()
	var c net.ListenConfig
	listener, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener, rate: rate, delay: delay}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
	return l
}

func (l *line) carry(c net.Conn) {
	defer c.Close()
	var dial net.Dialer
	o, err := dial.DialContext(context.Background(), "tcp", l.to.Load().(string))
	if err != nil {
		return
	}
	defer o.Close()
	go func() {
		defer o.Close()
		defer c.Close()
		_ = l.pipe(o, c, true)
	}()
	_ = l.pipe(c, o, false)
}

var errCut = errors.New("cut")

func (l *line) pipe(to io.Writer, from io.Reader, up bool) error {
	type piece struct {
		b  []byte
		at time.Time
	}
	pieces := make(chan piece, 1<<12)
	go func() {
		defer close(pieces)
		free := time.Now()
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			at := time.Now()
			if up && l.rate > 0 {
				if free.Before(at) {
					free = at
				}
				free = free.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
				at = free
			}
			pieces <- piece{b[:n], at.Add(l.delay)}
		}
	}()
	for p := range pieces {
		if l.delay > 0 {
			time.Sleep(time.Until(p.at))
		}
		if up {
			l.up.Add(int64(len(p.b)))
			if n := int(l.cutAfter.Swap(0)); n != 0 {
				if n < 0 {
					n += len(p.b)
				}
				_, _ = to.Write(p.b[:n])
				return errCut
			}
		}
		if _, err := to.Write(p.b); err != nil {
			return err
		}
	}
	return nil
}

// edgeAndOrigin are both in one Caddy, with a line between them and a model behind.
type edgeAndOrigin struct {
	*proxy
	line    *line
	towards string // where the edge believes it
	policy  string // options of the edge
	model   *upstream
}

// twoSites starts them, on a line that is as fast as it can be.
func twoSites(t testing.TB, model *upstream) *edgeAndOrigin { return apart(t, model, 0, 0) }

// apart starts them on a line of so many bytes a second to the origin, and so long.
func apart(t testing.TB, model *upstream, rate int64, delay time.Duration) *edgeAndOrigin {
	t.Helper()
	s := &edgeAndOrigin{model: model, policy: "policy observe\nretain origin"}
	s.line = newLine(t, rate, delay)
	s.towards = s.line.Addr().String()
	s.proxy = &proxy{
		t: t, caddy: caddytest.New(t),
		client: &http.Client{Transport: asksAll{&http.Transport{DisableCompression: true, DisableKeepAlives: true}}},
	}
	s.host = "127.0.0.1:80" // the same conversation, wherever it is served
	s.load(s.sites("llm_cache_origin"))
	return s
}

// sites is the configuration of both, at addresses of their own, see [proxy.reload]; behind
// is what stands in front of the model.
func (s *edgeAndOrigin) sites(behind string) []byte {
	s.move()
	origin := testkit.FreeAddress(s.t)
	s.line.to.Store(origin)
	return s.config("llm_cache {\n"+s.policy+"\n}\nreverse_proxy "+s.towards,
		"http://"+origin+" {\n"+behind+"\nreverse_proxy "+s.model.Listener.Addr().String()+"\n}")
}

// ask sends a body and returns what the model got, and how.
func (s *edgeAndOrigin) ask(body string, headers ...string) (got received, held string) {
	s.t.Helper()
	res := s.post("/v1/messages", body, append([]string{"X-Api-Key", "a"}, headers...)...)
	if answer := read(s.t, res); res.StatusCode != http.StatusOK || answer != message {
		s.t.Fatalf("status %d: %s", res.StatusCode, answer)
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "Llm-Cache") {
			s.t.Errorf("the client is told %s", name)
		}
	}
	return s.model.last(), res.Header.Get("X-Llm-Cache-Retained")
}

// expect asks, and wants the model to get exactly what was asked, in that way.
func (s *edgeAndOrigin) expect(how, body string, headers ...string) {
	s.t.Helper()
	before := len(s.model.requests())
	got, held := s.ask(body, headers...)
	if got.body != body || got.length != int64(len(body)) || got.header.Get("Content-Encoding") != "" {
		s.t.Errorf("the model got %d bytes of %d, coding %q", len(got.body), len(body), got.header.Get("Content-Encoding"))
	}
	for name := range got.header {
		if strings.HasPrefix(name, "Llm-Cache") {
			s.t.Errorf("the model is told %s", name)
		}
	}
	if n := len(s.model.requests()) - before; n != 1 {
		s.t.Errorf("the model got %d requests", n)
	}
	if !strings.HasPrefix(held, how) {
		s.t.Errorf("went as %q, want %q", held, how)
	}
}

// TestEdgeAndOrigin: what is new goes over the line, and the model gets all of it.
func TestEdgeAndOrigin(t *testing.T) {
	s := twoSites(t, newUpstream(t, answerMessage))
	count := func(line string) func() float64 {
		before := s.metric(line)
		return func() float64 { return s.metric(line) - before }
	}
	whole, sent := count(`caddy_llm_cache_retain_bytes_total{bytes="whole",driver="origin"}`),
		count(`caddy_llm_cache_retain_bytes_total{bytes="sent",driver="origin"}`)
	made := count(`caddy_llm_cache_origin_requests_total{result="made"}`)
	s.expect("whole; cause=new", conversation(20, false))
	first := s.line.up.Load()
	for n := 21; n < 30; n++ {
		s.expect("delta; sent=", conversation(n, false))
	}
	if sent := s.line.up.Load() - first; sent > 9*1000 {
		t.Errorf("nine requests took %d bytes, the first %d", sent, first)
	}
	s.expect("delta", conversation(29, false))
	s.expect("delta", conversation(10, true))

	// Another conversation of the same client: the origin has shown that it is one.
	other := strings.Replace(conversation(20, false), "Fix the build.", "Write a poem.", 1)
	s.expect("delta", other)
	// Another client is not known there.
	s.expect("whole; cause=new", conversation(30, false), "X-Api-Key", "b")
	s.expect("delta", conversation(31, false), "X-Api-Key", "b")
	if sent() == 0 || sent() > whole()/3 {
		t.Errorf("%v bytes were sent for %v", sent(), whole())
	}
	if made() != 13 {
		t.Errorf("%v were made", made())
	}
	if n := s.metric(`caddy_llm_cache_memory_bytes{part="origin"}`); n == 0 {
		t.Error("nothing is held")
	}
}

// misses is how often a delta was not taken, and for this.
func (s *edgeAndOrigin) misses(cause string) (n float64, resends float64) {
	return s.metric(fmt.Sprintf(`caddy_llm_cache_retain_misses_total{cause=%q,driver="origin"}`, cause)),
		s.metric(`caddy_llm_cache_retain_resends_total{driver="origin"}`)
}

// TestHoldFaults: whatever goes wrong between edge and origin, the model gets what the
// client sent, once, the client an answer, and somebody counts.
func TestHoldFaults(t *testing.T) {
	for _, test := range []struct {
		name, cause string
		fault       func(t *testing.T, s *edgeAndOrigin)
	}{
		{"origin restarted", "unknown-base", func(_ *testing.T, s *edgeAndOrigin) {
			s.load(s.sites("header /x X-Y z"))
			s.load(s.sites("llm_cache_origin"))
		}},
		{"base evicted", "unknown-base", func(_ *testing.T, s *edgeAndOrigin) {
			budget := parts.Of(s.caddy.Instance)
			before := budget.Bytes()
			budget.Set(parts.Min / 100)
			budget.Set(before)
		}},
		{"another edge", "unknown-base", func(t *testing.T, s *edgeAndOrigin) {
			s.tamper(t, func(h http.Header, _ []byte) { h.Set("Llm-Cache-Edge", "another") })
		}},
		{"another tenant's base", "unknown-base", func(t *testing.T, s *edgeAndOrigin) {
			s.tamper(t, func(h http.Header, _ []byte) { h.Set("X-Api-Key", "b") })
		}},
		{"a wrong hash", "bad-hash", func(t *testing.T,
			s *edgeAndOrigin,
		) {
			s.tamper(t, func(_ http.Header, b []byte) { b[10]++ })
		}},
		{"no program", "bad-delta", func(t *testing.T,
			s *edgeAndOrigin,
		) {
			s.tamper(t, func(_ http.Header, b []byte) { b[0]++ })
		}},
		{"cut amid the header", "cut", func(_ *testing.T, s *edgeAndOrigin) { s.line.cutAfter.Store(100) }},
		{"cut amid the delta", "cut", func(_ *testing.T, s *edgeAndOrigin) { s.line.cutAfter.Store(-20) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := twoSites(t, newUpstream(t, answerMessage))
			s.expect("whole; cause=new", conversation(20, false))
			s.expect("delta", conversation(21, false))
			test.fault(t, s)
			n, resends := s.misses(test.cause)
			s.expect("whole; cause="+test.cause, conversation(22, false))
			if after, more := s.misses(test.cause); after != n+1 || more != resends+1 {
				t.Errorf("%v misses more, %v resends", after-n, more-resends)
			}
			s.expect("delta", conversation(23, false))
		})
	}
}

// TestHoldTooLarge: a body that is too large for the origin goes whole, and costs the other
// conversations nothing.
func TestHoldTooLarge(t *testing.T) {
	s := twoSites(t, newUpstream(t, answerMessage))
	s.load(s.sites("llm_cache_origin {\nmax_body 64KiB\n}"))
	large := strings.Replace(conversation(40, false), "Fix the build.", "Write a book.", 1)
	noise := make([]byte, 96<<10) // whose difference is too large itself
	_, _ = rand.Read(noise)
	larger := strings.Replace(conversation(20, false), "Fix the build.", hex.EncodeToString(noise), 1)
	s.expect("whole; cause=new", conversation(20, false))
	for n := 21; n < 24; n++ {
		s.expect("delta", conversation(n, false))
		s.expect("whole; cause=too-large", large)
		s.expect("whole; cause=too-large", larger)
	}
}

// tamper has the next delta go through f on its way.
func (s *edgeAndOrigin) tamper(t *testing.T, f func(h http.Header, body []byte)) {
	t.Helper()
	var once sync.Once
	to := &url.URL{Scheme: "http", Host: s.line.Addr().String()}
	between := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		if r.In.Header.Get("Content-Encoding") != "llm-cache-delta" {
			return
		}
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		once.Do(func() { f(r.Out.Header, body) })
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}})
	t.Cleanup(between.Close)
	s.towards = between.Listener.Addr().String()
	s.load(s.sites("llm_cache_origin"))
}

// TestHoldForeign: a server that holds nothing is never sent a delta. One that stands in
// the place of an origin gets one that it cannot read, and the whole, whatever it says of
// the first.
func TestHoldForeign(t *testing.T) {
	s := twoSites(t, newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("Content-Encoding") == "llm-cache-delta" && n%2 == 0 {
			http.Error(w, "what is that?", http.StatusBadRequest)
			return
		}
		answerMessage(w, r, n)
	}))
	s.load(s.sites("header /x X-Y z"))
	for n := 20; n < 23; n++ {
		if got, held := s.ask(conversation(n, false)); got.header.Get("Content-Encoding") != "" ||
			got.body != conversation(n, false) || !strings.HasPrefix(held, "whole; cause=new") {
			t.Fatalf("%s, coding %q", held, got.header.Get("Content-Encoding"))
		}
	}
	for range 2 {
		s.load(s.sites("llm_cache_origin"))
		s.expect("whole; cause=new", conversation(20, false))
		s.expect("delta", conversation(21, false))
		s.load(s.sites("header /x X-Y z"))
		missed, resends := s.misses("foreign")
		before := len(s.model.requests())
		if got, held := s.ask(conversation(22, false)); got.body != conversation(22, false) ||
			!strings.HasPrefix(held, "whole; cause=foreign") {
			t.Errorf("%s", held)
		}
		if n := len(s.model.requests()) - before; n != 2 {
			t.Errorf("%d requests", n)
		}
		if m, r := s.misses("foreign"); m != missed+1 || r != resends+1 {
			t.Error("nobody has counted")
		}
		if got, held := s.ask(conversation(23, false)); got.body != conversation(23, false) ||
			!strings.HasPrefix(held, "whole; cause=new") {
			t.Errorf("the next one: %s", held)
		}
	}
}

// TestHoldTogether: requests of one conversation that are on their way at once go on from
// the same, and each reaches the model as it was sent.
func TestHoldTogether(t *testing.T) {
	s := twoSites(t, newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		time.Sleep(time.Duration(n%5) * 3 * time.Millisecond)
		answerMessage(w, r, n)
	}))
	s.expect("whole; cause=new", conversation(20, false))
	var all sync.WaitGroup
	want := map[string]bool{conversation(20, false): true}
	for n := range 24 {
		body := strings.Replace(conversation(20+n%4, false), "Read", fmt.Sprint("Read", n), 3)
		want[body] = true
		all.Go(func() {
			res := s.post("/v1/messages", body, "X-Api-Key", "a")
			if answer := read(t, res); res.StatusCode != http.StatusOK || answer != message {
				t.Errorf("status %d: %s", res.StatusCode, answer)
			}
		})
	}
	all.Wait()
	got := s.model.requests()
	for _, r := range got {
		if !want[r.body] {
			t.Error("the model got what nobody sent")
		}
		delete(want, r.body)
	}
	if len(want) > 0 || len(got) != 25 {
		t.Errorf("%d requests did not reach the model, which got %d", len(want), len(got))
	}
	// Few bodies of one conversation are kept, and which of those the edge has heard of last is chance.
	s.ask(conversation(25, false))
	s.expect("delta", conversation(26, false))
}
