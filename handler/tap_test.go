// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const body = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`

// recorder is a client's connection that knows the fast ways in.
type recorder struct {
	*httptest.ResponseRecorder
	readFrom bool
	flushed  int
}

func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	r.readFrom = true
	return io.Copy(r.ResponseRecorder, src)
}

func (r *recorder) FlushError() error {
	r.flushed++
	return nil
}

func serve(t *testing.T, h *Handler, next caddyhttp.HandlerFunc) (*recorder, error) {
	t.Helper()
	w := &recorder{ResponseRecorder: httptest.NewRecorder()}
	return w, h.ServeHTTP(w, request([]byte(body), "s"), next)
}

func committed(h *Handler) (n int) {
	for _, s := range h.site.store.Page(sessioncache.Newest, 1000) {
		for _, l := range s.Report(h.site.now()).Lineages {
			n += l.Requests
		}
	}
	return n
}

// TestReadFrom: what is copied by the writer's ReadFrom is seen as well.
func TestReadFrom(t *testing.T) {
	for _, length := range []bool{false, true} {
		h := attached(t, pipeline.Options{})
		w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			if length {
				w.Header().Set("Content-Length", strconv.Itoa(len(answerBytes)))
			}
			_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(string(answerBytes))})
			return err
		})
		if err != nil || w.Body.String() != string(answerBytes) {
			t.Errorf("body is %q, %v", w.Body, err)
		}
		if committed(h) != 1 {
			t.Error("not committed")
		}
	}
}

// TestHeaderWithBody: the header of a stream that is flushed by itself, as reverse_proxy
// does, goes out with the first bytes of the body, or without them if they do not come.
func TestHeaderWithBody(t *testing.T) {
	const event = `data: {"type":"message_start","message":{"id":"a"}}` + "\n\n"
	// ask returns what each flush of a stream has sent up to then. With late, the body waits
	// for a flush.
	ask := func(late bool) (flushes []string) {
		w := &signal{recorder: &recorder{ResponseRecorder: httptest.NewRecorder()}, flushes: make(chan string, 9)}
		h := attached(t, pipeline.Options{})
		err := h.ServeHTTP(w, request([]byte(body), "s"), caddyhttp.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) error {
			to.Header().Set("Content-Type", "text/event-stream")
			to.WriteHeader(http.StatusOK)
			c := http.NewResponseController(to)
			if err := c.Flush(); err != nil {
				return err
			}
			if late {
				flushes = append(flushes, <-w.flushes)
			}
			if _, err := io.WriteString(to, event); err != nil {
				return err
			}
			return errors.Join(c.Flush(), c.Flush())
		}))
		if err != nil {
			t.Fatal(err)
		}
		for len(w.flushes) > 0 {
			flushes = append(flushes, <-w.flushes)
		}
		return flushes
	}
	if got := ask(true); !slices.Equal(got, []string{"", event}) {
		t.Errorf("a late body: flushed with %q", got)
	}
	for range 100 { // on a machine that stands still, a body may come late as well
		if got := ask(false); slices.Equal(got, []string{event}) {
			return
		}
	}
	t.Error("a body that comes at once never had its header with it")
}

// signal is a client's connection that tells what each flush sends.
type signal struct {
	*recorder
	flushes chan string
}

func (s *signal) FlushError() error {
	s.flushes <- s.Body.String()
	return nil
}

// watcher is a client that looks at every byte when it comes.
type watcher struct {
	*recorder
	look func(so string)
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.recorder.Write(p)
	w.look(w.Body.String())
	return n, err
}

