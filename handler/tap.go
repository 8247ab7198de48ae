// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/decode"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// tap is the writer of an answer. Bytes go to the client first and at once and
// are looked at afterwards, or before they are flushed. A JSON answer of known
// length is held until it is complete: its header is to tell what was read from the
// cache. A refusal is dropped where the request is sent once more. Nothing is ever added
// to a stream: Gemini's clients break at any comment or event that is not an answer.
type tap struct {
	httpx.Answer // with a header apart from the client's until the header is
	// released: what a first pass sets must not show in the answer of a second
	state    *requestState
	log      *zap.Logger
	dec      *decode.Decoder // nil where there is nothing to read
	reads    decode.Decoder
	stream   bool          // dec reads events
	begun    bool          // the first byte of the answer that says anything was there
	request  *http.Request // as it was handed on
	held     []byte
	hold     int  // how many bytes may be held
	resend   bool // the request may be sent once more
	second   bool // it was
	own      bool // the answer is ours, not the upstream's
	dropped  bool // the client does not get this answer
	released bool
	flushes  httpx.Flushes
	// sent is when the request was handed on; timing counts from there.
	sent   time.Time
	timing wire.Timing
}

// newTap returns the writer of one pass. With resend, a refusal may be dropped and the
// header map is the pass's own.
func newTap(w http.ResponseWriter, c *requestState, resend bool) *tap {
	t := &c.first
	if t.state != nil { // a second pass
		t = new(tap)
	}
	t.state, t.log, t.resend, t.sent = c, c.site.up.Log, resend, time.Now()
	t.Answer = httpx.NewAnswer(w, t)
	t.timing.Queue = c.overhead
	if resend {
		t.Apart()
	}
	return t
}

// Waited takes a time in the queue for one before the request was handed on.
func (t *tap) Waited(d time.Duration) {
	t.timing.Queue += d
	t.sent = time.Now()
}

// Common is told the share of the prompt that the upstream has been sent before.
func (t *tap) Common(share float64) { t.state.boxed.common = share }

// Served is told how the upstream says that it serves the request.
func (t *tap) Served(s wire.Service) { t.state.ending.service = s }

// Begin implements [httpx.Interceptor].
func (t *tap) Begin(status int) {
	h := t.Header()
	if t.rejects(nil) {
		return
	}
	if t.second {
		t.state.weigh(t.told())
	}
	if status/100 == 2 {
		t.observe(h)
	}
	if t.hold == 0 {
		_ = t.release() // writes nothing but the header
	}
}

// observe picks the decoder of a successful answer by what it says it is.
func (t *tap) observe(h http.Header) {
	if httpx.Coding(h) != "" {
		httpx.FailOpen(reasonAnswerEncoding)
		return
	}
	kind := httpx.MediaType(h.Get("Content-Type"))
	switch {
	case httpx.IsStream(kind):
		t.stream = true
		t.decode(true)
	case httpx.IsJSON(kind):
		t.decode(false)
		n, err := strconv.Atoi(h.Get("Content-Length"))
		if err == nil && n > 0 && n <= httpx.MaxAnswer && t.state.site.up.Headers {
			t.hold = n
		}
	}
}

// decode begins to read an answer.
func (t *tap) decode(stream bool) {
	t.reads.Begin(t.state.view.Format, stream)
	t.dec = &t.reads
}

// Take writes what the upstream sends, and looks at it afterwards.
func (t *tap) Take(p []byte) (int, error) {
	if t.dropped {
		return len(p), nil
	}
	if !t.released {
		if len(t.held)+len(p) <= t.hold {
			t.keep(p)
			return len(p), nil
		}
		if err := t.release(); err != nil {
			return 0, err
		}
	}
	if t.stream && !t.begun {
		if t.begun = httpx.Begins(p); httpx.IsDocument(p) {
			t.stream = false
			t.decode(false)
		}
	}
	if t.stream && len(p) > 1 {
		return t.writeEvents(p)
	}
	n, err := t.write(p)
	t.look(p[:n])
	return n, err
}

