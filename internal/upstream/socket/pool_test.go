// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// bench is a pool with a clock of its own, in front of a provider that answers each request
// according to its number.
type bench struct {
	*testing.T
	pool *Pool

	mu     sync.Mutex
	now    time.Time
	posts  int
	opened int
	fails  int // status of handshakes, 0 for success
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, now: time.Unix(1e9, 0)}
	b.pool = NewPool(func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.now
	})
	t.Cleanup(b.pool.Close)
	return b
}

// ServeHTTP is the provider and the handlers in front of it.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	b.mu.Lock()
	status := b.fails
	if r.Method == http.MethodPost {
		b.posts++
	} else if status == 0 {
		b.opened++
	}
	b.mu.Unlock()
	if r.Method == http.MethodPost {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(`{"id":"posted"}`))
		return err
	}
	if status != 0 {
		w.WriteHeader(status)
		return nil
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	for {
		_, m, err := ws.Read(r.Context())
		if err != nil {
			return nil
		}
		id := "resp_" + strings.Trim(string(m[strings.Index(string(m), `"n":`)+4:][:3]), `,"}`)
		for _, e := range []string{
			`{"type":"response.created","response":{"id":"` + id + `"}}`,
			"{\"type\":\"response.completed\",\n\"response\":{\"id\":\"" + id + `","object":"response"}}`,
		} {
			if err := ws.Write(r.Context(), websocket.MessageText, []byte(e)); err != nil {
				return nil
			}
		}
	}
}

// ask sends a request of a conversation that continues an answer, "" for none. It returns the
// answer and the outcome.
func (b *bench) ask(tenant byte, session, handle, body string, header ...string) (answer, what string) {
	b.Helper()
	k := retain.Key{Side: retain.Side{Tenant: sessioncache.Tenant{tenant}, Upstream: "u"}, Session: session}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/responses", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Header[from] = []string{handle}
	(&httpx.Payload{Data: []byte(body)}).Attach(r)
	w := httptest.NewRecorder()
	l := b.pool.Layer(caddyhttp.HandlerFunc(b.ServeHTTP), func(*http.Request) retain.Key { return k })
	if err := l.ServeHTTP(w, r); err != nil {
		b.Fatal(err)
	}
	return w.Body.String(), w.Header().Get(became)
}

// want asks, and checks the numbers of connections and POSTs so far.
func (b *bench) want(opened, posts int, what string, tenant byte, session, handle, body string, header ...string) {
	b.Helper()
	answer, got := b.ask(tenant, session, handle, body, header...)
	if got != what || what == "" && !strings.HasPrefix(answer, "event: response.created\ndata: {") {
		b.Errorf("%s in %s became %q: %s; want %q", body, session, got, answer, what)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened != opened || b.posts != posts {
		b.Errorf("%s: %d connections, %d posts; want %d, %d", body, b.opened, b.posts, opened, posts)
	}
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

const lost = string(retain.Lost)

// TestPool: a connection is used only by its own conversation, once for each answer, and not when
// it is old.
func TestPool(t *testing.T) {
	b := newBench(t)
	b.want(1, 0, "", 1, "s", "", `{"stream":true,"n":1}`, "Authorization", "a")
	if b.pool.lost("resp_1") {
		t.Error("the answer is lost")
	}
	b.want(1, 0, lost, 2, "s", "resp_1", `{"stream":true,"n":2}`, "Authorization", "a") // another tenant
	b.want(1, 0, lost, 1, "t", "resp_1", `{"stream":true,"n":2}`, "Authorization", "a") // another conversation
	b.want(1, 0, lost, 1, "s", "resp_1", `{"stream":true,"n":2}`, "Authorization", "b") // other credentials
	b.want(1, 0, "", 1, "s", "resp_1", `{"stream":true,"n":2}`, "Authorization", "a")
	b.want(1, 0, lost, 1, "s", "resp_1", `{"stream":true,"n":3}`, "Authorization", "a") // it keeps a later answer
	if !b.pool.lost("resp_1") || b.pool.lost("resp_2") {
		t.Error("the wrong answer is lost")
	}
	b.want(1, 0, "", 1, "s", "", `{"stream":true,"n":4}`, "Authorization", "a") // whole, over the same connection
	b.want(2, 0, "", 1, "s", "", `{"stream":true,"n":5}`, "Authorization", "b")
	b.pass(54 * time.Minute)
	b.want(2, 0, "", 1, "s", "resp_4", `{"stream":true,"n":6}`, "Authorization", "a")
	b.pass(time.Minute)
	if !b.pool.lost("resp_6") {
		t.Error("a connection is too old, and its answer not lost")
	}
	b.want(2, 0, lost, 1, "s", "resp_6", `{"stream":true,"n":7}`, "Authorization", "a")
	b.want(3, 0, "", 1, "s", "", `{"stream":true,"n":8}`, "Authorization", "a")
}

// TestPoolForget: a connection is closed when its client has deleted the kept answer. Other clients
// cannot close it.
func TestPoolForget(t *testing.T) {
	b := newBench(t)
	b.want(1, 0, "", 1, "s", "", `{"stream":true,"n":1}`)
	b.pool.Forget(retain.Side{Tenant: sessioncache.Tenant{2}, Upstream: "u"}, "resp_1")
	b.pool.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "v"}, "resp_1")
	b.pool.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "u"}, "resp_2")
	if b.pool.lost("resp_1") {
		t.Error("another's request has closed the connection")
	}
	b.pool.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "u"}, "resp_1")
	if !b.pool.lost("resp_1") {
		t.Error("the answer is kept")
	}
	b.want(1, 0, lost, 1, "s", "resp_1", `{"stream":true,"n":2}`)
	(*Pool)(nil).Forget(retain.Side{}, "resp_1")
}