// TestKnownBeforeTheEnd: a client that has the whole of the terminal event, and
// may send its next request at once, finds the session up to date; however long
// the event is, and in what pieces it came.
func TestKnownBeforeTheEnd(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for path, stream := range map[string][]string{
		"/v1/messages":         {`data: {"type":"message_start","message":{"id":"a"}}`, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, `data: {"type":"message_stop","x":"` + long + `"}`},
		"/v1/chat/completions": {`data: {"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `data: [DONE]`},
		"/v1/responses":        {`data: {"type":"response.created","response":{"id":"a"}}`, `data: {"type":"response.completed","response":{"id":"a","status":"completed","output":[],"x":"` + long + `"}}`},
	} {
		for _, together := range []bool{false, true} {
			pieces := stream
			if together {
				pieces = []string{strings.Join(stream, "\n\n")}
			}
			h := attached(t, pipeline.Options{})
			seen := false
			end := "\n\n" + stream[len(stream)-1] + "\n\n"
			w := &watcher{recorder: &recorder{ResponseRecorder: httptest.NewRecorder()}, look: func(so string) {
				if strings.HasSuffix(so, end) {
					seen = true
					if committed(h) != 1 {
						t.Errorf("%s: the client is ahead", path)
					}
				}
			}}
			r := request([]byte(strings.Replace(body, `"messages"`, `"stream":true,"input":"hi","messages"`, 1)), "s")
			r.URL.Path = path
			err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, p := range pieces {
					if _, err := io.WriteString(w, p+"\n\n"); err != nil {
						return err
					}
				}
				return nil
			}))
			if err != nil || !seen {
				t.Errorf("%s: %v, the end came: %t", path, err, seen)
			}
		}
	}
}

// TestKnownWhenTheModelStops: where the usage or the end of the stream comes behind
// the reason why the model stopped, a client that has the reason finds the session up
// to date, and the usage is counted all the same; once, and also if the stream breaks
// off behind it.
func TestKnownWhenTheModelStops(t *testing.T) {
	for path, stream := range map[string][]string{
		"/v1/messages":                       {`{"type":"message_start","message":{"id":"a","usage":{"input_tokens":70}}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`},
		"/v1/chat/completions":               {`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":7,"total_tokens":77}}`, `[DONE]`},
		"/v1/models/m:streamGenerateContent": {`{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}`, `{"usageMetadata":{"promptTokenCount":70,"candidatesTokenCount":7}}`},
	} {
		for _, cut := range []bool{false, true} {
			h := attached(t, pipeline.Options{})
			seen := false
			w := &watcher{recorder: &recorder{ResponseRecorder: httptest.NewRecorder()}, look: func(so string) {
				if strings.HasSuffix(so, stream[1]+"\n\n") {
					seen = true
					if n := committed(h); n != 1 {
						t.Errorf("%s: the client is ahead: %d", path, n)
					}
				}
			}}
			r := request([]byte(strings.Replace(body, `"messages"`, `"stream":true,"contents":[{"role":"user","parts":[{"text":"hi"}]}],"messages"`, 1)), "s")
			r.URL.Path, r.URL.RawQuery = path, "alt=sse"
			pieces := stream
			if cut {
				pieces = stream[:2]
			}
			func() {
				defer func() { _ = recover() }()
				_ = h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
					w.Header().Set("Content-Type", "text/event-stream")
					for _, p := range pieces {
						if _, err := io.WriteString(w, "data: "+p+"\n\n"); err != nil {
							return err
						}
					}
					if cut {
						panic(http.ErrAbortHandler)
					}
					return nil
				}))
			}()
			if !seen || committed(h) != 1 {
				t.Errorf("%s: seen %t, %d requests", path, seen, committed(h))
			}
			for _, s := range h.site.store.Page(sessioncache.Newest, 10) {
				if got := s.Report(h.site.now()).Lineages[0]; !cut && (got.Last.Prompt() != 70 || got.Total.Output != 7) {
					t.Errorf("%s: usage is %+v", path, got.Last)
				}
			}
		}
	}
}

// TestFlush reaches the client unless the answer is held.
func TestFlush(t *testing.T) {
	for contentType, want := range map[string]int{"text/event-stream": 2, "application/json": 0} {
		h := attached(t, pipeline.Options{})
		w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", contentType)
			if want == 0 {
				w.Header().Set("Content-Length", "2")
			}
			for range 2 {
				_, _ = w.Write([]byte("{"))
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || w.flushed != want {
			t.Errorf("%s: flushed %d times, want %d; %v", contentType, w.flushed, want, err)
		}
		if w.Body.String() != "{{" {
			t.Errorf("%s: body is %q", contentType, w.Body)
		}
	}
}

func TestFlushBeforeTheHeader(t *testing.T) {
	h := attached(t, pipeline.Options{})
	w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
		return http.NewResponseController(w).Flush()
	})
	if err != nil || w.Header().Get(headerBrief) == "" || w.flushed != 1 {
		t.Errorf("headers are %v, %v", w.Header(), err)
	}
}

// TestSecondHeader is ignored, as net/http does.
func TestSecondHeader(t *testing.T) {
	h := attached(t, pipeline.Options{})
	w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		return nil
	})
	if err != nil || w.Code != http.StatusTeapot {
		t.Errorf("status %d, %v", w.Code, err)
	}
}

