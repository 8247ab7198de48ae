// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// Editor edits a response on its way to the client: each event of a stream once it is complete, or
// a JSON response once all of it is there. Errors, encoded responses and responses longer than
// [wire.MaxAnswer] pass unmodified.
type Editor struct {
	Answer
	// event appends the edited event, whole returns the edited JSON response. If one of them is
	// nil, such responses pass unmodified.
	event func(out []byte, e framing.Event) []byte
	whole func(body []byte) []byte

	events  *framing.SSEFramer // nil if the response is no stream
	out     []byte             // the edited events of the last write
	body    []byte
	partial bool // body is incomplete
}

// NewEditor returns a writer that edits a response by event and whole.
func NewEditor(
	w http.ResponseWriter, event func(out []byte, e framing.Event) []byte, whole func(body []byte) []byte,
) *Editor {
	e := &Editor{event: event, whole: whole}
	e.Answer = NewAnswer(w, e)
	return e
}

// Serve calls the next handler. If the response is cut off, the client gets the received part.
func (e *Editor) Serve(next caddyhttp.Handler, r *http.Request) error {
	// After a panic the client still gets the received part.
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
	case !e.partial: // else only the error is sent
		e.Spill()
	}
	return err
}

// Begin implements [Receiver].
func (e *Editor) Begin(status int) {
	h := e.Header()
	if status/100 == 2 && Coding(h) == "" {
		switch kind := MediaType(h.Get("Content-Type")); {
		case IsStream(kind) && e.event != nil:
			e.events = new(framing.SSEFramer)
			// Edits change the length.
			delete(h, "Content-Length")
		case IsJSON(kind) && e.whole != nil:
			e.partial = true
			return
		}
	}
	e.Send()
}

// Buffering implements [Receiver].
func (e *Editor) Buffering() bool { return e.partial }

// Take implements [Receiver].
func (e *Editor) Take(p []byte) (int, error) {
	switch {
	case e.partial:
		if e.body = append(e.body, p...); len(e.body) > wire.MaxAnswer {
			return len(p), e.release()
		}
		return len(p), nil
	case e.events == nil:
		return e.ResponseWriter.Write(p)
	}
	e.out = e.out[:0]
	e.events.Feed(p, e.edit)
	if e.events.Err() != nil { // an event is too long: the rest passes unmodified
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

// finish ends a complete response.
func (e *Editor) finish() error {
	switch {
	case e.partial:
		body := e.body
		e.partial, e.body = false, nil
		return e.SendWhole(e.whole(body))
	case e.events != nil:
		// Some servers omit the blank line after their last event.
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

// release sends the header and the buffered body.
func (e *Editor) release() error {
	body := e.body
	e.partial, e.body = false, nil
	e.Send()
	if len(body) == 0 {
		return nil
	}
	_, err := e.ResponseWriter.Write(body)
	return err
}

// Spill forwards the rest of a response that was cut off, unmodified.
func (e *Editor) Spill() {
	switch {
	case e.partial:
		_ = e.release()
	case e.events != nil:
		if rest := e.events.Rest(); len(rest) > 0 {
			_, _ = e.ResponseWriter.Write(rest)
		}
		e.events = nil
	}
}

// EditObject appends an event with edited data. edit appends the edited JSON object.
func EditObject(out, event []byte, edit func(out, object []byte) []byte) []byte {
	start, end := bytes.IndexByte(event, '{'), bytes.LastIndexByte(event, '}')+1
	if start < 0 || end < start {
		return append(out, event...)
	}
	return append(edit(append(out, event[:start]...), event[start:end]), event[end:]...)
}
