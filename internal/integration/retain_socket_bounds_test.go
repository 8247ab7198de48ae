// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
)

// TestRetainSocketCutWhole: a client that wants its answer in one piece gets one, though the
// connection was cut amid it.
func TestRetainSocketCutWhole(t *testing.T) {
	u := newSocketed(t)
	p := start(t, u.site("policy observe\n"))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", alone: true}
	for turn := range 3 {
		u.once(func(n int) *simulator.Answer {
			a := calling(n)
			a.Truncate = 4
			return a
		})
		c.ask()
		if retained := c.ask(); turn > 0 && !strings.HasPrefix(retained, "delta") && !strings.Contains(retained, "lost") {
			t.Errorf("then %s", retained)
		}
	}
}

// TestRetainSocketLimit: where the provider's time for a connection is over, the next request
// opens another one.
func TestRetainSocketLimit(t *testing.T) {
	u := newSocketed(t)
	u.restart(time.Nanosecond)
	p := start(t, u.site("policy observe\n"))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true, alone: true}
	for range 4 {
		c.ask()
	}
	u.restart(0)
	u.cut()
	c.ask()
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
}

// TestRetainSocketRefused: an upstream that answers no handshakes is sent POSTs, and not asked
// each time; what a connection does not take, and POST does, is posted from then on.
func TestRetainSocketRefused(t *testing.T) {
	u := newSocketed(t)
	u.set(func() { u.refuse = http.StatusUpgradeRequired })
	p := start(t, u.site("policy observe\n"))
	for i := range 3 {
		c := &poster{t: t, p: p, u: u, key: "a", id: fmt.Sprint(i), stream: true, alone: true}
		for range 3 {
			if retained := c.ask(); !strings.HasPrefix(retained, "whole; cause=refused") {
				t.Errorf("went as %s", retained)
			}
		}
	}
	if shakes, posts, _ := u.counts(); shakes != 1 || posts != 9 {
		t.Errorf("%d handshakes, %d posts", shakes, posts)
	}
	// Another tenant may be let in.
	u.set(func() { u.refuse = 0 })
	c := &poster{t: t, p: p, u: u, key: "b", id: "other", stream: true, alone: true}
	c.ask()
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
	// An upstream that is away for a moment: the request is posted, the next one tries again.
	u.cut()
	u.set(func() { u.refuse = http.StatusServiceUnavailable })
	c.ask()
	u.set(func() { u.refuse = 0 })
	c.ask()
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
	if n := p.metric(`caddy_llm_cache_retain_posts_total{cause="unreached"}`); n < 1 {
		t.Errorf("%v posts were counted", n)
	}
}

// TestRetainSocketTogether: two requests of one conversation at once are both answered, over
// connections of their own, and what follows goes on from one of them.
func TestRetainSocketTogether(t *testing.T) {
	u := newSocketed(t)
	p := start(t, u.site("policy observe\n"))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true, alone: true}
	c.ask()
	c.ask()
	before := p.counted("in_flight")
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	u.set(func() {
		u.asked = func(int) {
			arrived <- struct{}{}
			<-release
		}
	})
	want := wordsOf(c.body())
	answers := make(chan string, 2)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			res, answer, err := c.post()
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("status %d, %v: %s", res.StatusCode, err, answer)
			}
			answers <- answer
		})
		<-arrived
	}
	u.set(func() { u.asked = nil })
	close(release)
	all.Wait()
	if n := p.counted("in_flight") - before; n != 1 {
		t.Errorf("%v were counted, want 1", n)
	}
	u.set(func() {
		for _, prompt := range u.prompts[len(u.prompts)-2:] {
			if got := wordsOf(prompt); !slices.Equal(got, want) {
				t.Errorf("the model was asked %q, not %q", got, want)
			}
		}
	})
	c.take(<-answers)
	c.ask()
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
}

// TestRetainSocketElsewhere: what a client has the provider keep, what has no tools, and pings
// go as ever.
func TestRetainSocketElsewhere(t *testing.T) {
	u := newSocketed(t)
	p := start(t, u.site("policy observe\n"))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", items: []string{socketUser("Go.")}}
	for name, body := range map[string]string{
		"kept by the provider": strings.Replace(c.body(), `"store":false`, `"store":true`, 1),
		"without a word of it": strings.Replace(c.body(), `"store":false,`, ``, 1),
		"without tools":        `{"model":"gpt-6-astra","store":false,"input":"Go."}`,
		"in the background":    strings.Replace(c.body(), `"store":false`, `"store":false,"background":true`, 1),
	} {
		if res := p.post("/v1/responses", body, "Authorization", "Bearer a"); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
	}
	if res := p.post("/v1/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":"Go."}],"tools":[{"type":"function","function":{"name":"Bash"}}]}`,
		"Authorization", "Bearer a"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	if shakes, posts, _ := u.counts(); shakes != 0 || posts != 5 {
		t.Errorf("%d handshakes, %d posts", shakes, posts)
	}
}

// TestRetainSocketReload: a change of the configuration closes connections that nobody uses,
// and the others behind their answers.
func TestRetainSocketReload(t *testing.T) {
	u := newSocketed(t)
	site := strings.TrimSuffix(u.site("policy observe\n"), "\n") + " {\nstream_close_delay 1h\n}"
	p := start(t, site)
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true, alone: true}
	c.ask()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	u.set(func() {
		u.asked = func(int) {
			arrived <- struct{}{}
			<-release
		}
	})
	var all sync.WaitGroup
	all.Go(func() {
		if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
			t.Errorf("went as %s", retained)
		}
	})
	<-arrived
	u.set(func() { u.asked = nil })
	p.reload(site)
	close(release)
	all.Wait()
	if retained := c.ask(); !strings.HasPrefix(retained, "whole; cause=lost") {
		t.Errorf("behind the reload: %s", retained)
	}
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
}

// TestRetainSocketLeft: a client that leaves ends the work for it.
func TestRetainSocketLeft(t *testing.T) {
	u := newSocketed(t)
	p := start(t, u.site("policy observe\n"))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true, alone: true}
	c.ask()
	begun := make(chan struct{})
	u.once(func(int) *simulator.Answer {
		close(begun)
		return &simulator.Answer{Hang: true}
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/responses",
		strings.NewReader(c.body()))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = p.host
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer a"}, "Session-Id": {"one"}}
	var all sync.WaitGroup
	all.Go(func() {
		if res, err := p.client.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("the answer came")
		}
	})
	<-begun
	leave()
	all.Wait()
	if retained := c.ask(); !strings.HasPrefix(retained, "whole") {
		t.Errorf("then %s", retained)
	}
	if retained := c.ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("then %s", retained)
	}
}
