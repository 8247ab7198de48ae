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

package llmcache

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func lingering(b *slowBox, linger string) string {
	return fmt.Sprintf("llm_cache {\n upstream ollama {\n format anthropic\n}\n linger %s\n}\nreverse_proxy %s", linger, strings.TrimPrefix(b.URL, "http://"))
}

// A client that gives up and tries again finds the work it left.
func TestRetryFindsTheWorkOfTheFirstTry(t *testing.T) {
	for _, stream := range []bool{false, true} {
		b := newSlowBox(t)
		p := start(t, lingering(b, "1m"))
		body := conversation(1, stream)
		var wg sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		p.ask(ctx, &wg, "s", "a", body, new(asked))
		<-b.came
		joined := p.metric(`caddy_llm_cache_lingering_total{outcome="joined"}`)
		leave()
		wg.Wait()
		p.until("caddy_llm_cache_lingering", 1)
		var again, other, foreign asked
		p.ask(t.Context(), &wg, "s", "another key", body, &foreign)
		if <-b.came; len(b.requests()) != 2 {
			t.Fatalf("somebody else's request: %d requests came, want one more", len(b.requests()))
		}
		p.ask(t.Context(), &wg, "s", "a", conversation(2, stream), &other)
		if <-b.came; len(b.requests()) != 3 {
			t.Fatalf("another request: %d requests came, want one more", len(b.requests()))
		}
		p.ask(t.Context(), &wg, "s", "a", body, &again)
		p.until(`caddy_llm_cache_lingering_total{outcome="joined"}`, joined+1)
		for range 3 {
			b.free <- struct{}{}
		}
		wg.Wait()
		if n := len(b.requests()); n != 3 {
			t.Errorf("stream=%t: %d requests came, want 3", stream, n)
		}
		want := message
		if stream {
			want = strings.Join(events, "")
		}
		for i, a := range []asked{again, other, foreign} {
			if a.status != http.StatusOK || a.body != want {
				t.Errorf("stream=%t: answer %d: %d %q", stream, i, a.status, a.body)
			}
		}
	}
}

// Work that nobody comes back for ends.
func TestWorkIsGivenUp(t *testing.T) {
	for _, linger := range []string{"off", "200ms"} {
		gone := make(chan struct{}, 1)
		u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			<-r.Context().Done()
			gone <- struct{}{}
		})
		b := &slowBox{upstream: u}
		p := start(t, lingering(b, linger))
		var wg sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		p.ask(ctx, &wg, "s", "a", conversation(1, true), new(asked))
		for len(u.requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		leave()
		wg.Wait()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Errorf("linger %s: the upstream is still at work", linger)
		}
	}
}

// An answer that is cut upstream is cut for the client.
func TestLingeringKeepsCutsCut(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(events[0]))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	p := start(t, lingering(&slowBox{upstream: u}, "1m"))
	res := p.post("/v1/messages", conversation(1, true))
	buf := make([]byte, 1<<16)
	n, err := 0, error(nil)
	for err == nil {
		var m int
		m, err = res.Body.Read(buf[n:])
		n += m
	}
	if string(buf[:n]) != events[0] || err.Error() != "unexpected EOF" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// A client that leaves while the box goes on after a call of the expand tool finds
// that work when it tries again.
func TestRetryFindsTheContinuation(t *testing.T) {
	free, came := make(chan struct{}), make(chan int, 8)
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if strings.Contains(u.requests()[n-1].body, "Unknown block") {
			came <- n
			select {
			case <-free:
			case <-r.Context().Done():
				return
			}
			chatTongue.answer(w, []piece{text("I see.")}, true, n)
			return
		}
		chatTongue.answer(w, []piece{text("Let me look."), expands("call_e", "00000000")}, true, n)
	})
	p := start(t, "llm_cache {\n upstream ollama {\n format openai_chat\n}\n expand on\n linger 1m\n}\nreverse_proxy "+u.Listener.Addr().String())
	body := chatTongue.request(history(1), true)
	joined := p.metric(`caddy_llm_cache_lingering_total{outcome="joined"}`)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := p.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	<-came
	leave()
	<-left
	p.until("caddy_llm_cache_lingering", 1)
	res := p.post("/v1/chat/completions", body)
	p.until(`caddy_llm_cache_lingering_total{outcome="joined"}`, joined+1)
	close(free)
	if turn := chatTongue.strictly(t, read(t, res), true); turn.Text != "Let me look.I see." || !turn.Done {
		t.Errorf("got %+v", turn)
	}
	if n := len(u.requests()); n != 3 { // the answer, what follows it, and the answer again
		t.Errorf("the upstream got %d requests", n)
	}
}
