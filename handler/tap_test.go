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
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const body = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`

// recorder is a client's connection that implements io.ReaderFrom and FlushError.
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
		for _, l := range s.Report(h.site.now()).Conversations {
			n += l.Requests
		}
	}
	return n
}

// TestReadFrom: bytes copied by the writer's ReadFrom are decoded as well.
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

// TestHeaderWithBody: a stream's header flushed on its own, as by reverse_proxy, is sent with the
// first bytes of the body, or without them if they are late.
func TestHeaderWithBody(t *testing.T) {
	const event = `data: {"type":"message_start","message":{"id":"a"}}` + "\n\n"
	// ask returns the bytes sent by each flush of a stream. With late, the body waits for a flush.
	ask := func(late bool) (flushes []string) {
		w := &signal{recorder: &recorder{ResponseRecorder: httptest.NewRecorder()}, flushes: make(chan string, 9)}
		h := attached(t, pipeline.Options{})
		err := h.ServeHTTP(w, request([]byte(body), "s"),
			caddyhttp.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) error {
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
	for range 100 { // on a stalled machine, a body may be late as well
		if got := ask(false); slices.Equal(got, []string{event}) {
			return
		}
	}
	t.Error("a body that comes at once never had its header with it")
}

// signal is a client's connection that reports the bytes sent by each flush.
type signal struct {
	*recorder
	flushes chan string
}

func (s *signal) FlushError() error {
	s.flushes <- s.Body.String()
	return nil
}

// watcher is a client's connection that observes the body after each write.
type watcher struct {
	*recorder
	look func(so string)
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.recorder.Write(p)
	w.look(w.Body.String())
	return n, err
}

// TestKnownBeforeTheEnd: a client that has the whole terminal event may send its next request at
// once, and finds the session up to date. This holds for events of any length and in any pieces.
func TestKnownBeforeTheEnd(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for path, stream := range map[string][]string{
		"/v1/messages": {
			`data: {"type":"message_start","message":{"id":"a"}}`,
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`,
			`data: {"type":"message_stop","x":"` + long + `"}`,
		},
		"/v1/chat/completions": {
			`data: {"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`,
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `data: [DONE]`,
		},
		"/v1/responses": {
			`data: {"type":"response.created","response":{"id":"a"}}`,
			`data: {"type":"response.completed","response":{"id":"a","status":"completed","output":[],"x":"` + long + `"}}`,
		},
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

// TestKnownWhenTheModelStops: the usage or the end of a stream may follow the stop reason. A client
// that has the reason finds the session up to date, and the usage is still counted once, even if
// the stream breaks off after it.
func TestKnownWhenTheModelStops(t *testing.T) {
	for path, stream := range map[string][]string{
		"/v1/messages": {
			`{"type":"message_start","message":{"id":"a","usage":{"input_tokens":70}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`,
			`{"type":"message_stop"}`,
		},
		"/v1/chat/completions": {
			`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":7,"total_tokens":77}}`, `[DONE]`,
		},
		"/v1/models/m:streamGenerateContent": {
			`{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}`,
			`{"usageMetadata":{"promptTokenCount":70,"candidatesTokenCount":7}}`,
		},
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
			r := request([]byte(strings.Replace(body, `"messages"`,
				`"stream":true,"contents":[{"role":"user","parts":[{"text":"hi"}]}],"messages"`, 1)), "s")
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
				if got := s.Report(h.site.now()).Conversations[0]; !cut && (got.Last.Prompt() != 70 || got.Total.Output != 7) {
					t.Errorf("%s: usage is %+v", path, got.Last)
				}
			}
		}
	}
}

// TestFlush: a flush reaches the client unless the response is buffered.
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

// TestSecondHeader: a second header is ignored, as in net/http.
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

// TestLongerThanItSays: a response that exceeds its Content-Length is forwarded.
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

// TestPanicBefore: after a panic of the module, the original request is forwarded.
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

// TestPanicInSettle: a panic while settling leaves the response intact.
func TestPanicInSettle(t *testing.T) {
	h := attached(t, pipeline.Options{})
	// of no request: Commit and Abandon panic
	x := &exchange{passage: passage{site: h.site, Request: feature.Request{
		View: new(wire.View),
		Edit: new(pipeline.Exchange),
	}}, session: new(sessioncache.Session)}
	w := &recorder{ResponseRecorder: httptest.NewRecorder()}
	tp := newTap(w, x)
	tp.WriteHeader(http.StatusOK)
	_, _ = tp.Write([]byte("answer"))
	if err := x.finish(nil); err != nil || w.Body.String() != "answer" {
		t.Errorf("body is %q, %v", w.Body, err)
	}
}

// TestPanicBehind: a panic of the next handlers propagates, and the client gets the bytes written
// before.
func TestPanicBehind(t *testing.T) {
	h := attached(t, pipeline.Options{})
	w := &recorder{ResponseRecorder: httptest.NewRecorder()}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				t.Errorf("panic is %v", p)
			}
		}()
		_ = h.ServeHTTP(w, request([]byte(body), "s"),
			caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
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

// TestRequestIsRestored: the request is restored for the access log and for error routes.
func TestRequestIsRestored(t *testing.T) {
	h := attached(t, pipeline.Options{})
	r := request([]byte(body), "s")
	r.Header.Set("Accept-Encoding", "br")
	failed := errors.New("failed")
	err := h.ServeHTTP(httptest.NewRecorder(), r,
		caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
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

// TestLateRequest: after the store was closed, a request is forwarded unmodified.
func TestLateRequest(t *testing.T) {
	h := attached(t, pipeline.Options{})
	var pool shared.Pool[*state.State]
	share, err := pool.Share("", func() (*state.State, error) { return h.site.store, nil })
	if err != nil || share.Release() != nil {
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

// TestTiming: all times of a response are set, in their order.
func TestTiming(t *testing.T) {
	h := attached(t, pipeline.Options{})
	x := &exchange{
		passage: passage{site: h.site, Request: feature.Request{
			Format: wire.Anthropic, View: new(wire.View),
			Edit: new(pipeline.Exchange),
		}}, session: new(sessioncache.Session),
		outcome: outcome{settled: true}, overhead: 1,
	}
	tp := newTap(&recorder{ResponseRecorder: httptest.NewRecorder()}, x)
	tp.sent, tp.timing = time.Now(), wire.Timing{Queue: 1}
	tp.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		": comment\n\n",
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
			"\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
			"\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
	} {
		_, _ = io.WriteString(tp, e)
	}
	if got := tp.turn().Timing; got.Queue != 1 || got.FirstByte <= 0 || got.FirstToken < got.FirstByte ||
		got.LastToken != 0 {
		t.Errorf("in the middle: %+v", got)
	}
	_, _ = io.WriteString(tp, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	if got := tp.turn().Timing; got.LastToken < got.FirstToken {
		t.Errorf("at the end: %+v", got)
	}
}
