// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// slowBox answers when it is told to, and says which request came.
type slowBox struct {
	*upstream
	came chan string
	free chan struct{}
}

func newSlowBox(t *testing.T) *slowBox {
	t.Helper()
	b := &slowBox{came: make(chan string, 100), free: make(chan struct{}, 100)}
	b.upstream = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		b.came <- r.Header.Get("X-Session-Id")
		select {
		case <-b.free:
		case <-r.Context().Done():
			return
		}
		if body := b.last().body; !strings.Contains(body, `"stream":true`) {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(events, ""))
	})
	return b
}

// asked is a request on its way.
type asked struct {
	status   int
	position string
	expected string
	retry    string
	body     string
	begun    chan struct{} // closed when the answer has begun, if there is one
}

// ask sends a request in the background.
func (p *proxy) ask(ctx context.Context, wg *sync.WaitGroup, session, key, body string, into *asked) {
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/messages", strings.NewReader(body))
		if err != nil {
			p.t.Error(err)
			return
		}
		req.Host = p.host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Session-Id", session)
		req.Header.Set("X-Api-Key", key)
		res, err := p.client.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				p.t.Errorf("%s: %v", session, err)
			}
			return
		}
		defer res.Body.Close()
		into.status, into.position, into.retry = res.StatusCode, res.Header.Get("X-Llm-Cache-Queue-Position"),
			res.Header.Get("Retry-After")
		into.expected = res.Header.Get("X-Llm-Cache-Queue-Expected-Ms")
		if into.begun != nil {
			close(into.begun)
		}
		var b strings.Builder
		_, _ = fmt.Fprint(&b, read(p.t, response{res}))
		into.body = b.String()
	})
}

// until waits until a metric has a value.
func (p *proxy) until(metric string, value float64) {
	p.t.Helper()
	p.await(metric, func(now float64) bool { return now == value })
}

