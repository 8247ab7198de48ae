// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestSentToAnother: Caddy's own means of sending a request to another upstream find its body, edited
// and translated as well as in the client's own bytes.
func TestSentToAnother(t *testing.T) {
	t.Parallel()
	busy := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		time.Sleep(50 * time.Millisecond) // the transport closes a body after it was read, as another one begins
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
	})
	broken := newUpstream(t, func(http.ResponseWriter, *http.Request, int) {
		time.Sleep(50 * time.Millisecond)
		panic(http.ErrAbortHandler)
	})
	for _, cache := range []string{
		"llm_cache", "llm_cache {\npolicy eager\n}",
		"llm_cache {\nupstream anthropic {\nmodel * other\n}\n}",
	} {
		for name, proxy := range map[string]string{
			"handle_response": "reverse_proxy %[1]s {\n@busy status 529\nhandle_response @busy {\nreverse_proxy %[3]s\n}\n}",
			"lb_retries": "reverse_proxy %[2]s %[3]s {\nlb_policy first\nlb_retries 2\nfail_duration " +
				"10s\nlb_retry_match {\nmethod POST\n}\n}",
		} {
			good := newUpstream(t, answerMessage)
			addr := func(u *upstream) string { return u.Listener.Addr().String() }
			p := start(t, cache+"\n"+fmt.Sprintf(proxy, addr(busy), addr(broken), addr(good)))
			body := conversation(6, false)
			res := p.post("/v1/messages", body)
			if text := read(t, res); res.StatusCode != http.StatusOK || !strings.Contains(text, `"message"`) {
				t.Errorf("%s, %s: got status %d, %.200s, want the answer of the other upstream", cache, name, res.StatusCode, text)
				continue
			}
			if got := good.last().body; len(got) < len(body)/2 {
				t.Errorf("%s, %s: the other upstream got %d bytes of %d", cache, name, len(got), len(body))
			}
		}
	}
}

// switching is a site with a first upstream, and a fallback of other handlers.
func switching(first, fallback string) string {
	return "llm_cache {\nupstream anthropic\nfallback {\n" + fallback + "\n}\n}\nreverse_proxy " + first +
		" {\ntransport http {\nresponse_header_timeout 2s\n}\n}"
}

// box is a fallback to a local server.
func box(u *upstream) string {
	return "llm_cache {\nupstream mlx_lm\n}\nreverse_proxy " + u.Listener.Addr().String()
}

// overloaded answers with 529, and asks for a second's patience.
func overloaded(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(529)
	_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
}

