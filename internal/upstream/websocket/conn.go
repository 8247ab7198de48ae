// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

type conn struct {
	server  *Server
	by      Serve
	ws      *websocket.Conn
	request *http.Request // the handshake
	ctx     context.Context
	cancel  context.CancelFunc

	atOnce  chan struct{} // an element for each answer in progress
	waiting chan struct{} // an element for each unanswered request

	mu       sync.Mutex
	lanes    map[string]*lane
	begun    int // read and unanswered requests
	draining bool
	code     websocket.StatusCode // for the close after draining
	reason   string
	aged     bool // its lifetime is over
}

// lane is a sequence of requests.
type lane struct {
	queue []*create
	runs  bool
	last  *response // answer that the next request may continue
}

func (c *conn) serve() {
	defer c.forget()
	var all sync.WaitGroup
	defer all.Wait()
	defer c.cancel() // answers in progress have no listener any more
	// Go's runtime may keep a stopped timer until its time. It must not keep the connection, and with it the server.
	var open atomic.Pointer[conn]
	open.Store(c)
	age := time.AfterFunc(c.server.life(), func() {
		if c := open.Load(); c != nil {
			c.guard(c.age)
		}
	})
	defer func() {
		age.Stop()
		open.Store(nil)
	}()
	for {
		message, room, f, err := c.read()
		if err != nil {
			if f != nil {
				_ = c.send(f.event())
				_ = c.ws.Close(websocket.StatusMessageTooBig, "the message is too big")
			}
			return
		}
		if f != nil {
			if c.send(f.event()) != nil {
				return
			}
			continue
		}
		r, f := readCreate(message)
		if f == nil {
			r.room = room
			f = c.enqueue(r, &all)
		}
		if f == nil {
			continue
		}
		room.Close()
		if c.send(f.event()) != nil {
			return
		}
	}
}

// errTooBig reports a message above the limit.
var errTooBig = errors.New("too big")

