// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// Editor is the writer of an answer that is edited on its way to the client: the events of a stream
// as soon as each is complete, or a JSON answer once all of it is there. Errors, answers in a content
// coding and answers longer than [wire.MaxAnswer] pass as they come.
type Editor struct {
	Answer
	// event appends an event as the client is to get it, whole returns a JSON answer so. Where one
	// of them is nil, such answers pass as they come.
	event func(out []byte, e framing.Event) []byte
	whole func(body []byte) []byte

	events *framing.SSEFramer // nil for no stream
	out    []byte             // made of the events that came last
	body   []byte
	holds  bool // body is not complete
}

// NewEditor returns a writer that edits an answer by event and whole.
func NewEditor(w http.ResponseWriter, event func(out []byte, e framing.Event) []byte, whole func(body []byte) []byte) *Editor {
	e := &Editor{event: event, whole: whole}
	e.Answer = NewAnswer(w, e)
	return e
}

// Serve has a handler answer. Of an answer that is cut the client gets what there is.
func (e *Editor) Serve(next caddyhttp.Handler, r *http.Request) error {
	cut := true
	defer func() {
		if cut {
			e.Spill()
		}
	}()
	err := next.ServeHTTP(e, r)
	cut = false
	switch {
	case err == nil:
		return e.finish()
	case !e.holds: // else nothing was sent, and nothing but the error will be
		e.Spill()
	}
	return err
}

// Begin implements [Interceptor].
func (e *Editor) Begin(status int) {
	h := e.Header()
	if status/100 == 2 && Coding(h) == "" {
		switch kind := MediaType(h.Get("Content-Type")); {
		case IsStream(kind) && e.event != nil:
			e.events = new(framing.SSEFramer)
			delete(h, "Content-Length")
		case IsJSON(kind) && e.whole != nil:
			e.holds = true
			return
		}
	}
	e.Send()
}

// Holds implements [Interceptor].
func (e *Editor) Holds() bool { return e.holds }

// Take implements [Interceptor].
func (e *Editor) Take(p []byte) (int, error) {
	switch {
	case e.holds:
		if e.body = append(e.body, p...); len(e.body) > wire.MaxAnswer {
			return len(p), e.release(e.body)
		}
		return len(p), nil
	case e.events == nil:
		return e.ResponseWriter.Write(p)
	}
	e.out = e.out[:0]
	e.events.Feed(p, e.edit)
	if e.events.Err() != nil { // no event ends: the rest passes as it comes
		e.out = append(e.out, e.events.Rest()...)
		e.events = nil
	}
	if len(e.out) == 0 {
		return len(p), nil
	}
	if _, err := e.ResponseWriter.Write(e.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *Editor) edit(event framing.Event) { e.out = e.event(e.out, event) }

// finish ends an answer that was not cut. Some servers leave out the blank line behind their last
// event.
func (e *Editor) finish() error {
	switch {
	case e.holds:
		body := e.whole(e.body)
		if h := e.Header(); len(h["Content-Length"]) > 0 {
			h["Content-Length"] = []string{strconv.Itoa(len(body))}
		}
		trailers := TakeTrailers(e.Header())
		defer func() { maps.Copy(e.Header(), trailers) }()
		return e.release(body)
	case e.events != nil:
		e.out = e.out[:0]
		e.events.End(e.edit)
		e.events = nil
		if len(e.out) > 0 {
			_, err := e.ResponseWriter.Write(e.out)
			return err
		}
	}
	return nil
}

// release sends the header and a body that was held.
func (e *Editor) release(body []byte) error {
	e.holds, e.body = false, nil
	e.Send()
	if len(body) == 0 {
		return nil
	}
	_, err := e.ResponseWriter.Write(body)
	return err
}

// Spill passes on the rest of an answer that was cut, as it came.
func (e *Editor) Spill() {
	switch {
	case e.holds:
		_ = e.release(e.body)
	case e.events != nil:
		if rest := e.events.Rest(); len(rest) > 0 {
			_, _ = e.ResponseWriter.Write(rest)
		}
		e.events = nil
	}
}

// EditObject appends an event, of whose data, a JSON object, edit appends another one.
func EditObject(out, event []byte, edit func(out, object []byte) []byte) []byte {
	start, end := bytes.IndexByte(event, '{'), bytes.LastIndexByte(event, '}')+1
	if start < 0 || end < start {
		return append(out, event...)
	}
	return append(edit(append(out, event[:start]...), event[start:end]), event[end:]...)
}
