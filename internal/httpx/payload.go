// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"io"
	"net/http"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Payload is a request body in memory. Recycle returns its memory for reuse once the request is
// over. A transport may still be sending the body then, to an upstream that responded early; late
// readers get an error.
type Payload struct {
	mu sync.Mutex
	// Data is the encoded body.
	Data []byte

	known *knowledge    // nil without properties
	first payloadReader // saves most requests an allocation; its Payload is nil until it is in use
	get   func() (io.ReadCloser, error)
}

// knowledge has the properties of a payload that most payloads do not need.
type knowledge struct {
	plain  []byte
	undone error
	view   *wire.View
}

func (p *Payload) know() *knowledge {
	if p.known == nil {
		p.known = new(knowledge)
	}
	return p.known
}

// Decoded records the decoded form of Data, or the error of decoding.
func (p *Payload) Decoded(plain []byte, undone error) {
	p.know().plain, p.know().undone = plain, undone
}

// Plain returns the decoded form of Data, if it was decoded already.
func (p *Payload) Plain() []byte {
	if p.known == nil {
		return nil
	}
	return p.known.plain
}

// Undone returns the error of decoding, nil without one.
func (p *Payload) Undone() error {
	if p.known == nil {
		return nil
	}
	return p.known.undone
}

// Attach makes the payload the request's body. A transport may read it again for a safe retry.
func (p *Payload) Attach(r *http.Request) {
	if len(p.Data) == 0 {
		r.Body, r.GetBody = http.NoBody, nil
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.get == nil {
		p.get = func() (io.ReadCloser, error) { return &payloadReader{Payload: p}, nil }
	}
	r.GetBody = p.get
	// The first reader is in use: this is a retry.
	if p.first.Payload != nil {
		r.Body = &payloadReader{Payload: p}
		return
	}
	p.first.Payload = p
	r.Body = &p.first
}

// Bytes returns the body, nil once it was recycled.
func (p *Payload) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Data
}

// Recycle releases the payload's memory, unless the body is being sent.
func (p *Payload) Recycle() {
	// A transport is sending the body.
	if !p.mu.TryLock() {
		return
	}
	data := p.Data
	p.Data = nil
	p.mu.Unlock()
	reuse.Recycle(data)
}

type payloadReader struct {
	*Payload
	at     int
	ended  bool // the end of Data was told
	closed bool
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.Data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	if r.at == len(r.Data) {
		r.ended = true
		return 0, io.EOF
	}
	n := copy(b, r.Data[r.at:])
	r.at += n
	return n, nil
}

// WriteTo avoids a copy. The payload cannot be recycled meanwhile.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.Data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := w.Write(r.Data[r.at:])
	r.at += n
	r.ended = r.at == len(r.Data)
	return int64(n), err
}

// Close makes a body that was read to its end ready to be read again: reverse_proxy sends it to another
// upstream by lb_retries and handle_response. One that was read in part stays closed, for a transport
// may still be reading.
func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		r.at, r.ended = 0, false
	} else {
		r.closed = true
	}
	return nil
}

// Whole returns the body of a request if it is in memory and still unread.
func Whole(r *http.Request) (*Payload, bool) {
	p, ok := r.Body.(*payloadReader)
	if !ok || p.at != 0 {
		return nil, false
	}
	return p.Payload, true
}

// View returns the parsed form of a request's present body in a format; nil if it was not parsed.
func View(r *http.Request, format wire.Format) *wire.View {
	p, ok := Whole(r)
	if !ok || p.known == nil {
		return nil
	}
	// The view may belong to another format, or to earlier contents.
	if v := p.known.view; v != nil && v.Format == format && Same(v.Raw, p.Data) {
		return v
	}
	return nil
}

// SetView sets the parsed form of a request's present body, for later handlers.
func SetView(r *http.Request, v *wire.View) {
	if p, ok := Whole(r); ok {
		p.know().view = v
	}
}

// SetBody sets the request's body. A transport may read it again for a safe retry.
func SetBody(r *http.Request, body []byte) { (&Payload{Data: body}).Attach(r) }
