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
	// Life is how long a connection may last: the provider's own bound.
	Life = time.Hour
	// maxLanes is how many lanes with a name a connection may have, maxConcurrent how many
	// answers may be on their way on it: the provider's own bounds.
	maxLanes      = 32
	maxConcurrent = 16
	// maxWaiting is how many requests are read before the first of them is answered.
	maxWaiting = 64
	// slowest is how long a client may take for one message.
	slowest = time.Minute
)

// ErrCut says that an answer ended before its end.
var ErrCut = errors.New("the answer was cut short")

// Room is memory for a message on its way.
type Room interface {
	// Grow makes it one of so many bytes, if it is smaller.
	Grow(ctx context.Context, n int64) error
	// Close gives it back.
	Close()
}

// Serve answers a POST. It is called from several goroutines, and neither panics nor keeps
// the request. An error is why there is no answer, or none to the end.
type Serve func(w http.ResponseWriter, r *http.Request) error

// Server has the connections of one site.
type Server struct {
	// MaxMessage is how many bytes a message may have.
	MaxMessage int64
	// Kept is where conversations are kept.
	Kept *Memory
	// Open opens room for a message. Nil: there is always some.
	Open func() Room
	// Behind reports that what is not known here may be known to whoever answers.
	Behind bool
	// Strict has an answer that fails take what it went on from with it, as the provider
	// does. Else a client may try again.
	Strict bool
	// Failure reads an error amid a stream, which has no status there and is written in
	// another way: its status, and the body of an answer that says the same. Nil: it is
	// passed on as it came.
	Failure func(event []byte) (status int, body []byte)
	// Background runs work of a connection and keeps a panic in it from ending the
	// process; it reports whether the work came to its end. Nil: it is just run.
	Background func(doing string, f func()) (ended bool)
	// Life is how long a connection may last. Default: 1 hour.
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

// Upgrades reports whether the handshake of a request is one that can be answered.
func Upgrades(w http.ResponseWriter, r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Header.Get("Sec-WebSocket-Version") == "13" &&
		len(r.Header["Sec-Websocket-Key"]) == 1 && hijacks(w)
}

// hijacks reports whether a connection can be taken over.
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

// Accept takes a connection over and has its requests answered, to its end. What was wrong
// with the handshake the client has been told.
func (s *Server) Accept(w http.ResponseWriter, r *http.Request, by Serve) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1) // read has its own
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

// Close ends all connections: at once where nobody waits for an answer, and behind the
// last answer elsewhere. Clients come again, and send all of their conversation.
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
	for _, c := range all { // a client may take its time for the close
		go c.guard(func() { c.drain(websocket.StatusServiceRestart, "the configuration has changed") })
	}
}

// Connections is how many there are.
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
