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

package layer

import (
	"io"
	"net/http"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Payload is a body in memory that is taken back, and its memory used again,
// once the request is over. A transport may still be sending it then, to an
// upstream that answered before it had read everything; readers that come too
// late find nothing.
type Payload struct {
	mu sync.Mutex
	// Data is the body as it is sent.
	Data []byte
	// Plain is Data without its content coding where that was undone already, and
	// Undone why it could not be.
	Plain  []byte
	Undone error
	// View is what was read of Data in the upstream's format, nil if nobody has.
	View *wire.View

	begun bool          // somebody has first
	first payloadReader // spares most requests to make one
	get   func() (io.ReadCloser, error)
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
	if p.begun {
		r.Body = &payloadReader{Payload: p}
		return
	}
	p.begun, p.first.Payload = true, p
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
	wire.Recycle(data)
}

type payloadReader struct {
	*Payload
	at     int
	closed bool
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.Data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	if r.at == len(r.Data) {
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
	return int64(n), err
}

func (r *payloadReader) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
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
	if p, ok := Whole(r); ok && p.View != nil && p.View.Format == format && Same(p.View.Raw, p.Data) {
		return p.View
	}
	return nil
}

// SetView tells those behind what was read of the body that a request has now.
func SetView(r *http.Request, v *wire.View) {
	if p, ok := Whole(r); ok {
		p.View = v
	}
}

// SetBody makes body the request's, to be read again as often as a transport
// needs it for a safe retry.
func SetBody(r *http.Request, body []byte) { (&Payload{Data: body}).Attach(r) }
