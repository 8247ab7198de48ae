// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http/httpguts"
)

const (
	// Life is the lifetime of a connection: the provider's own bound.
	Life = time.Hour
	// maxLanes bounds the named lanes, maxConcurrent the answers in progress: the provider's own bounds.
	maxLanes      = 32
	maxConcurrent = 16
	// maxWaiting bounds the requests read ahead.
	maxWaiting = 64
	// slowest bounds the time for sending one message.
	slowest = time.Minute
)

// ErrCut reports an answer without its end.
var ErrCut = errors.New("the answer was cut short")

// Room is memory for a message on its way.
type Room interface {
	// Grow reserves n bytes in all.
	Grow(ctx context.Context, n int64) error
	// Close releases the memory.
	Close()
}

// Serve answers a POST. It is called from several goroutines, and neither panics nor keeps the request. An error
// means that the answer is missing or cut.
type Serve func(w http.ResponseWriter, r *http.Request) error

// Server has the connections of one site.
type Server struct {
	// MaxMessage is the maximum size of a message, in bytes.
	MaxMessage int64
	// Kept keeps the conversations.
	Kept *Memory
	// Open opens room for a message. Nil: there is always some.
	Open func() Room
	// Behind reports that the upstream may know answers that are unknown here.
	Behind bool
	// Strict drops the base of a failed answer, as the provider does. Otherwise the client may retry.
	Strict bool
	// Failure reads an error amid a stream, which has no status there and is written in
	// another way: its status, and the body of an answer that says the same. Nil: it is
	// passed on as it came.
	Failure func(event []byte) (status int, body []byte)
	// Background runs work of a connection and recovers from its panics; it reports whether the work came to its
	// end. Nil: it is just run.
	Background func(doing string, f func()) (ended bool)
	// Life is the lifetime of a connection. Default: 1 hour.
	Life time.Duration

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// Asked reports whether a request asks for a WebSocket to the Responses API, as Codex does
// before it tries POST.
func Asked(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/responses") &&
		httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket")
}

// Refuse answers 426, the one status that makes Codex fall back to POST at once.
func Refuse(w http.ResponseWriter) error {
	w.Header().Set("Upgrade", "HTTP/1.1")
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusUpgradeRequired)
	_, err := w.Write([]byte("Upgrade Required\n"))
	return err
}

// Upgrades reports whether a handshake can be answered.
func Upgrades(w http.ResponseWriter, r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Header.Get("Sec-WebSocket-Version") == "13" &&
		len(r.Header["Sec-Websocket-Key"]) == 1 && hijacks(w)
}

func hijacks(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// Accept takes over a connection and serves its requests to the end. It reports a bad handshake to the client.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, by Serve) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1) // read has a limit of its own
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &conn{
		server: s, by: by, ws: ws, request: r.WithContext(ctx), ctx: ctx, cancel: cancel,
		lanes: make(map[string]*lane), atOnce: make(chan struct{}, maxConcurrent), waiting: make(chan struct{}, maxWaiting),
	}
	if !s.enter(c) {
		_ = ws.Close(websocket.StatusServiceRestart, "the configuration has changed")
		return
	}
	defer s.leave(c)
	c.serve()
}

func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

// Close ends all connections, each after its last answer. Clients reconnect, and send their whole conversations.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	all := make([]*conn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		// A client may delay the closing handshake.
		go c.guard(func() { c.drain(websocket.StatusServiceRestart, "the configuration has changed") })
	}
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *Server) life() time.Duration {
	if s.Life > 0 {
		return s.Life
	}
	return Life
}
