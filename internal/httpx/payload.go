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

// Payload is a body in memory that is taken back, and its memory used again,
// once the request is over. A transport may still be sending it then, to an
// upstream that answered before it had read everything; readers that come too
// late find nothing.
type Payload struct {
	mu sync.Mutex
	// Data is the body as it is sent.
	Data []byte

	known *knowledge    // nil where nothing is
	first payloadReader // spares most requests to make one; it has no payload as long as nobody has it
	get   func() (io.ReadCloser, error)
}

// knowledge is what is known of a payload, of which most need nothing.
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

// Decoded notes what Data is without its content coding, or why that could not be undone.
func (p *Payload) Decoded(plain []byte, undone error) {
	p.know().plain, p.know().undone = plain, undone
}

// Plain returns Data without its content coding where that was undone already.
func (p *Payload) Plain() []byte {
	if p.known == nil {
		return nil
	}
	return p.known.plain
}

// Undone returns why the content coding could not be undone, nil where it was, or there
// is none.
func (p *Payload) Undone() error {
	if p.known == nil {
		return nil
	}
	return p.known.undone
}

// Attach makes the payload the request's body, to be read again as often as a
// transport needs it for a safe retry.
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
	if p.first.Payload != nil {
		r.Body = &payloadReader{Payload: p}
		return
	}
	p.first.Payload = p
	r.Body = &p.first
}

// Bytes returns the body, nil once it was taken back.
func (p *Payload) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Data
}

// Recycle takes the payload back, unless it is being sent right now.
func (p *Payload) Recycle() {
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

// WriteTo spares the copy. The payload cannot be taken back in the meantime.
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

// Whole returns the body of a request that lies in memory and of which nothing has
// been read yet.
func Whole(r *http.Request) (*Payload, bool) {
	p, ok := r.Body.(*payloadReader)
	if !ok || p.at != 0 {
		return nil, false
	}
	return p.Payload, true
}

// View is what was read of the body that a request has now, in some format; nil if nobody
// has.
func View(r *http.Request, format wire.Format) *wire.View {
	p, ok := Whole(r)
	if !ok || p.known == nil {
		return nil
	}
	if v := p.known.view; v != nil && v.Format == format && Same(v.Raw, p.Data) {
		return v
	}
	return nil
}

// SetView tells those behind what was read of the body that a request has now.
func SetView(r *http.Request, v *wire.View) {
	if p, ok := Whole(r); ok {
		p.know().view = v
	}
}

// SetBody makes body the request's, to be read again as often as a transport
// needs it for a safe retry.
func SetBody(r *http.Request, body []byte) { (&Payload{Data: body}).Attach(r) }
