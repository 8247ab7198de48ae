// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Answer is the base of the response writers through which layers see a response. Only the first
// final status counts, 200 if there is none. Informational statuses pass. All bytes go through
// [Receiver.Take], and buffered bytes are not flushed.
type Answer struct {
	// ResponseWriter is the writer of the layer's caller.
	http.ResponseWriter
	// Separate is a separate header, used until it is known which response the client will get. Nil
	// means that the response uses the header of ResponseWriter.
	Separate http.Header
	// Status is the final status, 0 before there is one.
	Status int

	layer Receiver
}

// Receiver is a layer's part in the handling of a response.
type Receiver interface {
	// Begin receives the final status, once. It calls [Answer.Send] or keeps the header back.
	Begin(status int)
	// Take receives the next bytes of the body.
	Take(p []byte) (int, error)
	// Buffering reports whether the response is buffered, so that the client must not get any of it
	// yet.
	Buffering() bool
}

// NewAnswer returns the base of a layer's writer.
func NewAnswer(w http.ResponseWriter, layer Receiver) Answer {
	return Answer{ResponseWriter: w, layer: layer}
}

// Unwrap returns the next writer, for [http.ResponseController].
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Apart gives the response a separate header, a copy of the present one.
func (a *Answer) Apart() { a.Separate = a.ResponseWriter.Header().Clone() }

// Join replaces the writer's header by the separate one.
func (a *Answer) Join() {
	if a.Separate != nil {
		ReplaceHeader(a.ResponseWriter.Header(), a.Separate)
		a.Separate = nil
	}
}

// Send forwards the header, with the response's status.
func (a *Answer) Send() {
	a.Join()
	a.ResponseWriter.WriteHeader(a.Status)
}

// SendWhole forwards a response whose body was buffered and replaced: the header, with the new
// length if it had one, the body, and announced trailers after it.
func (a *Answer) SendWhole(body []byte) error {
	h := a.Header()
	if len(h["Content-Length"]) > 0 {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	trailers := TakeTrailers(h)
	defer func() { maps.Copy(a.Header(), trailers) }()
	a.Send()
	if len(body) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(body)
	return err
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header {
	if a.Separate != nil {
		return a.Separate
	}
	return a.ResponseWriter.Header()
}

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		a.Inform(status)
	case a.Status == 0:
		a.Status = status
		a.layer.Begin(status)
	}
}

// Inform forwards an informational status, with the present header.
func (a *Answer) Inform(status int) {
	if a.Separate == nil {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	// The separate header applies to this status only.
	h := a.ResponseWriter.Header()
	before := maps.Clone(h)
	ReplaceHeader(h, a.Separate)
	a.ResponseWriter.WriteHeader(status)
	ReplaceHeader(h, before)
}

// Write implements [io.Writer].
func (a *Answer) Write(p []byte) (int, error) {
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.layer.Take(p)
}

// ReadFrom hides the next writer's ReadFrom, which would bypass Write.
func (a *Answer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{a}, r)
}