// TestFallback: a local server gets the client's own request, translated, where the first upstream has failed
// before the first byte; the client gets an answer of its own API, which says why. All else is the first
// upstream's to answer.
func TestFallback(t *testing.T) {
	t.Parallel()
	status := func(code int, retry string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			if retry != "" {
				w.Header().Set("Retry-After", retry)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"api_error","message":"status %d"}}`, code)
		}
	}
	stream := func(text string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		reason string // "" where the client gets the first upstream's answer
		status int    // of that
		tries  int    // of the first upstream
	}{
		"429":                          {status(429, ""), "rate_limit", 0, 1},
		"429 for a minute":             {status(429, "60"), "rate_limit", 0, 1},
		"529":                          {overloaded, "overloaded", 0, 1},
		"500":                          {status(500, ""), "error", 0, 1},
		"closed connection":            {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, "unreached", 0, 1},
		"no answer in time":            {func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }, "unreached", 0, 1},
		"closed before the first byte": {stream(""), "unreached", 0, 1},
		"error as the first event": {
			stream("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"),
			"error", 0, 1,
		},
		"400":                  {status(400, ""), "", 400, 1},
		"401":                  {status(401, ""), "", 401, 1},
		"a stream that breaks": {stream(events[0] + events[1]), "", 200, 1},
		"429 for a second": {func(w http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				status(429, "1")(w, r, n)
				return
			}
			answerMessage(w, r, n)
		}, "", 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newUpstream(t, c.answer)
			other := newUpstream(t, answerChat)
			p := start(t, switching(first.Listener.Addr().String(), box(other)))
			res := p.post("/v1/messages", conversation(6, false))
			body, _ := io.ReadAll(res.Body)
			if n := len(first.requests()); n != c.tries {
				t.Errorf("the first upstream got %d requests, want %d", n, c.tries)
			}
			if c.reason == "" {
				if res.StatusCode != c.status || len(other.requests()) > 0 || res.Header.Get("X-Llm-Cache-Fallback") != "" {
					t.Errorf("got %d %s and %d requests at the fallback, want status %d of the first upstream", res.StatusCode, body,
						len(other.requests()), c.status)
				}
				return
			}
			if res.StatusCode != http.StatusOK || !strings.Contains(string(body), `"type":"message"`) ||
				res.Header.Get("X-Llm-Cache-Fallback") != c.reason {
				t.Fatalf("got %d %s, by the fallback for %q, want a message for %q", res.StatusCode, body,
					res.Header.Get("X-Llm-Cache-Fallback"), c.reason)
			}
			if got := other.last(); got.path != "/v1/chat/completions" || !strings.Contains(got.body, "line of file 5") {
				t.Errorf("the fallback got %s %.300s, want the whole conversation", got.path, got.body)
			}
		})
	}
}

// TestFallbackFails: where the fallback cannot serve a request, the client gets the first upstream's own
// answer, or that of the first upstream after all if it was not tried.
func TestFallbackFails(t *testing.T) {
	t.Parallel()
	hosted := strings.Replace(conversation(2, false), `"messages"`,
		`"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages"`, 1)
	broken := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusBadGateway) })
	other := newUpstream(t, answerChat)
	for name, c := range map[string]struct{ fallback, body string }{
		"not translatable": {box(other), hosted},
		"a failure":        {box(broken), conversation(2, false)},
		"a refusal":        {"respond `{}` 403", conversation(2, false)},
		"no answer":        {"header X-Tried 1", conversation(2, false)},
	} {
		first := newUpstream(t, overloaded)
		p := start(t, switching(first.Listener.Addr().String(), c.fallback))
		for i := range 2 { // the second time without a try of the first upstream in front of the fallback
			res := p.post("/v1/messages", c.body)
			if text := read(t, res); res.StatusCode != 529 || res.Header.Get("Retry-After") != "1" ||
				!strings.Contains(text, `"busy"`) {
				t.Errorf("%s: got %d %s %q, want the first upstream's 529", name, res.StatusCode, res.Header, text)
			}
			if n := len(first.requests()); n != i+1 {
				t.Errorf("%s: %d requests at the first upstream, want %d", name, n, i+1)
			}
		}
	}
	if n := len(other.requests()); n != 0 {
		t.Errorf("the fallback got %d requests that it cannot serve", n)
	}
}

// TestFallbackReturns: while the first upstream is down no request tries it; then a conversation returns at
// once if its cache there is warm, and one with its only cache at the fallback when that has lapsed.
func TestFallbackReturns(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	first := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if down.Load() {
			overloaded(w, r, n)
			return
		}
		answerMessage(w, r, n)
	})
	other := newUpstream(t, answerMessage)
	p := start(t, switching(first.Listener.Addr().String(),
		"llm_cache {\nupstream anthropic {\ncache_ttl 3s\n}\n}\nreverse_proxy "+other.Listener.Addr().String()))
	want := func(session string, turns int, reason string) {
		t.Helper()
		before := len(first.requests())
		res := p.post("/v1/messages", conversation(turns, false), "X-Session-Id", session)
		if text := read(t, res); res.StatusCode != http.StatusOK || res.Header.Get("X-Llm-Cache-Fallback") != reason {
			t.Errorf("%s with %d turns: got %d %s by the fallback for %q, want 200 for %q", session, turns, res.StatusCode, text,
				res.Header.Get("X-Llm-Cache-Fallback"), reason)
		}
		if tried := len(first.requests()) > before; tried != (reason == "" || reason == "overloaded") {
			t.Errorf("%s with %d turns: tried the first upstream: %t", session, turns, tried)
		}
	}
	want("warm", 1, "")
	down.Store(true)
	want("warm", 2, "overloaded")
	want("warm", 3, "down")
	want("cold", 1, "down")
	down.Store(false)
	time.Sleep(1100 * time.Millisecond)
	want("cold", 2, "stays")
	want("warm", 4, "")
	want("cold", 3, "stays")
	want("new", 1, "")
	time.Sleep(3200 * time.Millisecond)
	want("cold", 4, "")
	want("cold", 5, "")
}

// TestFallbackOfTenants: the rate limit of one tenant sends no other tenant to the fallback.
func TestFallbackOfTenants(t *testing.T) {
	t.Parallel()
	first := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("X-Api-Key") == "anna" {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerMessage(w, r, n)
	})
	other := newUpstream(t, answerChat)
	p := start(t, switching(first.Listener.Addr().String(), box(other)))
	for i, c := range []struct{ key, reason string }{{"anna", "rate_limit"}, {"anna", "down"}, {"bert", ""}, {"anna", "down"}} {
		res := p.post("/v1/messages", conversation(2, false), "X-Api-Key", c.key, "X-Session-Id", fmt.Sprint(i))
		if got := res.Header.Get("X-Llm-Cache-Fallback"); res.StatusCode != http.StatusOK || got != c.reason {
			t.Errorf("request %d of %s: got %d for %q, want 200 for %q", i, c.key, res.StatusCode, got, c.reason)
		}
	}
}

// TestFallbackGetsBodies: each request reaches the fallback as its client sent it, however many are on their way.
func TestFallbackGetsBodies(t *testing.T) {
	t.Parallel()
	first := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusTooManyRequests) })
	other := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\nfallback {\nreverse_proxy "+other.Listener.Addr().String()+"\n}\n}\nreverse_proxy "+
		first.Listener.Addr().String())
	var group sync.WaitGroup
	want := map[string]bool{}
	for i := range 64 {
		body := dayTurn(i, 20+i%8, false)
		want[body] = true
		group.Go(func() {
			if res := p.post("/v1/messages", body, "X-Api-Key", fmt.Sprint(i)); res.StatusCode != http.StatusOK {
				t.Errorf("got status %d", res.StatusCode)
			}
		})
	}
	group.Wait()
	for _, got := range other.requests() {
		if !want[got.body] {
			t.Errorf("the fallback got %.200s, which no client has sent", got.body)
		}
		delete(want, got.body)
	}
	if len(want) > 0 || len(first.requests()) != 64 {
		t.Errorf("%d requests did not reach the fallback, and %d the first upstream, want 0 and 64", len(want),
			len(first.requests()))
	}
}

// TestFallbackKeepsCredentials: the client's credentials, which are for a site with a key of its own, reach no
// upstream; the fallback has its own key.
func TestFallbackKeepsCredentials(t *testing.T) {
	t.Parallel()
	first := newUpstream(t, overloaded)
	other := newUpstream(t, answerMessage)
	address := other.Listener.Addr().String()
	for key, want := range map[string]string{"": "", "key sk-other": "sk-other"} {
		p := start(t, "llm_cache {\nupstream anthropic {\nkey sk-first\n}\nfallback {\nllm_cache {\nupstream anthropic {\n"+key+
			"\n}\n}\nreverse_proxy "+address+"\n}\n}\nreverse_proxy "+first.Listener.Addr().String())
		if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-ours"); res.StatusCode != http.StatusOK {
			t.Fatalf("got status %d", res.StatusCode)
		}
		if got := other.last().header.Get("X-Api-Key"); got != want {
			t.Errorf("with %q: the fallback got the key %q, want %q", key, got, want)
		}
	}
}

// TestFallbackCountsOnce: a request counts once in budgets, and once as a turn, with the reason; a spent budget
// of ours is no reason.
func TestFallbackCountsOnce(t *testing.T) {
	first := newUpstream(t, overloaded)
	other := newUpstream(t, answerMessage)
	path := filepath.Join(t.TempDir(), "audit.db")
	p := start(t, "respond 200")
	p.move()
	p.load(p.adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nauto_https off\nlog {\noutput discard\n}\nllm_cache {\naudit "+
		"sqlite %s {\ninterval 10ms\n}\nbudget * 3 requests hour\n}\n}\nhttp://%s {\n%s\n}\n", p.admin, path, p.addr,
		switching(first.Listener.Addr().String(), "llm_cache {\nupstream anthropic\n}\nreverse_proxy "+
			other.Listener.Addr().String()))))
	before := p.metric(`caddy_llm_cache_fallbacks_total{reason="overloaded"}`)
	for i, want := range []int{200, 200, 200, 429} {
		if res := p.post("/v1/messages", conversation(i+1, false)); res.StatusCode != want {
			t.Errorf("request %d: got status %d, want %d", i+1, res.StatusCode, want)
		}
	}
	if n := len(other.requests()); n != 3 {
		t.Errorf("the fallback got %d requests, want 3", n)
	}
	if n := p.metric(`caddy_llm_cache_fallbacks_total{reason="overloaded"}`) - before; n != 1 {
		t.Errorf("%v requests were counted as overloaded, want 1", n)
	}
	type row struct {
		outcome, fallback string
		status            int
	}
	want := []row{{"fell_back", "", 529}, {"completed", "overloaded", 200}, {"completed", "stays", 200}, {"completed", "stays", 200}}
	var got []row
	for try := 0; try < 100 && len(got) < len(want); try++ {
		time.Sleep(50 * time.Millisecond)
		s, err := audit.ReadSQLite(path)
		if err != nil {
			continue
		}
		got = nil
		err = s.Each(t.Context(), time.Time{}, func(r *audit.Record) error {
			if r.Outcome != audit.Refused {
				got = append(got, row{r.Outcome, r.Fallback, r.Status})
			}
			if r.Outcome == audit.FellBack && (r.USD != 0 || r.SentTokens != 0 || r.IsTurn()) {
				t.Errorf("a failed attempt has cost %v and sent %d tokens", r.USD, r.SentTokens)
			}
			return nil
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the records %v, want %v", got, want)
	}
}

// TestFallbackOverAWebSocket: a request on a client's socket goes to the fallback like one that is posted.
func TestFallbackOverAWebSocket(t *testing.T) {
	t.Parallel()
	first := newUpstream(t, overloaded)
	other := newUpstream(t, answerChat)
	p := start(t, "llm_cache {\nupstream openai\nfallback {\n"+box(other)+"\n}\n}\nreverse_proxy "+
		first.Listener.Addr().String())
	s := p.socket(t, "Authorization", "Bearer sk-a", "Session-Id", "conv-1")
	for range 2 {
		if got := s.ask(socketCreate("", "["+socketHistory(2)+"]")); got.Get("response.status").Str != "completed" {
			t.Errorf("got %s, want a completed response", got)
		}
	}
	if n := len(other.requests()); n != 2 || len(first.requests()) != 1 {
		t.Errorf("%d requests at the first upstream, %d at the fallback, want 1 and 2", len(first.requests()), n)
	}
}

// dayTurn is the request of a made-up conversation's turn.
func dayTurn(n, turn int, stream bool) string {
	return strings.Replace(conversation(turn, stream), `"system":"You are an agent."`, fmt.Sprintf(`"system":"You are agent `+
		`%d.","tools":[{"name":"Read","description":"reads a file","input_schema":{"type":"object"}}]`, n), 1)
}

