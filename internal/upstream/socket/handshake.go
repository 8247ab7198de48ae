// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

const (
	// beta is the value that asks for the WebSocket mode.
	beta = "responses_websockets=2026-02-06"
	// patience bounds the time of a handshake.
	patience = 30 * time.Second
)

// credentials are the headers by which providers identify clients, in canonical form.
var credentials = []string{
	"Authorization", "Api-Key", "X-Api-Key", "Cookie", "Chatgpt-Account-Id", "Openai-Organization", "Openai-Project",
	"Openai-Beta",
}

func by(r *http.Request) (out [sha256.Size]byte) {
	h := sha256.New()
	add := func(s string) {
		_, _ = io.WriteString(h, s)
		h.Write([]byte{0})
	}
	add(r.Host)
	add(r.URL.RequestURI())
	for _, name := range credentials {
		add(name)
		for _, v := range r.Header[name] {
			add(v)
		}
	}
	h.Sum(out[:0])
	return out
}

func (c *layer) dial(r *http.Request, who caller) (_ *conn, why string) {
	if !c.pool.reserve() {
		return nil, full
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // the connection outlives the request
	ws, why := c.shake(r, ctx, cancel)
	if ws == nil {
		cancel()
		c.pool.put(nil)
		return nil, why
	}
	ws.SetReadLimit(maxEvent)
	opened := &conn{
		caller: who, pool: c.pool, ws: ws, cancel: cancel, events: make(chan []byte), gone: make(chan struct{}),
	}
	c.pool.put(opened)
	go httpx.Background("reading a WebSocket", func() { opened.listen(ctx) })
	return opened, ""
}

func (c *layer) shake(
	r *http.Request, ctx context.Context, cancel context.CancelFunc,
) (_ *websocket.Conn, why string) {
	t := &taken{header: make(http.Header), settled: make(chan struct{})}
	hs := &handshake{next: c.next, request: upgrade(r.WithContext(ctx), t), taken: t, cancel: cancel}
	wait, stop := context.WithTimeout(r.Context(), patience)
	defer stop()
	ws, res, err := websocket.Dial(wait, "http://upstream/", &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport:     hs,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader: hs.request.Header,
	})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		// A client error is a refusal. Server errors and rate limits may be temporary.
		if res != nil && res.StatusCode < http.StatusInternalServerError && res.StatusCode != http.StatusTooManyRequests {
			return nil, string(retain.Refused)
		}
		return nil, unreached
	}
	return ws, ""
}

func upgrade(r *http.Request, w http.ResponseWriter) *http.Request {
	out := r.Clone(r.Context())
	out.Method, out.Body, out.GetBody, out.ContentLength, out.TransferEncoding = http.MethodGet, http.NoBody, nil, 0, nil
	// A handshake has no body, and the dialer sets its own fields.
	for name := range out.Header {
		if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Sec-Websocket-") {
			delete(out.Header, name)
		}
	}
	for _, name := range [...]string{
		"Accept", "Accept-Encoding", "Connection", "Expect", "Te", "Transfer-Encoding", "Upgrade",
	} {
		delete(out.Header, name)
	}
	const betas = "Openai-Beta"
	if asks := out.Header[betas]; !strings.Contains(strings.Join(asks, ","), "responses_websockets=") {
		out.Header[betas] = append(asks[:len(asks):len(asks)], beta)
	}
	// The Upgrade header requires HTTP/1.1.
	out.ProtoMajor, out.ProtoMinor, out.Proto = 1, 1, "HTTP/1.1"
	return httpx.Isolate(out, w)
}

// handshake is a transport that sends the handshake through the next handlers.
type handshake struct {
	next    caddyhttp.Handler
	request *http.Request
	taken   *taken
	cancel  context.CancelFunc
}

// RoundTrip implements [http.RoundTripper].
func (h *handshake) RoundTrip(r *http.Request) (*http.Response, error) {
	t := h.taken
	h.request.Header = r.Header
	go httpx.Background("carrying a WebSocket", func() {
		defer h.cancel()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the very value
				t.report(0, nil, errors.New("panicked"))
				panic(p)
			}
		}()
		err := h.next.ServeHTTP(t, h.request)
		t.report(t.status, nil, err)
	})
	select {
	case <-t.settled:
	case <-r.Context().Done():
		h.cancel()
		return nil, r.Context().Err()
	}
	if t.err != nil {
		return nil, t.err
	}
	res := &http.Response{
		StatusCode: t.final, Header: t.answered, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}
	if t.conn != nil {
		res.Body = t.conn
	}
	return res, nil
}

// taken is the response writer of a handshake.
type taken struct {
	header http.Header
	status int

	once     sync.Once
	settled  chan struct{} // closed once the fields below are set
	final    int
	answered http.Header
	conn     net.Conn
	err      error
}

func (t *taken) report(status int, c net.Conn, err error) {
	t.once.Do(func() {
		if status == 0 {
			status = http.StatusOK
		}
		t.answered = make(http.Header, len(t.header))
		for name, values := range t.header { // names may not be in canonical form
			name = http.CanonicalHeaderKey(name)
			t.answered[name] = append(t.answered[name], values...)
		}
		t.final, t.conn, t.err = status, c, err
		close(t.settled)
	})
}

// Header implements [http.ResponseWriter].
func (t *taken) Header() http.Header { return t.header }

// WriteHeader implements [http.ResponseWriter].
func (t *taken) WriteHeader(status int) {
	if t.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		t.status = status
	}
}

// Write implements [http.ResponseWriter]. It discards the body of a refusal.
func (t *taken) Write(p []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	return len(p), nil
}

// Flush implements [http.Flusher].
func (t *taken) Flush() {}

// Hijack implements [http.Hijacker].
func (t *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	// The hijacking handler gets one end, the dialer the other.
	near, far := net.Pipe()
	t.report(http.StatusSwitchingProtocols, near, nil)
	return far, bufio.NewReadWriter(bufio.NewReader(far), bufio.NewWriter(far)), nil
}