// FlushError implements the flushing of [http.ResponseController].
func (a *Answer) FlushError() error {
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	// A flush would send the header.
	if a.layer.Buffering() {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Waited reports the time that the request has waited for a slot to the layer's caller. It does not
// count as the upstream's time.
func (a *Answer) Waited(d time.Duration) { Waited(a.ResponseWriter, d) }

// Waited reports the time that a request has waited for a slot to the writer of its response.
func Waited(w http.ResponseWriter, d time.Duration) {
	if t, ok := w.(interface{ Waited(time.Duration) }); ok {
		t.Waited(d)
	}
}

// Served reports the upstream's service for the request to the layer's caller.
func (a *Answer) Served(s wire.Service) { Served(a.ResponseWriter, s) }

// Served reports the upstream's service for a request to the writer of its response.
func Served(w http.ResponseWriter, s wire.Service) {
	if t, ok := w.(interface{ Served(wire.Service) }); ok {
		t.Served(s)
	}
}

// Common reports the share of the prompt, 0 to 1, that the upstream has received before to the
// layer's caller.
func (a *Answer) Common(share float64) { Common(a.ResponseWriter, share) }

// Common reports the share of a prompt, 0 to 1, that the upstream has received before to the writer
// of its response.
func Common(w http.ResponseWriter, share float64) {
	if t, ok := w.(interface{ Common(float64) }); ok {
		t.Common(share)
	}
}

// ReplaceHeader replaces the contents of one header by another's.
func ReplaceHeader(dst, src http.Header) {
	clear(dst)
	maps.Copy(dst, src)
}

// AskPlain requests an uncompressed response. The value is not shared, since later handlers may
// modify it.
func AskPlain(h http.Header) { h["Accept-Encoding"] = []string{"identity"} }

// ClonePlain returns a copy of a header that requests an uncompressed response.
func ClonePlain(h http.Header) http.Header {
	n := 1
	for _, v := range h {
		n += len(v)
	}
	values := append(make([]string, 0, n), "identity")
	out := make(http.Header, len(h)+1)
	for name, v := range h {
		if v == nil {
			out[name] = nil
			continue
		}
		from := len(values)
		values = append(values, v...)
		// The capacity is limited, so that an append cannot overwrite the next header.
		out[name] = values[from:len(values):len(values)]
	}
	out["Accept-Encoding"] = values[:1:1]
	return out
}

// AsksPlain reports whether a header requests an uncompressed response.
func AsksPlain(h http.Header) bool {
	v := h["Accept-Encoding"]
	return len(v) == 1 && v[0] == "identity"
}

// DropCoded removes the headers that describe a response's exact bytes.
func DropCoded(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Content-Md5", "Digest"} {
		delete(h, name)
	}
}

// TakeTrailers removes the announced trailers from the header of a buffered response, and returns
// them.
func TakeTrailers(h http.Header) http.Header {
	taken := http.Header{}
	for _, list := range h["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v, ok := h[name]; ok {
				taken[name] = v
				delete(h, name)
			}
		}
	}
	return taken
}

// headerPatience is the time that a stream's header waits for the first bytes of the body.
const headerPatience = 5 * time.Millisecond

// Flushes decides which flushes of a response need a write of their own.
type Flushes struct {
	begun bool        // bytes of the body were written
	dirty bool        // some of them since the last flush
	alone *loneHeader // waits for the body, nil if no header does
}

// Due reports whether a response must be flushed now, after its header was written to w. The header
// of a stream without a body yet is added to waiting, and flushed later.
func (f *Flushes) Due(w http.ResponseWriter, stream bool, waiting *Headers) bool {
	switch {
	case f.begun:
		// A flush without new bytes is not worth a write.
		due := f.dirty
		f.dirty = false
		return due
	case !stream:
		return true
	case f.alone == nil:
		f.alone = &loneHeader{w: w}
		waiting.add(f.alone)
	}
	return false
}

// Wrote records that bytes of the body are about to be written.
func (f *Flushes) Wrote() {
	f.Finish()
	f.begun, f.dirty = true, true
}

// Finish makes sure that no other goroutine uses, or will use, the client's writer.
func (f *Flushes) Finish() {
	if f.alone != nil {
		f.alone.end()
		f.alone = nil
	}
}

// loneHeader is the header of a stream that waits for the first bytes of the body.
type loneHeader struct {
	mu sync.Mutex
	w  http.ResponseWriter // nil once the wait is over
}

// flush sends the header if it still waits.
func (l *loneHeader) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = http.NewResponseController(l.w).Flush() // the next write fails with the same error
		l.w = nil
	}
}

// end prevents a later flush of the header, and waits for one in progress.
func (l *loneHeader) end() {
	l.mu.Lock()
	l.w = nil
	l.mu.Unlock()
}

// Headers are the waiting headers. They share a timer, since most are sent long before it fires.
// The zero value is ready.
type Headers struct {
	mu      sync.Mutex
	waiting []*loneHeader
}

func (h *Headers) add(l *loneHeader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The first header starts the timer for all.
	if h.waiting = append(h.waiting, l); len(h.waiting) == 1 {
		time.AfterFunc(headerPatience, h.flush)
	}
}

// flush sends all headers that still wait.
func (h *Headers) flush() {
	h.mu.Lock()
	late := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	for _, l := range late {
		Background("flushing a header", l.flush)
	}
}