func (c *conn) read() (message []byte, room Room, f *failure, err error) {
	kind, from, err := c.ws.Reader(c.ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	room = noRoom{}
	if c.server.Open != nil {
		room = c.server.Open()
	}
	message, err = c.readAll(from, room)
	switch {
	case errors.Is(err, errTooBig):
		room.Close()
		return nil, nil, fail(http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large",
			fmt.Sprintf("The message has more than %d bytes.", c.server.MaxMessage), ""), err
	case errors.Is(err, errFull):
		room.Close()
		if _, err := io.Copy(io.Discard, from); err != nil {
			return nil, nil, nil, err
		}
		return nil, nil, fail(http.StatusServiceUnavailable, "server_error", "server_is_overloaded",
			"Too many large requests at once, try again later.", ""), nil
	case err != nil:
		room.Close()
		return nil, nil, nil, err
	case kind != websocket.MessageText:
		room.Close()
		return nil, nil, invalid("invalid_message", "Only text messages are understood.", ""), nil
	}
	return message, room, nil, nil
}

// errFull reports that a message found no room.
var errFull = errors.New("no room")

// readAll reads a message.
func (c *conn) readAll(from io.Reader, room Room) ([]byte, error) {
	b := make([]byte, 0, 4<<10)
	for {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > c.server.MaxMessage {
			return nil, errTooBig
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			// Two forms are reserved: the whole conversation is built from the message.
			if err := room.Grow(c.ctx, 2*int64(cap(b))); err != nil {
				return nil, errFull
			}
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
	}
}

type noRoom struct{}

func (noRoom) Grow(context.Context, int64) error { return nil }
func (noRoom) Close()                            {}

func (c *conn) enqueue(r *create, all *sync.WaitGroup) *failure {
	select {
	case c.waiting <- struct{}{}:
	case <-c.ctx.Done():
		r.room.Close()
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[r.lane]
	if l == nil {
		named := len(c.lanes)
		if c.lanes[""] != nil {
			named--
		}
		if r.lane != "" && named >= maxLanes {
			<-c.waiting
			f := invalid("websocket_stream_limit_reached",
				"This WebSocket connection has reached its maximum number of distinct stream IDs (32). Reuse an existing "+
					"stream_id or open a new WebSocket connection.", "stream_id")
			f.lane = r.lane
			return f
		}
		l = new(lane)
		c.lanes[r.lane] = l
	}
	if c.aged {
		<-c.waiting
		f := invalid("websocket_connection_limit_reached",
			"Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.", "")
		f.lane = r.lane
		return f
	}
	if c.draining { // the client sees the close, and asks again
		<-c.waiting
		r.room.Close()
		return nil
	}
	c.begun++
	l.queue = append(l.queue, r)
	if !l.runs {
		l.runs = true
		all.Go(func() { c.guard(func() { c.run(l) }) })
	}
	return nil
}

func (c *conn) run(l *lane) {
	for {
		c.mu.Lock()
		if len(l.queue) == 0 {
			l.runs = false
			c.mu.Unlock()
			return
		}
		r := l.queue[0]
		l.queue = l.queue[1:]
		c.mu.Unlock()
		c.answer(l, r)
		<-c.waiting
		c.done()
	}
}

func (c *conn) done() {
	c.mu.Lock()
	c.begun--
	over, code, reason := c.draining && c.begun == 0, c.code, c.reason
	c.mu.Unlock()
	if over {
		_ = c.ws.Close(code, reason)
	}
}

func (c *conn) answer(l *lane, r *create) {
	defer r.room.Close()
	select {
	case c.atOnce <- struct{}{}:
		defer func() { <-c.atOnce }()
	case <-c.ctx.Done():
		return
	}
	a := newAnswer(c, r.lane)
	before, from := []byte(nil), (*response)(nil)
	known := r.previous == ""
	if !known {
		if from = c.find(r.previous); from != nil {
			before, known = c.server.Kept.recall(from)
		}
		if !known && !(r.stored && c.server.Behind) {
			a.tell(notFound(r.previous))
			return
		}
	}
	if r.room.Grow(c.ctx, 2*int64(len(r.message)+len(before))) != nil {
		a.tell(fail(http.StatusServiceUnavailable, "server_error", "server_is_overloaded",
			"Too many large requests at once, try again later.", ""))
		return
	}
	body, err := r.whole(before, known)
	if err != nil {
		a.tell(invalid("invalid_json", "The message is not a JSON object.", ""))
		return
	}
	if int64(len(body)) > c.server.MaxMessage {
		a.tell(fail(http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large",
			fmt.Sprintf("The conversation has more than %d bytes.", c.server.MaxMessage), ""))
		return
	}
	a.ended = func() {
		switch {
		case a.failed && c.server.Strict:
			c.server.Kept.forget(from)
		case !a.failed && known:
			output := a.output
			if c.server.Behind && !r.stored {
				output = unkept(output)
			}
			now := &response{id: a.id, from: from, said: after(body, output)}
			if a.session != nil {
				now.session = a.session()
			}
			if from != nil {
				now.line = from.line.After(from.id)
			}
			c.keep(l, now)
		}
	}
	if r.warms {
		c.warm(a, body)
	} else {
		c.ask(a, body)
	}
}

// find returns the answer of an id in any lane.
func (c *conn) find(id string) *response {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		if l.last != nil && l.last.id == id {
			return l.last
		}
	}
	return nil
}

func (c *conn) keep(l *lane, r *response) {
	c.mu.Lock()
	before := l.last
	l.last = r
	c.mu.Unlock()
	// A lane keeps one answer, as the provider does.
	c.server.Kept.forget(before)
	c.server.Kept.keep(r, c)
}

func (c *conn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		c.server.Kept.forget(l.last)
	}
}

func (c *conn) ask(a *answer, body []byte) {
	r := post(c.request, body)
	err := c.by(a, r.WithContext(context.WithValue(r.Context(), inSession{}, a)))
	if a.err != nil || c.ctx.Err() != nil {
		return
	}
	switch {
	case err == nil && a.end(), a.over:
	case a.status == 0 && err != nil && !errors.Is(err, ErrCut):
		a.tell(refusal(err))
	case a.lane == "": // a close marks the answer as cut
		a.conclude(true)
		_ = c.ws.Close(websocket.StatusInternalError, ErrCut.Error())
	default:
		a.tell(fail(http.StatusBadGateway, "server_error", "", "The answer was cut short.", ""))
	}
}

// warm answers a request without generation. Its input becomes part of the next request.
func (c *conn) warm(a *answer, body []byte) {
	a.id = newID()
	object := map[string]any{
		"id": a.id, "object": "response", "created_at": time.Now().Unix(), "status": "in_progress", "output": []int{},
		"model": gjson.GetBytes(body, "model").Str, "error": nil, "usage": nil,
	}
	for i, kind := range []string{"created", "in_progress", "completed"} {
		if kind == "completed" {
			a.conclude(false)
			object["status"] = kind
			object["usage"] = map[string]any{
				"input_tokens": 0, "output_tokens": 0, "total_tokens": 0,
				"input_tokens_details":  map[string]int{"cached_tokens": 0},
				"output_tokens_details": map[string]int{"reasoning_tokens": 0},
			}
		}
		b, err := json.Marshal(object)
		if err != nil {
			panic(err) // strings and numbers
		}
		a.say(map[string]any{"type": "response." + kind, "sequence_number": i, "response": json.RawMessage(b)})
	}
}

// send sends one message.
func (c *conn) send(message []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, slowest)
	defer cancel()
	err := c.ws.Write(ctx, websocket.MessageText, message)
	if err != nil {
		c.cancel()
	}
	return err
}

// age ends a connection after its lifetime.
func (c *conn) age() {
	c.mu.Lock()
	c.aged = true
	c.mu.Unlock()
	// Answers in progress continue, and the client has time to open another connection.
	time.AfterFunc(slowest, func() {
		c.guard(func() { c.drain(websocket.StatusNormalClosure, "60 minutes are over") })
	})
}

func (c *conn) guard(f func()) {
	if c.server.Background == nil {
		f()
	} else if !c.server.Background("answering a WebSocket", f) {
		// A client that does not read must not stop the other lanes.
		c.cancel()
	}
}

// drain closes the connection after the last answer.
func (c *conn) drain(code websocket.StatusCode, reason string) {
	c.mu.Lock()
	c.draining, c.code, c.reason = true, code, reason
	idle := c.begun == 0
	c.mu.Unlock()
	if idle {
		_ = c.ws.Close(code, reason)
	}
}