// TestLongerThanItSays: an answer that outgrows its Content-Length passes on.
func TestLongerThanItSays(t *testing.T) {
	h := attached(t, pipeline.Options{})
	w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "2")
		for _, part := range []string{"{", "}", "more"} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || w.Body.String() != "{}more" {
		t.Errorf("body is %q, %v", w.Body, err)
	}
}

// TestPanicBefore: a panic of ours forwards the original.
func TestPanicBefore(t *testing.T) {
	h := attached(t, pipeline.Options{})
	h.site.pipe = nil
	var got string
	w, err := serve(t, h, func(w http.ResponseWriter, r *http.Request) error {
		b, err := io.ReadAll(r.Body)
		got = string(b)
		w.WriteHeader(http.StatusNoContent)
		return err
	})
	if err != nil || w.Code != http.StatusNoContent || got != body {
		t.Errorf("status %d, upstream got %q, %v", w.Code, got, err)
	}
	if w.Header().Get(headerSession) != "" {
		t.Error("headers of an exchange that there was not")
	}
}

// TestPanicInSettle leaves the answer whole.
func TestPanicInSettle(t *testing.T) {
	h := attached(t, pipeline.Options{})
	c := &requestState{site: h.site, view: new(wire.View), session: new(sessioncache.Session), ex: new(pipeline.Exchange)} // of no request: Commit and Abandon panic
	w := &recorder{ResponseRecorder: httptest.NewRecorder()}
	tp := newTap(w, c, false)
	tp.WriteHeader(http.StatusOK)
	_, _ = tp.Write([]byte("answer"))
	if err := c.finish(tp, nil); err != nil || w.Body.String() != "answer" {
		t.Errorf("body is %q, %v", w.Body, err)
	}
}

// TestPanicBehind goes on its way, and the client gets what there was.
func TestPanicBehind(t *testing.T) {
	h := attached(t, pipeline.Options{})
	w := &recorder{ResponseRecorder: httptest.NewRecorder()}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				t.Errorf("panic is %v", p)
			}
		}()
		_ = h.ServeHTTP(w, request([]byte(body), "s"), caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id"`)
			panic(http.ErrAbortHandler)
		}))
	}()
	if w.Body.String() != `{"id"` || w.flushed == 0 || committed(h) != 0 {
		t.Errorf("body is %q, flushed %d times, %d commits", w.Body, w.flushed, committed(h))
	}
}

// TestRequestIsRestored for the access log and for error routes.
func TestRequestIsRestored(t *testing.T) {
	h := attached(t, pipeline.Options{})
	r := request([]byte(body), "s")
	r.Header.Set("Accept-Encoding", "br")
	failed := errors.New("failed")
	err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("Accept-Encoding") != "identity" || r.GetBody == nil {
			t.Errorf("headers are %v", r.Header)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		return failed
	}))
	b, _ := io.ReadAll(r.Body)
	if !errors.Is(err, failed) || r.Header.Get("Accept-Encoding") != "br" || string(b) != body {
		t.Errorf("%v, headers %v, body %q", err, r.Header, b)
	}
}

// TestLateRequest passes untouched when the store has been closed.
func TestLateRequest(t *testing.T) {
	h := attached(t, pipeline.Options{})
	if err := h.site.store.Unpin(); err != nil {
		t.Fatal(err)
	}
	w, err := serve(t, h, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	if err != nil || w.Code != http.StatusNoContent || w.Header().Get(headerSession) != "" {
		t.Errorf("status %d, %v", w.Code, err)
	}
}

// TestTiming: the moments of an answer come in their order, and all of them.
func TestTiming(t *testing.T) {
	h := attached(t, pipeline.Options{})
	c := &requestState{site: h.site, session: new(sessioncache.Session), ex: new(pipeline.Exchange), view: &wire.View{Format: wire.Anthropic}, ending: ending{settled: true}, overhead: 1}
	tp := newTap(&recorder{ResponseRecorder: httptest.NewRecorder()}, c, false)
	tp.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		": comment\n\n",
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
	} {
		_, _ = io.WriteString(tp, e)
	}
	if got := tp.turn().Timing; got.Queue != 1 || got.FirstByte <= 0 || got.FirstToken < got.FirstByte || got.LastToken != 0 {
		t.Errorf("in the middle: %+v", got)
	}
	_, _ = io.WriteString(tp, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	if got := tp.turn().Timing; got.LastToken < got.FirstToken {
		t.Errorf("at the end: %+v", got)
	}
}
