// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func detaching(b *slowBox, rejoin string) string {
	return fmt.Sprintf("llm_cache {\n upstream ollama {\n format anthropic\n}\n rejoin %s\n}\nreverse_proxy %s", rejoin,
		strings.TrimPrefix(b.URL, "http://"))
}

// A client that gives up and tries again finds the work it left.
func TestRetryFindsTheWorkOfTheFirstTry(t *testing.T) {
	for _, stream := range []bool{false, true} {
		b := newSlowBox(t)
		p := start(t, detaching(b, "1m"))
		body := conversation(1, stream)
		var wg sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		p.ask(ctx, &wg, "s", "a", body, new(asked))
		<-b.came
		joined := p.metric(`caddy_llm_cache_detached_total{outcome="rejoined"}`)
		leave()
		wg.Wait()
		p.until("caddy_llm_cache_detached", 1)
		var again, other, foreign asked
		p.ask(t.Context(), &wg, "s", "another key", body, &foreign)
		if <-b.came; len(b.requests()) != 2 {
			t.Fatalf("somebody else's request: %d requests came, want one more", len(b.requests()))
		}
		p.ask(t.Context(), &wg, "another session", "a", conversation(2, stream), &other)
		if <-b.came; len(b.requests()) != 3 {
			t.Fatalf("another request: %d requests came, want one more", len(b.requests()))
		}
		p.ask(t.Context(), &wg, "s", "a", body, &again)
		p.until(`caddy_llm_cache_detached_total{outcome="rejoined"}`, joined+1)
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

// Who rejoins work is told the estimate of what the box has found in its cache, too.
func TestRetryIsToldTheEstimate(t *testing.T) {
	came, free := make(chan struct{}, 8), make(chan struct{}, 8)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		came <- struct{}{}
		select {
		case <-free:
			answerChat(w, r, n)
		case <-r.Context().Done():
		}
	})
	p := start(t, behind(u, "lm_studio"))
	free <- struct{}{}
	if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "a"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	<-came
	var wg sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	p.ask(ctx, &wg, "", "a", conversation(2, false), new(asked))
	<-came
	leave()
	wg.Wait()
	p.until("caddy_llm_cache_detached", 1)
	free <- struct{}{}
	res := p.post("/v1/messages", conversation(2, false), "X-Api-Key", "a")
	if n := len(u.requests()); n != 2 {
		t.Fatalf("%d requests came, want 2", n)
	}
	if h := res.Header; h.Get("X-Llm-Cache-Cached-Tokens-Estimated") != "1" || h.Get("X-Llm-Cache-Cached-Tokens") == "0" {
		t.Errorf("%v", h)
	}
}

// Abandoned work ends at once in three cases: the client has had a part of the answer, the
// conversation continues with another request, or another request waits for the slot.
func TestWorkEndsWhereItIsInTheWay(t *testing.T) {
	for name, part := range map[string]bool{
		"amid the answer": true, "its conversation goes on": false,
		"somebody waits": false, "somebody waits already": false,
	} {
		t.Run(name, func(t *testing.T) {
			came, gone := make(chan string, 8), make(chan string, 8)
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				session := r.Header.Get("X-Session-Id")
				if part {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, events[0]+events[1]+events[2])
					_ = http.NewResponseController(w).Flush()
				}
				came <- session
				<-r.Context().Done()
				gone <- session
			})
			options := "rejoin 1h"
			if strings.HasPrefix(name, "somebody waits") {
				options += "\n queue {\n slots 1\n}"
			}
			p := start(t, "llm_cache {\n upstream ollama {\n format anthropic\n}\n "+options+"\n}\nreverse_proxy "+
				u.Listener.Addr().String())
			var wg sync.WaitGroup
			ctx, leave := context.WithCancel(t.Context())
			wg.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/messages",
					strings.NewReader(conversation(1, true)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Session-Id": {"one"}, "X-Api-Key": {"a"}}
				if res, err := p.client.Do(req); err == nil {
					_, _ = io.ReadFull(res.Body, make([]byte, 1))
					leave()
					_ = res.Body.Close()
				}
			})
			<-came
			next, cancel := context.WithCancel(t.Context())
			switch {
			case name == "somebody waits already":
				p.ask(next, &wg, "two", "b", conversation(1, true), new(asked))
				p.waits(1)
				leave()
			case !part:
				leave()
				p.until("caddy_llm_cache_detached", 1)
			}
			switch name {
			case "its conversation goes on":
				p.ask(next, &wg, "one", "a", conversation(2, true), new(asked))
			case "somebody waits":
				p.ask(next, &wg, "two", "b", conversation(1, true), new(asked))
			}
			select {
			case session := <-gone:
				if session != "one" {
					t.Errorf("%s ended", session)
				}
			case <-time.After(time.Minute):
				t.Error("the box is still at work")
			}
			if !part {
				<-came // all of the other request, before its client leaves, too
			}
			cancel()
			wg.Wait()
			if !part {
				// The other request is without a client before its Caddy stops, which ends it: the
				// gauge is the process's.
				p.until("caddy_llm_cache_detached", 1)
			}
		})
	}
}