// await waits until the value of a metric is as it should be.
func (p *proxy) await(metric string, good func(now float64) bool) {
	p.t.Helper()
	for range 6000 {
		if good(p.metric(metric)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("%s is %v", metric, p.metric(metric))
}

// waits waits until so many requests wait for a slot.
func (p *proxy) waits(n float64) {
	p.t.Helper()
	p.until("caddy_llm_cache_queue_waiting", n)
}

func withTools(turns int) string {
	return strings.Replace(conversation(turns, false), `{`, `{"tools":[{"name":"Read","input_schema":{"type":"object"}}],`,
		1)
}

func queued(b *slowBox, options string) string {
	return fmt.Sprintf("llm_cache {\n queue {\n%s\n}\n}\nreverse_proxy %s", options, strings.TrimPrefix(b.URL, "http://"))
}

func TestQueueServesConversationsFirst(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1\n max_waiting 3"))
	var (
		wg      sync.WaitGroup
		answers [5]asked
	)
	p.ask(t.Context(), &wg, "first", "a", withTools(1), &answers[0])
	if got := <-b.came; got != "first" {
		t.Fatalf("%q came", got)
	}
	p.ask(t.Context(), &wg, "title", "b", conversation(1, false), &answers[1])
	p.waits(1)
	p.ask(t.Context(), &wg, "second", "a", withTools(1), &answers[2])
	p.waits(2)
	p.ask(t.Context(), &wg, "other", "b", withTools(1), &answers[3])
	p.waits(3)
	if now := p.metric("caddy_llm_cache_queue_expected_wait_seconds"); now != 40 {
		t.Errorf("whoever comes now is told to wait for %v seconds, want 40", now)
	}
	// No more may wait.
	refused := p.metric(`caddy_llm_cache_queue_refused_total{reason="full"}`)
	p.ask(t.Context(), &wg, "late", "b", withTools(1), &answers[4])
	p.until(`caddy_llm_cache_queue_refused_total{reason="full"}`, refused+1)
	for i, want := range []string{"other", "second", "title"} {
		b.free <- struct{}{}
		if got := <-b.came; got != want {
			t.Errorf("request %d to get the slot was %q, want %q", i+2, got, want)
		}
	}
	b.free <- struct{}{}
	wg.Wait()
	// No request has ended when they come: each is taken for ten seconds.
	for i, want := range []asked{
		{status: 200, position: "0", expected: "0"},
		{status: 200, position: "0", expected: "10000"},
		{status: 200, position: "1", expected: "20000"},
		{status: 200, position: "2", expected: "30000"},
		{status: 429, position: "3", expected: "40000", retry: "some"},
	} {
		got := answers[i]
		if got.status != want.status || got.position != want.position || got.expected != want.expected ||
			(got.retry != "") != (want.retry != "") {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	if !strings.Contains(answers[4].body, `"type":"rate_limit_error"`) {
		t.Errorf("refused with %s", answers[4].body)
	}
	if n, err := strconv.Atoi(answers[4].retry); err != nil || n < 1 || n > 60 {
		t.Errorf("retry after %q", answers[4].retry)
	}
}

func TestQueueForgetsThoseWhoLeave(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1"))
	var (
		wg      sync.WaitGroup
		answers [3]asked
	)
	p.ask(t.Context(), &wg, "first", "a", withTools(1), &answers[0])
	<-b.came
	ctx, leave := context.WithCancel(t.Context())
	p.ask(ctx, &wg, "gone", "b", withTools(1), &answers[1])
	p.waits(1)
	leave()
	p.waits(0)
	p.ask(t.Context(), &wg, "last", "c", withTools(1), &answers[2])
	p.waits(1)
	b.free <- struct{}{}
	if got := <-b.came; got != "last" {
		t.Errorf("%q got the slot", got)
	}
	b.free <- struct{}{}
	wg.Wait()
	if answers[2].status != http.StatusOK || answers[2].position != "0" {
		t.Errorf("the last: %+v", answers[2])
	}
}

// A client that leaves while its request waits leaves nothing behind, where work
// goes on without its client, too: it has not begun.
func TestDetachedKeepsNoPlaceInTheQueue(t *testing.T) {
	b := newSlowBox(t)
	p := start(t,
		fmt.Sprintf("llm_cache {\n upstream ollama {\n format anthropic\n}\n rejoin 1m\n queue {\n slots 1\n max_waiting "+
			"1\n}\n}\nreverse_proxy %s", strings.TrimPrefix(b.URL, "http://")))
	var (
		wg      sync.WaitGroup
		answers [3]asked
	)
	p.ask(t.Context(), &wg, "first", "a", withTools(1), &answers[0])
	<-b.came
	ctx, leave := context.WithCancel(t.Context())
	p.ask(ctx, &wg, "gone", "b", withTools(1), &answers[1])
	p.waits(1)
	leave()
	p.waits(0)
	p.until("caddy_llm_cache_detached", 0)
	p.ask(t.Context(), &wg, "last", "c", withTools(1), &answers[2])
	p.waits(1)
	b.free <- struct{}{}
	if got := <-b.came; got != "last" {
		t.Errorf("%q got the slot", got)
	}
	b.free <- struct{}{}
	wg.Wait()
	if answers[2].status != http.StatusOK || answers[2].position != "0" {
		t.Errorf("the last: %+v", answers[2])
	}
}

// Who fills the queue alone makes room for others.
func TestFullQueueMakesRoom(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1\n max_waiting 3"))
	var (
		wg      sync.WaitGroup
		answers [5]asked
	)
	for i := range 4 {
		p.ask(t.Context(), &wg, fmt.Sprint("many ", i), "many", withTools(1), &answers[i])
		if i == 0 {
			<-b.came
		}
		p.waits(float64(i))
	}
	refused := p.metric(`caddy_llm_cache_queue_refused_total{reason="share"}`)
	p.ask(t.Context(), &wg, "one", "one", withTools(1), &answers[4])
	p.until(`caddy_llm_cache_queue_refused_total{reason="share"}`, refused+1)
	p.waits(3)
	for range 4 {
		b.free <- struct{}{}
	}
	wg.Wait()
	for i, a := range answers {
		want := http.StatusOK
		if i == 3 { // came last of the many
			want = http.StatusTooManyRequests
		}
		if a.status != want || (a.retry != "") != (i == 3) {
			t.Errorf("request %d: %+v, want status %d", i, a, want)
		}
	}
}

// A reload while requests wait loses none of them, and the new limits hold.
func TestQueueOutlivesAReload(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1"))
	var (
		wg      sync.WaitGroup
		answers [4]asked
	)
	for i := range 3 {
		p.ask(t.Context(), &wg, fmt.Sprint("old ", i), fmt.Sprint(i), withTools(1), &answers[i])
		if i == 0 {
			<-b.came
		} else {
			p.waits(float64(i))
		}
	}
	p.reload(queued(b, "slots 2"))
	p.ask(t.Context(), &wg, "new", "n", withTools(1), &answers[3])
	<-b.came // one more slot is one more request at a time
	p.waits(2)
	for range 4 {
		b.free <- struct{}{}
	}
	wg.Wait()
	for i := range answers {
		if answers[i].status != http.StatusOK {
			t.Errorf("request %d: %+v", i, answers[i])
		}
	}
}

// Side requests go elsewhere if there is such a place, without waiting for a slot;
// what asks for a summary does not.
func TestSideRequests(t *testing.T) {
	box, aside := newUpstream(t, answerChat), newUpstream(t, answerChat)
	p := start(t,
		fmt.Sprintf("llm_cache {\n upstream mlx_lm\n queue\n side_requests %s {\n header_up X-Aside "+
			"yes\n}\n}\nreverse_proxy %s", aside.Listener.Addr(), box.Listener.Addr()))
	summary := strings.Replace(conversation(2, false), `"messages":[`,
		`"messages":[{"role":"user","content":"Your task is to create a detailed summary of the conversation so far."},`+
			`{"role":"assistant","content":"Yes."},`, 1)
	summary = strings.TrimSuffix(summary, "]}") +
		`,{"role":"assistant","content":"Well."},{"role":"user","content":"Your task is to create a detailed summary of ` +
		`the conversation so far."}]}`
	for _, c := range []struct {
		name, body string
		headers    []string
		to         *upstream
	}{
		{"a conversation", withTools(1), nil, box},
		{"a title", conversation(1, false), nil, aside},
		{"auxiliary", withTools(1), []string{"X-Claude-Code-Request-Class", "auxiliary"}, aside},
		{"a summary", summary, nil, box},
	} {
		before := len(c.to.requests())
		res := p.post("/v1/messages", c.body, c.headers...)
		if res.StatusCode != http.StatusOK || gjson.Get(read(t, res), "type").Str != "message" {
			t.Errorf("%s: %s", c.name, res.Status)
		}
		got := c.to.requests()
		if len(got) != before+1 {
			t.Errorf("%s: %d requests at the box, %d aside", c.name, len(box.requests()), len(aside.requests()))
			continue
		}
		if r := got[before]; r.path != "/v1/chat/completions" || gjson.Get(r.body, "model").Str != "default_model" ||
			r.header.Get("X-Aside") == "yes" != (c.to == aside) {
			t.Errorf("%s: %s, %v, %s", c.name, r.path, r.header, r.body)
		}
		if waits := res.Header.Get("X-Llm-Cache-Queue-Position") != ""; waits != (c.to == box) {
			t.Errorf("%s: in the queue: %t", c.name, waits)
		}
	}
}

// TestEarlyStreamTellsItsPlace looks at a stream that is opened while its request
// still waits for a slot.
func TestEarlyStreamTellsItsPlace(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, fmt.Sprintf("llm_cache {\n queue {\nslots 1\n}\n heartbeat on {\n open 1s\n }\n}\nreverse_proxy %s",
		strings.TrimPrefix(b.URL, "http://")))
	var (
		wg      sync.WaitGroup
		answers [2]asked
	)
	stream := func(n int) string {
		return strings.Replace(conversation(n, true), `{`, `{"tools":[{"name":"Read","input_schema":{"type":"object"}}],`, 1)
	}
	p.ask(t.Context(), &wg, "first", "anna", stream(2), &answers[0])
	<-b.came
	answers[1].begun = make(chan struct{})
	p.ask(t.Context(), &wg, "second", "ben", stream(3), &answers[1])
	<-answers[1].begun
	p.waits(1)
	b.free <- struct{}{}
	<-b.came
	b.free <- struct{}{}
	wg.Wait()
	if a := answers[1]; a.status != http.StatusOK || !strings.Contains(a.body, "event: ping") || a.position == "" ||
		a.expected == "" {
		t.Errorf("%d, position %q, expected %q: %q", a.status, a.position, a.expected, a.body)
	}
}

// TestQueueForgetsStrangersWhoLeave: who leaves gives up the place, whatever was asked for.
func TestQueueForgetsStrangersWhoLeave(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1\n max_waiting 3"))
	var wg sync.WaitGroup
	p.ask(t.Context(), &wg, "first", "a", withTools(1), new(asked))
	<-b.came
	ctx, leave := context.WithCancel(t.Context())
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/completions",
			strings.NewReader(`{"prompt":"x"}`))
		if err != nil {
			t.Error(err)
			return
		}
		if res, err := p.client.Do(req); err == nil {
			t.Error("the model works on two requests at a time")
			_ = res.Body.Close()
		}
	})
	p.waits(1)
	leave()
	p.waits(0)
	b.free <- struct{}{}
	wg.Wait()
	if n := len(b.requests()); n != 1 {
		t.Errorf("%d requests came, want one", n)
	}
}

// TestQueueHoldsWhatCannotBeRead: what is passed on unread is work for the box all the same,
// which does not go by the type that a client gives its body.
func TestQueueHoldsWhatCannotBeRead(t *testing.T) {
	b := newSlowBox(t)
	p := start(t, queued(b, "slots 1\n max_waiting 3"))
	for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Content-Encoding", "br"}} {
		var wg sync.WaitGroup
		p.ask(t.Context(), &wg, "first", "a", withTools(1), new(asked))
		if got := <-b.came; got != "first" {
			t.Fatalf("%q came", got)
		}
		wg.Go(func() {
			read(t, p.post("/v1/messages", conversation(1, false), append(header, "X-Session-Id", "second")...))
		})
		p.waits(1)
		b.free <- struct{}{}
		if got := <-b.came; got != "second" {
			t.Fatalf("%q came", got)
		}
		b.free <- struct{}{}
		wg.Wait()
	}
}