// atOnce is how long a piece of a stream may be, in bytes, that waits in the server's
// buffer until it is flushed, however it is written: net/http has 2 KiB for it.
const atOnce = 2 << 10

// writeEvents keeps the last byte until the decoder has looked: no event is
// complete without it, and a long one may be with the client before it is
// flushed. Short ones are with nobody before, and are written whole.
func (t *tap) writeEvents(p []byte) (int, error) {
	if len(p) <= atOnce {
		t.look(p)
		return t.write(p)
	}
	last := len(p) - 1
	n, err := t.write(p[:last])
	if err != nil {
		t.look(p[:n])
		return n, err
	}
	t.look(p)
	m, err := t.write(p[last:])
	return n + m, err
}

func (t *tap) keep(p []byte) {
	if t.held == nil {
		t.held = reuse.Buffer(min(t.hold, httpx.FirstBuffer))
	}
	t.held = append(t.held, p...)
	t.look(p)
}

// look feeds the decoder. At the terminal event of a stream the exchange is
// settled, before the client has all of that event: whoever has seen it finds the
// session up to date. A panic in there ends the looking, not the answer.
func (t *tap) look(p []byte) {
	if t.dec == nil || len(p) == 0 {
		return
	}
	defer func() {
		if e := recover(); e != nil {
			t.dec = nil
			httpx.Recovered(t.log, "decoding an answer", e)
		}
	}()
	t.dec.Feed(p)
	t.clock()
	switch {
	case !t.stream:
	case t.dec.Ended(): // which joins, too
		t.state.settle(t, nil)
	case t.dec.Stopped():
		t.state.join(t)
	}
	t.state.tell()
}

// end tells the decoder that the answer came to its end and was not cut.
func (t *tap) end() {
	if t.dec != nil {
		httpx.Guard(t.log, "decoding the end of an answer", func() {
			t.dec.End()
			t.clock()
		})
	}
}

// clock notes when what came first and last came. It is asked after the client
// has the bytes.
func (t *tap) clock() {
	if t.timing.LastToken != 0 {
		return
	}
	at := time.Since(t.sent)
	if t.timing.FirstByte == 0 {
		t.timing.FirstByte = at
	}
	if t.timing.FirstToken == 0 && t.dec.Begun() {
		t.timing.FirstToken = at
	}
	if t.dec.Done() {
		t.timing.LastToken = at
	}
}

// release sends the header and what was held to the client. From here on the
// answer passes through.
func (t *tap) release() error {
	if t.released || t.dropped || t.Status == 0 {
		return nil
	}
	t.released = true
	h := t.ResponseWriter.Header()
	t.Join()
	t.state.stamp(h, t)
	t.ResponseWriter.WriteHeader(t.Status)
	held := t.held
	t.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := t.write(held)
	reuse.Recycle(held)
	return err
}

// turn returns what the answer said so far, nil if it was not one to decode.
func (t *tap) turn() *wire.Turn {
	if t.dec == nil {
		return nil
	}
	turn := t.dec.Turn()
	turn.Timing = t.timing
	return turn
}

// write writes bytes of the body to the client.
func (t *tap) write(p []byte) (int, error) {
	t.flushes.Wrote()
	return t.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] looks for.
func (t *tap) FlushError() error {
	if t.released && !t.flushes.Due(t.ResponseWriter, t.stream, &t.state.site.headers) {
		return nil
	}
	return t.Answer.FlushError()
}

// flushAll sends all there is, before the answer is cut.
func (t *tap) flushAll() {
	t.flushes.Settle()
	_ = t.Answer.FlushError()
}

// Header implements [http.ResponseWriter].
func (t *tap) Header() http.Header {
	t.flushes.Settle()
	return t.Answer.Header()
}

// Holds implements [httpx.Interceptor].
func (t *tap) Holds() bool { return !t.released }