// Work that nobody comes back for ends.
func TestWorkIsGivenUp(t *testing.T) {
	for _, rejoin := range []string{"off", "200ms"} {
		gone := make(chan struct{}, 1)
		u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			<-r.Context().Done()
			gone <- struct{}{}
		})
		b := &slowBox{upstream: u}
		p := start(t, detaching(b, rejoin))
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
			t.Errorf("rejoin %s: the upstream is still at work", rejoin)
		}
	}
}

// An answer that is cut upstream is cut for the client.
func TestDetachedKeepsCutsCut(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(events[0]))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	p := start(t, detaching(&slowBox{upstream: u}, "1m"))
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
	p := start(t, "llm_cache {\n upstream ollama {\n format openai_chat\n}\n expand on\n rejoin 1m\n}\nreverse_proxy "+
		u.Listener.Addr().String())
	body := chatTongue.request(history(1), true)
	joined := p.metric(`caddy_llm_cache_detached_total{outcome="rejoined"}`)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/chat/completions",
		strings.NewReader(body))
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
	p.until("caddy_llm_cache_detached", 1)
	res := p.post("/v1/chat/completions", body)
	p.until(`caddy_llm_cache_detached_total{outcome="rejoined"}`, joined+1)
	close(free)
	if turn := chatTongue.strictly(t, read(t, res), true); turn.Text != "Let me look.I see." || !turn.Done {
		t.Errorf("got %+v", turn)
	}
	if n := len(u.requests()); n != 3 { // the answer, what follows it, and the answer again
		t.Errorf("the upstream got %d requests", n)
	}
}

// flood answers with as much as is taken, and counts it.
func flood(t *testing.T, size int) (u *upstream, written *atomic.Int64, gone chan struct{}) {
	written, gone = new(atomic.Int64), make(chan struct{}, 100)
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		part := bytes.Repeat([]byte("0123456789abcdef"), 2<<10)
		w.Header().Set("Content-Type", "text/plain")
		for n := 0; n < size; n += len(part) {
			if _, err := w.Write(part); err != nil || r.Context().Err() != nil {
				break
			}
			written.Add(int64(len(part)))
		}
		gone <- struct{}{}
	})
	return u, written, gone
}

// A client that reads slowly holds the upstream back, once as much waits for it as
// is kept of an answer; and it gets all of it.
func TestSlowClientHoldsItsAnswerBack(t *testing.T) {
	const size = 256 << 20
	u, written, _ := flood(t, size)
	p := start(t, detaching(&slowBox{upstream: u}, "10m"))
	res := p.post("/v1/messages", conversation(1, true))
	if _, err := io.ReadFull(res.Body, make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	for last, still := int64(0), 0; still < 30; { // until nothing more is taken
		time.Sleep(10 * time.Millisecond)
		if now := written.Load(); now > last || now == 0 {
			last, still = now, 0
		} else {
			still++
		}
	}
	if n := written.Load(); n > 96<<20 { // what is kept, and what lies in sockets
		t.Errorf("%d MiB were taken from the upstream for a client that reads none of it", n>>20)
	}
	rest, err := io.Copy(io.Discard, res.Body)
	if err != nil || rest != size-1<<10 {
		t.Errorf("the client got %d bytes of %d more, %v", rest, size-1<<10, err)
	}
}

// An answer too large to be kept ends with its client: before it has left, or after.
func TestAnswerBeyondTheBoundEndsWithItsClient(t *testing.T) {
	for _, early := range []bool{false, true} {
		u, written, gone := flood(t, 1<<40)
		p := start(t, detaching(&slowBox{upstream: u}, "1h"))
		given := p.metric(`caddy_llm_cache_detached_total{outcome="given_up"}`)
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/messages",
			strings.NewReader(conversation(1, true)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if !early {
			if _, err := io.CopyN(io.Discard, res.Body, 32<<20); err != nil {
				t.Fatal(err)
			}
		}
		leave()
		_ = res.Body.Close()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatalf("early=%t: the upstream writes on: %d MiB", early, written.Load()>>20)
		}
		p.until(`caddy_llm_cache_detached_total{outcome="given_up"}`, given+1)
		p.until("caddy_llm_cache_detached", 0)
	}
}

// One tenant leaves only so much work behind: the one left first ends.
func TestWorkLeftBehindIsBounded(t *testing.T) {
	const limit = 8
	gone := make(chan string, 100)
	came := make(chan struct{}, 100)
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
		came <- struct{}{}
		<-r.Context().Done()
		gone <- r.Header.Get("X-Session-Id")
	})
	p := start(t, detaching(&slowBox{upstream: u}, "1h"))
	leave := func(session, key string, turns int) {
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		p.ask(ctx, &wg, session, key, conversation(turns, true), new(asked))
		<-came
		cancel()
		wg.Wait()
	}
	leave("other", "other", 1)
	p.until("caddy_llm_cache_detached", 1)
	for i := range limit {
		leave(fmt.Sprint(i), "one", i+1)
		p.until("caddy_llm_cache_detached", float64(i+2))
	}
	for i := range 3 {
		leave(fmt.Sprint("late ", i), "one", limit+i+1)
		if got := <-gone; got != fmt.Sprint(i) {
			t.Errorf("%q ended, want %d", got, i)
		}
	}
	p.until("caddy_llm_cache_detached", limit+1)
}
