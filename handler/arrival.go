// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// arrival is a request's body on its way in, and the memory that is held for it: as
// much as it is about to take, in all the forms that it will have, before any of it
// is taken.
type arrival struct {
	payload
	h      *Handler
	format wire.Format
	share  *share
	why    bypass // where undone is set
}

// receive reads the body and undoes its content coding. errNoRoom says that there
// was no room to; what has been read stays in data.
func (a *arrival) receive(w http.ResponseWriter, r *http.Request) (err error) {
	coding := contentCoding(r.Header)
	forms := a.forms()
	if coding != "" {
		forms = 1
	}
	done := a.share.read()
	a.data, err = readBody(w, r, a.h.MaxBody, func(has, room int) error {
		a.share.progress(int64(has))
		return a.share.grow(r.Context(), forms*a.announced(r, room))
	})
	done()
	if err != nil || coding == "" {
		return err
	}
	sent := int64(cap(a.data))
	if coding == "zstd" {
		sent += zstdWindow
	}
	a.h.guard("decoding a request", func() {
		a.undone = errUndecoded
		a.plain, a.undone = decodeRequest(coding, a.data, a.h.MaxBody, func(_, room int) error {
			return a.share.grow(r.Context(), sent+a.forms()*int64(room))
		})
	})
	switch err := a.undone; {
	case err == nil:
		return nil
	case errors.Is(err, errTooLarge), errors.Is(err, errNoRoom), r.Context().Err() != nil:
		return err
	case errors.Is(err, errBomb):
		a.why = bypass{reason: reasonBomb, err: err}
	default:
		a.why = bypass{reason: reasonDecode, err: err}
	}
	return nil
}

// errUndecoded stands for a panic.
var errUndecoded = errors.New("the body could not be decoded")

// announced returns how long a body that is about to take so much is going to be. A
// few bytes are believed nothing, those who send more their Content-Length; without
// one, what goes on beyond 2 MiB may be as long as any. So nobody holds much while
// waiting for more.
func (a *arrival) announced(r *http.Request, room int) int64 {
	switch {
	case room <= firstBuffer:
		return int64(room)
	case r.ContentLength > 0:
		return max(r.ContentLength+1, int64(room))
	case room <= growth*firstBuffer:
		return int64(room)
	}
	return max(a.h.MaxBody, int64(room))
}

// forms counts the forms in which a decoded body may lie in memory at once: as it
// was sent, edited, and what the layers behind make of it.
func (a *arrival) forms() int64 { return 2 + a.layers() }

// layers counts the forms that are made behind the edits.
func (a *arrival) layers() (n int64) {
	if a.h.target(a.format) != a.format {
		n += 2 // the upstream's body, and the pieces of which it is made
	}
	if a.h.watches() {
		n++
	}
	if a.h.dress != nil {
		n++
	}
	return n
}

// body returns the body, decoded.
func (a *arrival) body() []byte {
	if a.plain != nil {
		return a.plain
	}
	return a.data
}

// settle makes the share what the request takes now that its edits are known.
func (a *arrival) settle(c *call) {
	n := int64(cap(a.data) + cap(a.plain))
	sent := len(a.body())
	if c != nil {
		n += int64(c.view.Known().Size())
		if c.ex.Edited {
			n += int64(cap(c.ex.Body))
			sent = len(c.ex.Body)
		}
	}
	a.share.settle(n + a.layers()*int64(sent))
}

// pass sends a request on of which no more than its beginning was read. Where
// nothing that goes upstream is as the client sent it, that cannot be.
func (a *arrival) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	h := a.h
	if h.target(a.format) != a.format || h.Upstream.renames() || h.dress != nil {
		bodyMetrics.waits.WithLabelValues(waitRefused).Inc()
		h.count(outcomeNoRoom)
		w.Header().Set("Retry-After", strconv.Itoa(int(bodyPatience/time.Second)))
		t := &translation{h: h, from: a.format}
		return t.answer(w, &translate.Failure{Status: http.StatusServiceUnavailable, Message: "too many large requests at once, try again later"})
	}
	bodyMetrics.waits.WithLabelValues(waitUnread).Inc()
	h.pass(w, r, a.format, bypass{reason: reasonNoRoom, err: errNoRoom})
	h.count(outcomePassed)
	wire.Recycle(a.plain)
	a.plain = nil
	a.share.settle(int64(cap(a.data)))
	r.Body, r.GetBody = &unread{a: a, rest: r.Body, begun: bytes.NewReader(a.data)}, nil
	next = h.queueing(next, a.format, h.sideTicket(r), new(atomic.Pointer[place]))
	return next.ServeHTTP(w, r)
}

// unread is a body of which the beginning lies in memory, until it has been sent.
type unread struct {
	a     *arrival
	begun *bytes.Reader
	rest  io.ReadCloser
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	if u.begun != nil {
		if n, err := u.begun.Read(p); err == nil {
			return n, nil
		}
		u.begun = nil
		wire.Recycle(u.a.data)
		u.a.data = nil
		u.a.share.settle(0)
	}
	return u.rest.Read(p)
}

// Close implements io.Closer.
func (u *unread) Close() error { return u.rest.Close() }
