// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

const (
	// FirstBuffer bounds the memory allocated by Content-Length before the first byte.
	FirstBuffer = 256 << 10
	// secondBuffer bounds the memory allocated once the first buffer is full. Most bodies of agents
	// are then read without a further copy.
	secondBuffer = 2 << 20
	// Growth bounds further allocations, as a multiple of the bytes received.
	Growth = 4
	// maxRatio and freeRatio bound the decoded size of a request.
	maxRatio  = 200
	freeRatio = 4 << 20
	// ZstdWindow bounds the memory of a decoder in addition to its output: RFC 8878 recommends 8
	// MiB, and HTTP allows no more (RFC 9659).
	ZstdWindow = 8 << 20
)

var (
	// ErrTooLarge reports a body that exceeds its limit.
	ErrTooLarge = errors.New("body too large")
	// ErrBomb reports a body that decodes to far more than any conversation does.
	ErrBomb = errors.New("the body decodes to more than 200 times its size")
	// ErrNoRoom reports that the memory for bodies is in use, and stayed so.
	ErrNoRoom = errors.New("no room for another body")
)

// TooLarge returns the error of a request whose body exceeds a limit of bytes, with status 413.
func TooLarge(limit int64) error {
	return caddyhttp.Error(http.StatusRequestEntityTooLarge, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
}

// Toll is called before the memory of a body grows. came is the number of bytes received, has the
// memory in use, and room the memory needed. Nil allows all growth.
type Toll func(came, has, room int) error

// Read reads the whole encoded body, up to limit bytes. If pay fails, Read returns the bytes read
// so far and the error.
func Read(w http.ResponseWriter, r *http.Request, limit int64, pay Toll) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength <= 0 { // the server itself enforces a Content-Length
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	buf, err := readAll(r.Body, max(r.ContentLength, 511), limit, pay)
	if err == nil || errors.Is(err, ErrNoRoom) {
		return buf, err
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, TooLarge(e.Limit) // an earlier request_body may have a lower limit
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, TooLarge(limit)
	}
	return nil, caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading request body: %w", err))
}

// readAll is io.ReadAll for a body of the expected size, with a limit. Earlier handlers can have
// changed the body, so that the size may be wrong.
func readAll(r io.Reader, size, limit int64, pay Toll) ([]byte, error) {
	size++ // room to reach EOF without growing
	var buf []byte
	// A client can declare any length and then send nothing.
	room := int(min(size, FirstBuffer))
	for {
		if len(buf) == cap(buf) && len(buf) > 0 {
			if room = 2 * len(buf); int64(len(buf)) < size {
				room = int(min(size, max(secondBuffer, Growth*int64(len(buf)))))
			}
		}
		if pay != nil {
			if err := pay(len(buf), cap(buf), room); err != nil {
				return buf, err
			}
		}
		if room > cap(buf) {
			old := buf
			buf = append(reuse.Buffer(room), old...)
			reuse.Recycle(old)
			room = cap(buf)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return buf, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// Coding returns the content coding of a message, "" for none. Several codings yield a name that
// matches none.
func Coding(h http.Header) string {
	v := h["Content-Encoding"]
	if len(v) == 0 {
		return ""
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(v, ",")))
	if coding == "identity" {
		return ""
	}
	return coding
}

// MediaType returns the media type of a Content-Type, "?" for an invalid one.
func MediaType(contentType string) string {
	switch contentType { // the usual spellings
	case "application/json", "text/event-stream":
		return contentType
	case "application/json; charset=utf-8":
		return "application/json"
	case "text/event-stream; charset=utf-8":
		return "text/event-stream"
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "?"
	}
	return t
}

// IsStream reports whether a media type is a stream of events.
func IsStream(mediaType string) bool {
	return mediaType == "text/event-stream" || mediaType == "application/vnd.amazon.eventstream"
}

// IsJSON reports whether a media type is JSON.
func IsJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// Begins reports whether a response, only white space so far, begins with these bytes.
func Begins(p []byte) bool { return len(bytes.TrimSpace(p)) > 0 }

// IsDocument reports whether a response begins like a JSON object, regardless of its Content-Type.
// No line of an event stream begins so.
func IsDocument(p []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(p), []byte{'{'}) }

// DecodeRequest removes the content coding of a request. It returns ErrTooLarge beyond limit bytes,
// and ErrBomb beyond both maxRatio times the encoded size and freeRatio.
func DecodeRequest(coding string, raw []byte, limit int64, pay Toll) ([]byte, error) {
	// Conversations compress to a fifth, repetitive logs to a hundredth.
	bound := min(limit, max(freeRatio, maxRatio*int64(len(raw))))
	body, err := Decode(coding, raw, bound, pay)
	if bound < limit && errors.Is(err, ErrTooLarge) {
		return nil, ErrBomb
	}
	return body, err
}

// Decode removes a content coding. It returns ErrTooLarge beyond limit bytes.
func Decode(coding string, raw []byte, limit int64, pay Toll) ([]byte, error) {
	var r io.Reader
	switch coding {
	case "":
		return raw, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("decoding gzip: %w", err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(ZstdWindow))
		if err != nil {
			return nil, fmt.Errorf("decoding zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("decoding %q: unknown coding", coding)
	}
	// One byte beyond the limit shows that the body is too long.
	buf, err := readAll(io.LimitReader(r, limit+1), min(int64(len(raw))*4, limit), limit+1, pay)
	if err != nil {
		reuse.Recycle(buf)
		return nil, fmt.Errorf("decoding %s: %w", coding, err)
	}
	if int64(len(buf)) > limit {
		reuse.Recycle(buf)
		return nil, TooLarge(limit)
	}
	return buf, nil
}

// Payload is a request body in memory. Recycle returns its memory for reuse once the request is
// over. A transport may still be sending the body then, to an upstream that responded early; late
// readers get an error.
type Payload struct {
	mu sync.Mutex
	// Data is the encoded body, before the edits of [Payload.Edit].
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
	edited *wire.Body // the body with its edits, nil without any
	joined []byte     // edited in one piece, once somebody asked for it
	lent   bool       // a transport is sending bytes of the payload by another one
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

// Edit makes the payload a body with edits. Its memory is then that of b.Raw.
func (p *Payload) Edit(b *wire.Body) {
	p.Data = b.Raw
	if b.Parts() > 1 {
		p.know().edited = b
	}
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

// Bytes returns the body in one piece, nil once it was recycled.
func (p *Payload) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Data == nil || p.edits() == nil {
		return p.Data
	}
	if p.known.joined == nil {
		p.known.joined = p.known.edited.Bytes()
		if v := p.known.view; v != nil {
			p.known.view = v.Extended(p.known.joined)
		}
	}
	return p.known.joined
}

func (p *Payload) edits() *wire.Body {
	if p.known == nil {
		return nil
	}
	return p.known.edited
}

func (p *Payload) parts() int {
	if b := p.edits(); b != nil {
		return b.Parts()
	}
	return 1
}

func (p *Payload) part(i int) []byte {
	if b := p.edits(); b != nil {
		return b.Part(i)
	}
	return p.Data
}

// is reports whether these bytes are the payload's own.
func (p *Payload) is(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.edits() != nil {
		return p.known.joined != nil && Same(body, p.known.joined)
	}
	return Same(body, p.Data)
}

// Recycle releases the payload's memory, and that of Data. It reports false, and does nothing, while the
// body is being sent.
func (p *Payload) Recycle() bool {
	data, ok := p.detach()
	if !ok {
		return false
	}
	reuse.Recycle(data)
	p.recycleJoined()
	return true
}

func (p *Payload) recycleJoined() {
	if k := p.known; k != nil && k.joined != nil {
		reuse.Recycle(k.joined)
		k.joined = nil
	}
}

// detach takes the memory from the payload. Later readers get an error. It reports false if a transport is
// sending the body.
func (p *Payload) detach() (data []byte, ok bool) {
	if !p.mu.TryLock() {
		return nil, false
	}
	defer p.mu.Unlock()
	if p.known != nil && p.known.lent {
		return nil, false
	}
	data, p.Data = p.Data, nil
	return data, true
}

type payloadReader struct {
	*Payload
	at     int   // in the part
	index  int32 // of the part
	ended  bool  // the end of the body was told
	closed bool
}

// rest returns the unread bytes of the present part. It moves on to the next part at the end of one.
func (r *payloadReader) rest() []byte {
	for int(r.index) < r.parts() {
		if part := r.part(int(r.index)); r.at < len(part) {
			return part[r.at:]
		}
		r.index, r.at = r.index+1, 0
	}
	return nil
}

// Read implements io.Reader. It fills b, over as many parts as there are.
func (r *payloadReader) Read(b []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.Data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	for n < len(b) {
		part := r.rest()
		if part == nil {
			break
		}
		part = part[:copy(b[n:], part)]
		n, r.at = n+len(part), r.at+len(part)
	}
	if n == 0 && r.rest() == nil {
		r.ended = true
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo avoids a copy. The payload cannot be recycled meanwhile.
func (r *payloadReader) WriteTo(w io.Writer) (n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.Data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	for {
		part := r.rest()
		if part == nil {
			r.ended = true
			return n, nil
		}
		written, err := w.Write(part)
		n, r.at = n+int64(written), r.at+written
		if err != nil {
			return n, err
		}
	}
}

// Close makes a body that was read to its end ready to be read again: reverse_proxy sends it to another
// upstream by lb_retries and handle_response. One that was read in part stays closed, for a transport
// may still be reading.
func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		r.index, r.at, r.ended = 0, 0, false
	} else {
		r.closed = true
	}
	return nil
}

// Whole returns the body of a request if it is in memory and still unread.
func Whole(r *http.Request) (*Payload, bool) {
	p, ok := r.Body.(*payloadReader)
	if !ok || p.index != 0 || p.at != 0 {
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
	if v := p.known.view; v != nil && v.Format == format && p.is(v.Raw) {
		return v
	}
	return nil
}

// SetView sets the parsed form of a request's present body, for later handlers. For a body with edits, which must be at
// its end, v is the parsed form without them.
func SetView(r *http.Request, v *wire.View) {
	if p, ok := Whole(r); ok {
		p.know().view = v
	}
}

// SetBody sets the request's body. A transport may read it again for a safe retry.
func SetBody(r *http.Request, body []byte) { (&Payload{Data: body}).Attach(r) }

// Outgoing returns the decoded body of a request to the upstream, up to limit bytes. It does not
// copy a body that is in memory.
func Outgoing(r *http.Request, limit int64) ([]byte, error) {
	var raw []byte
	if p, ok := Whole(r); ok {
		if plain, undone := p.Plain(), p.Undone(); plain != nil || undone != nil {
			return plain, undone
		}
		raw = p.Bytes()
	} else if r.Body != nil {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(r.Body, limit+1)); err != nil {
			return nil, fmt.Errorf("reading request body: %w", err)
		}
		SetBody(r, raw)
	}
	return DecodeRequest(Coding(r.Header), raw, limit, nil)
}

// OutgoingEdits is [Outgoing] for layers that add an edit to the body. [SwapEdited] takes the result's Raw as the old body.
func OutgoingEdits(r *http.Request, limit int64) (*wire.Body, error) {
	if p, ok := Whole(r); ok && Coding(r.Header) == "" {
		if b := p.edits(); b != nil {
			return b, nil
		}
	}
	raw, err := Outgoing(r, limit)
	return &wire.Body{Raw: raw}, err
}

// ReadAhead returns the encoded body of a request, up to limit bytes. A nil pay allows all growth. After
// an error the next reader still gets the whole body.
func ReadAhead(r *http.Request, limit int64, pay Toll) ([]byte, error) {
	if p, ok := Whole(r); ok {
		return p.Bytes(), nil
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	whole := r.Body
	raw, err := readAll(whole, max(r.ContentLength, 511), limit, pay)
	if err != nil {
		// Put the part that was read back in front of the rest.
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(raw), whole), whole}
		return nil, fmt.Errorf("reading request body: %w", err)
	}
	SetBody(r, raw)
	return raw, nil
}

// SwapBody replaces the body that [Outgoing] returned, and clones the header. The returned function
// restores the request, for the access log, error routes and a second pass.
func SwapBody(r *http.Request, old, body []byte) (restore func()) {
	return SwapEdited(r, old, &wire.Body{Raw: body})
}

// SwapEdited is [SwapBody] for a body with edits.
func SwapEdited(r *http.Request, old []byte, body *wire.Body) (restore func()) {
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	before, getBody := r.Body, r.GetBody
	r.Header = maps.Clone(header)
	SetLength(r, body.Len())
	was, inMemory := Whole(r)
	same, edited := Same(old, body.Raw), body.Parts() > 1
	if same && !edited && inMemory && was.is(body.Raw) {
		was.Attach(r) // a transport that still sends the body keeps it from being recycled
		return func() {
			r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
			r.Body, r.GetBody = before, getBody
		}
	}
	p := new(Payload)
	p.Edit(body)
	if same && !edited && inMemory && was.known != nil && was.known.view != nil {
		p.know().view = was.known.view
	}
	p.Attach(r)
	return func() {
		r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
		r.Body, r.GetBody = before, getBody
		switch {
		case !same:
			p.Recycle()
		case inMemory: // the body's own memory, or that of its decoded form
			if _, ok := p.detach(); !ok {
				was.know().lent = true
			} else {
				p.recycleJoined()
			}
		}
	}
}

// SetLength describes a body of n bytes without content coding in a request, and modifies its
// header.
func SetLength(r *http.Request, n int) {
	r.Header["Content-Length"] = []string{strconv.Itoa(n)}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Transfer-Encoding")
	r.ContentLength, r.TransferEncoding = int64(n), nil
}

// Same reports whether two bodies share their memory.
func Same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
