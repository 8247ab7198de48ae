// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// editedAnswer passes an answer on in which objects are edited: an answer in one piece, or
// the data of events. Lines pass as soon as they are complete; a JSON answer is held until
// it is.
type editedAnswer struct {
	httpx.Answer
	held   []byte // an unfinished line, or a JSON answer
	stream bool
	json   bool
	// edit appends an object as it is to be, word is what lines hold that it is for.
	edit func(out, object []byte, stream bool) []byte
	word []byte
}

func newEditedAnswer(w http.ResponseWriter, word string, edit func(out, object []byte, stream bool) []byte) *editedAnswer {
	a := &editedAnswer{edit: edit, word: []byte(word)}
	a.Answer = httpx.NewAnswer(w, a)
	return a
}

// serve has a handler answer.
func (a *editedAnswer) serve(next caddyhttp.Handler, r *http.Request) error {
	cut := true
	defer func() {
		if cut {
			a.spill()
		}
	}()
	err := next.ServeHTTP(a, r)
	cut = false
	if err == nil {
		return a.finish()
	}
	if !a.json { // else nothing was sent, and nothing but the error will be
		a.spill()
	}
	return err
}

// Begin implements [httpx.Interceptor].
func (a *editedAnswer) Begin(status int) {
	h := a.Header()
	if status/100 == 2 && httpx.Coding(h) == "" {
		kind := httpx.MediaType(h.Get("Content-Type"))
		a.stream, a.json = kind == "text/event-stream", httpx.IsJSON(kind)
	}
	if a.json {
		return
	}
	if a.stream {
		delete(h, "Content-Length")
	}
	a.Send()
}

// Holds implements [httpx.Interceptor].
func (a *editedAnswer) Holds() bool { return a.json }

// Take implements [httpx.Interceptor].
func (a *editedAnswer) Take(p []byte) (int, error) {
	switch {
	case a.json:
		a.held = append(a.held, p...)
		if len(a.held) <= largestAnswer {
			return len(p), nil
		}
		a.json = false // it goes as it is
		a.Send()
		return len(p), a.flush(a.held)
	case !a.stream:
		return a.ResponseWriter.Write(p)
	}
	n := len(p)
	end := bytes.LastIndexAny(p, "\r\n") + 1
	if end == 0 {
		if a.held = append(a.held, p...); len(a.held) > largestAnswer {
			a.stream = false
			return n, a.flush(a.held)
		}
		return n, nil
	}
	lines := p[:end]
	if len(a.held) > 0 {
		lines = append(a.held, lines...)
	}
	rest := bytes.Clone(p[end:])
	if bytes.Contains(lines, a.word) {
		var out []byte
		for len(lines) > 0 {
			n := bytes.IndexAny(lines, "\r\n") + 1 // the last one is whole
			out = a.line(out, lines[:n])
			lines = lines[n:]
		}
		lines = out
	}
	err := a.flush(lines)
	a.held = rest
	return n, err
}

func (a *editedAnswer) flush(p []byte) error {
	a.held = nil
	_, err := a.ResponseWriter.Write(p)
	return err
}

// line appends a line of a stream, of which an object is edited.
func (a *editedAnswer) line(out, line []byte) []byte {
	start, end := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}')+1
	if start < 0 || end < start {
		return append(out, line...)
	}
	return append(a.edit(append(out, line[:start]...), line[start:end], true), line[end:]...)
}

// finish ends an answer that has not been cut.
func (a *editedAnswer) finish() error {
	if a.json {
		a.json = false
		a.held = a.edit(nil, a.held, false)
		if h := a.Header(); len(h["Content-Length"]) > 0 {
			h["Content-Length"] = []string{strconv.Itoa(len(a.held))}
		}
		trailers := httpx.TakeTrailers(a.Header())
		defer func() { maps.Copy(a.Header(), trailers) }()
		a.Send()
	}
	if len(a.held) > 0 {
		return a.flush(a.held)
	}
	return nil
}

// spill gives the client what there is of an answer that was cut, as it came.
func (a *editedAnswer) spill() {
	if a.json {
		a.json = false
		a.Send()
	}
	if len(a.held) > 0 {
		_ = a.flush(a.held)
	}
}