// TestPoolBounds: the connection idle for longest is closed first. With all connections busy, and
// after the end of a configuration, requests are posted.
func TestPoolBounds(t *testing.T) {
	b := newBench(t)
	b.pool.most = 2
	b.want(1, 0, "", 1, "a", "", `{"stream":true,"n":1}`)
	b.pass(time.Second)
	b.want(2, 0, "", 1, "b", "", `{"stream":true,"n":2}`)
	b.pass(time.Second)
	b.want(3, 0, "", 1, "c", "", `{"stream":true,"n":3}`)
	if !b.pool.lost("resp_1") || b.pool.lost("resp_2") || b.pool.lost("resp_3") {
		t.Error("another one than the oldest gave way")
	}
	for _, id := range []string{"resp_2", "resp_3"} {
		b.pool.mu.Lock()
		b.pool.use(b.pool.last[id])
		b.pool.mu.Unlock()
	}
	b.want(3, 1, posted, 1, "d", "", `{"stream":true,"n":4}`)
	b.pool.Close()
	b.want(3, 2, posted, 1, "e", "", `{"stream":true,"n":5}`)
}

// TestPoolIdle: idle connections are closed.
func TestPoolIdle(t *testing.T) {
	b := newBench(t)
	b.pool.idle = time.Millisecond
	b.want(1, 0, "", 1, "a", "", `{"stream":true,"n":1}`)
	for end := time.Now().Add(30 * time.Second); !b.pool.lost("resp_1"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still open")
		}
	}
}

// TestPoolRefused: an upstream that refuses a handshake is not tried again for a while. One that is
// briefly unreachable is.
func TestPoolRefused(t *testing.T) {
	for status, what := range map[int]string{404: "refused", 426: "refused", 200: "refused", 429: posted, 502: posted} {
		b := newBench(t)
		b.fails = status
		posts := 0
		if what == posted {
			posts = 1
		}
		b.want(0, posts, what, 1, "a", "", `{"stream":true,"n":1}`)
		b.mu.Lock()
		b.fails = 0
		b.mu.Unlock()
		b.want(1, posts, "", 2, "a", "", `{"stream":true,"n":2}`)
		if what == posted {
			b.want(2, posts, "", 1, "a", "", `{"stream":true,"n":3}`)
			continue
		}
		b.want(1, posts, what, 1, "a", "", `{"stream":true,"n":4}`)
		b.pass(refusal)
		b.want(2, posts, "", 1, "a", "", `{"stream":true,"n":5}`)
	}
}

// TestAnswer: events form the same response as a POST.
func TestAnswer(t *testing.T) {
	const gone = `{"type":"error","status":429,"error":{"code":"slow","message":"Slow \"down\"."},` +
		`"headers":{"retry-after":"7","content-length":"1","x-llm-cache-held":"x"}}`
	for name, c := range map[string]struct {
		stream bool
		events []string
		status int
		kind   string
		want   string
	}{
		"stream": {
			true,
			[]string{`{"type":"response.created"}`, "{\"type\":\"response.completed\",\r\n\"response\":{\"id\":\"r\"}}"},
			200, "text/event-stream; charset=utf-8",
			"event: response.created\ndata: {\"type\":\"response.created\"}\n\nevent: response.completed\ndata: " +
				"{\"type\":\"response.completed\",  \"response\":{\"id\":\"r\"}}\n\n",
		},
		"one piece": {
			false,
			[]string{`{"type":"response.created"}`, `{"type":"response.completed","response":{"id":"r"}}`},
			200,
			"application/json", `{"id":"r"}`,
		},
		"refused": {
			true,
			[]string{gone},
			429, "application/json",
			`{"error":{"code":"slow","message":"Slow \"down\"."}}`,
		},
		"refused by what is no error": {
			false,
			[]string{`{"type":"error","status":200,"error":{}}`},
			500, "application/json",
			`{"error":{}}`,
		},
		"failed amid": {
			true,
			[]string{`{"type":"response.created"}`, gone},
			200, "text/event-stream; charset=utf-8",
			"event: response.created\ndata: {\"type\":\"response.created\"}\n\nevent: error\ndata: {\"type\":\"error\"," +
				"\"code\":\"slow\",\"message\":\"Slow \\\"down\\\".\",\"param\":null}\n\n",
		},
	} {
		w := httptest.NewRecorder()
		a := newAnswer(w, c.stream)
		for _, e := range c.events {
			end, _ := ends([]byte(e))
			if err := a.take([]byte(e), end); err != nil {
				t.Error(err)
			}
		}
		h := w.Header()
		if w.Code != c.status || h.Get("Content-Type") != c.kind || w.Body.String() != c.want ||
			h.Get("X-Llm-Cache-Retained") != "" || name == "refused" && h.Get("Retry-After") != "7" {
			t.Errorf("%s: %d %v %q", name, w.Code, h, w.Body)
		}
	}
}