// TestDayWithAFallback replays a day of conversations side by side. The provider is killed in the middle and comes
// back: no client gets an error, but for streams that had begun, all conversations return, and the account has
// each turn once, with the cost of cold prefixes at the fallback.
func TestDayWithAFallback(t *testing.T) {
	const conversations, turns = 24, 14
	var mu sync.Mutex
	billed := map[string]int64{} // prompt tokens by upstream
	model := func(name string) *soakUpstream {
		u := &soakUpstream{t: t, addr: testkit.FreeAddress(t), h: &simulator.Handler{
			Cache: pricing.NewSimulator(pricing.SimulatorConfig{}), Pace: 5 * time.Millisecond,
			Hooks: simulator.Hooks{Done: func(_ context.Context, u wire.Usage, _ *pricing.APIError) {
				mu.Lock()
				defer mu.Unlock()
				billed[name] += u.Prompt()
			}},
		}}
		u.listen()
		return u
	}
	first, other := model("first"), model("other")
	defer func() { other.kill() }()
	path := filepath.Join(t.TempDir(), "audit.db")
	p := &proxy{t: t, caddy: caddytest.New(t), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	p.move()
	p.load(p.adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nauto_https off\nlog {\noutput discard\n}\nllm_cache {\naudit "+
		"sqlite %s {\ninterval 10ms\n}\n}\n}\nhttp://%s {\n%s\n}\n", p.admin, path, p.addr,
		switching(first.addr, "llm_cache {\nupstream anthropic\n}\nreverse_proxy "+other.addr))))

	var broken, requests atomic.Int64
	var last sync.Map // reasons of the last turns
	var group sync.WaitGroup
	for c := range conversations {
		group.Go(func() {
			time.Sleep(time.Duration(c) * 20 * time.Millisecond)
			for turn := range turns {
				stream := (c+turn)%2 == 0
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
					strings.NewReader(dayTurn(c, turn+1, stream)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = http.Header{
					"Content-Type": {"application/json"}, "X-Session-Id": {fmt.Sprint("day-", c)}, "X-Llm-Cache-Headers": {"full"},
				}
				requests.Add(1)
				res, err := p.client.Do(req)
				if err != nil {
					t.Errorf("conversation %d, turn %d: %v", c, turn, err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				switch {
				case res.StatusCode == http.StatusOK && err == nil:
				case stream && len(body) > 0 && res.StatusCode == http.StatusOK:
					broken.Add(1)
				default:
					t.Errorf("conversation %d, turn %d: got %d %.300s, %v", c, turn, res.StatusCode, body, err)
				}
				last.Store(c, res.Header.Get("X-Llm-Cache-Fallback"))
				time.Sleep(250 * time.Millisecond) // tools run
			}
		})
	}
	time.Sleep(1200 * time.Millisecond)
	first.kill()
	time.Sleep(700 * time.Millisecond)
	first.listen()
	defer first.kill()
	group.Wait()
	last.Range(func(c, reason any) bool {
		if reason != "" {
			t.Errorf("conversation %v has ended at the fallback: %v", c, reason)
		}
		return true
	})
	p.caddy.Stop(t) // writes the last records

	s, err := audit.ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sums := map[string]*audit.Sum{}
	prefixes := map[string]audit.Tokens{} // of the first turns at the fallback
	if err := s.Each(t.Context(), time.Time{}, func(r *audit.Record) error {
		name := r.FallbackName()
		if sums[name] == nil {
			sums[name] = new(audit.Sum)
		}
		sums[name].Add(r)
		if _, met := prefixes[r.Session]; !met && r.Fallback != "" {
			prefixes[r.Session] = r.Billed
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var all, moved audit.Sum
	for name, sum := range sums {
		t.Logf("%s: %d turns, %d failed, $%.4f", name, sum.Turns, sum.Failed, sum.USD)
		if all.Join(sum); name != audit.None {
			moved.Join(sum)
		}
	}
	t.Logf("%d requests, %d streams broke", requests.Load(), broken.Load())
	if all.Turns != requests.Load() || all.Failed != 0 || all.Interrupted > broken.Load() {
		t.Errorf("the account has %d turns, %d failed, %d interrupted, want %d, 0, at most %d", all.Turns, all.Failed, all.Interrupted,
			requests.Load(), broken.Load())
	}
	if moved.Turns == 0 || moved.Billed.Prompt() != billed["other"] {
		t.Errorf("the account has %d turns and %d tokens at the fallback, which has billed %d", moved.Turns,
			moved.Billed.Prompt(), billed["other"])
	}
	for session, b := range prefixes {
		if b.Read != 0 || b.Write5m+b.Uncached == 0 {
			t.Errorf("session %s: the first turn at the fallback has the bill %+v, want a prefix that was not cached", session, b)
		}
	}
}
