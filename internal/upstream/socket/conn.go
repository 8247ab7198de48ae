// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const (
	// maxEvent bounds one message of the upstream, in bytes.
	maxEvent = 32 << 20
	// slowest bounds the time for sending a message to the upstream.
	slowest = time.Minute
)

// caller identifies the conversation that owns a connection.
type caller struct {
	retain.Key
	// by is a hash of the handshake's target and credentials.
	by [sha256.Size]byte
}

type conn struct {
	caller
	pool   *Pool
	ws     *websocket.Conn
	cancel context.CancelFunc // ends the goroutine that carries the connection
	events chan []byte        // to the request in progress
	gone   chan struct{}      // closed after the last event

	// The pool's lock guards the fields below.

	busy bool
	last string // the kept answer, "" for none
	born time.Time
	used time.Time
	rest *time.Timer
}

func (c *conn) listen(ctx context.Context) {
	defer c.pool.lose(c)
	defer close(c.gone)
	for {
		// Read also between answers: pings are answered only during reads.
		_, b, err := c.ws.Read(ctx)
		if err != nil {
			return
		}
		if !c.asked() {
			if gjson.GetBytes(b, "type").Str == "error" { // such as the end of the connection's lifetime
				return
			}
			continue
		}
		select {
		case c.events <- b:
		case <-ctx.Done():
			return
		}
	}
}

func (c *conn) asked() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.busy
}

func (c *conn) close(clean bool) {
	defer c.cancel()
	if clean {
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
		return
	}
	_ = c.ws.CloseNow()
}

func message(body []byte) ([]byte, error) {
	return wire.Patch(body,
		wire.Member{Name: "type", Value: []byte(`"response.create"`)},
		wire.Member{Name: "stream"}, wire.Member{Name: "stream_options"}, wire.Member{Name: "background"})
}

// ask sends a request and forwards its answer. It returns the reason for a missing answer, in which case the client
// has got nothing.
func (c *conn) ask(w http.ResponseWriter, r *http.Request, body []byte) (why retain.Cause, err error) {
	over := false
	defer func() {
		if !over {
			// A connection amid an answer cannot take another request.
			c.pool.lose(c)
		}
	}()
	m, err := message(body)
	if err != nil {
		return retain.Refused, nil
	}
	for stale := true; stale; {
		select {
		case <-c.events: // events after the end of an answer
		default:
			stale = false
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), slowest)
	err = c.ws.Write(ctx, websocket.MessageText, m)
	cancel()
	if err != nil {
		return retain.Cut, r.Context().Err()
	}
	a := newAnswer(w, gjson.GetBytes(body, "stream").Bool())
	for {
		var event []byte
		select {
		case event = <-c.events:
		case <-c.gone:
			if a.begun {
				panic(http.ErrAbortHandler) // a cut answer stays cut
			}
			return retain.Cut, nil
		case <-r.Context().Done():
			return "", r.Context().Err()
		}
		if !a.begun {
			if why := missed(event); why != "" {
				// The connection may be good for all of it.
				if over = why == notFound; over {
					c.pool.release(c, "")
				}
				return why, nil
			}
		}
		end, last := ends(event)
		if end { // before the client has the end and sends its next request
			over = true
			c.pool.release(c, last)
		}
		if err := a.take(event, end); err != nil || end {
			return "", err
		}
	}
}

// notFound is the error code of a connection that does not keep the answer.
const notFound retain.Cause = "previous_response_not_found"

// misses are the error codes that concern only the connection.
var misses = map[string]bool{
	string(notFound): true, "websocket_connection_limit_reached": true, "websocket_stream_limit_reached": true,
}

func missed(event []byte) retain.Cause {
	if gjson.GetBytes(event, "type").Str != "error" {
		return ""
	}
	code := gjson.GetBytes(event, "error.code").Str
	if misses[code] {
		return retain.Cause(code)
	}
	return ""
}

func ends(event []byte) (end bool, id string) {
	switch gjson.GetBytes(event, "type").Str {
	case "response.completed", "response.incomplete":
		return true, gjson.GetBytes(event, "response.id").Str
	case "response.failed", "error":
		return true, ""
	}
	return false, ""
}
