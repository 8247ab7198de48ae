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
	// largestEvent bounds one message of the upstream, in bytes.
	largestEvent = 32 << 20
	// slowest is how long the upstream may take to be sent a message.
	slowest = time.Minute
)

// caller is who a connection is for. Nobody else ever uses it.
type caller struct {
	retain.Key
	// by is a hash of where its handshake went, and with which credentials.
	by [sha256.Size]byte
}

// conn is one connection.
type conn struct {
	caller
	pool   *Pool
	ws     *websocket.Conn
	cancel context.CancelFunc // ends what carries it
	events chan []byte        // to whoever uses it
	gone   chan struct{}      // closed once there are no more

	// The pool's lock is for the fields below.

	busy bool
	last string // the answer that it keeps, "" for none
	born time.Time
	used time.Time
	rest *time.Timer
}

// listen reads what the upstream sends, to the connection's end: pings are answered only
// while somebody reads.
func (c *conn) listen(ctx context.Context) {
	defer c.pool.lose(c)
	defer close(c.gone)
	for {
		_, b, err := c.ws.Read(ctx)
		if err != nil {
			return
		}
		if !c.asked() {
			if gjson.GetBytes(b, "type").Str == "error" { // such as that its time is over
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

// asked reports whether somebody waits for an answer.
func (c *conn) asked() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.busy
}

// close closes the connection: with a word to the upstream, or, where that is busy with an
// answer, at once.
func (c *conn) close(clean bool) {
	defer c.cancel()
	if clean {
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
		return
	}
	_ = c.ws.CloseNow()
}

// message is a request as an event of a client.
func message(body []byte) ([]byte, error) {
	return wire.Patch(body,
		wire.Member{Name: "type", Value: []byte(`"response.create"`)},
		wire.Member{Name: "stream"}, wire.Member{Name: "stream_options"}, wire.Member{Name: "background"})
}

// ask has a request answered by the upstream. It returns why there was no answer, of which
// the client has got nothing then. The connection is given back or lost.
func (c *conn) ask(w http.ResponseWriter, r *http.Request, body []byte) (why retain.Cause, err error) {
	over := false
	defer func() {
		if !over {
			c.pool.lose(c)
		}
	}()
	m, err := message(body)
	if err != nil {
		return retain.Refused, nil
	}
	for stale := true; stale; {
		select {
		case <-c.events: // said behind the end of an answer
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
				panic(http.ErrAbortHandler) // a cut answer stays one
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
		if end { // before the client knows, who may go on at once
			over = true
			c.pool.release(c, last)
		}
		if err := a.take(event, end); err != nil || end {
			return "", err
		}
	}
}

// notFound is the code of the error of a connection that does not keep an answer.
const notFound retain.Cause = "previous_response_not_found"

// misses are the codes of the errors that are a connection's own.
var misses = map[string]bool{
	string(notFound): true, "websocket_connection_limit_reached": true, "websocket_stream_limit_reached": true,
}

// missed returns why a request is to be sent otherwise, "" if that is not so.
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

// ends reports whether an event is the last of an answer, and the id of one that can be
// gone on from.
func ends(event []byte) (end bool, id string) {
	switch gjson.GetBytes(event, "type").Str {
	case "response.completed", "response.incomplete":
		return true, gjson.GetBytes(event, "response.id").Str
	case "response.failed", "error":
		return true, ""
	}
	return false, ""
}
