// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// tap is the response writer of a request. It forwards bytes to the client at once and decodes them
// afterwards, or before their flush. Nothing is ever added to a stream: Gemini's clients fail at
// any comment or event that is not an answer.
type tap struct {
	httpx.Answer
	exchange    *exchange
	dec         *wire.Decoder // nil if there is nothing to decode
	reads       wire.Decoder
	stream      bool // dec reads events
	begun       bool // the first significant byte has arrived
	ours        bool // the module's own response, not the upstream's
	dropped     bool // the request will be sent once more
	released    bool
	request     *http.Request // as forwarded
	buffered    []byte
	maxBuffered int // maximum number of buffered bytes
	flushes     httpx.Flushes
	// sent is when the request was forwarded; timing counts from there.
	sent   time.Time
	timing wire.Timing
}

func newTap(w http.ResponseWriter, x *exchange) *tap {
	t := &x.tap
	t.exchange = x
	t.Answer = httpx.NewAnswer(w, t)
	return t
}

// Waited adds a wait in the queue, which ends before the request is forwarded.
func (t *tap) Waited(d time.Duration) {
	t.timing.Queue += d
	t.sent = time.Now()
}

// Common stores the share of the prompt that the upstream has been sent before.
func (t *tap) Common(share float64) { t.exchange.common = share }

// Served stores the service tier that the upstream reports.
func (t *tap) Served(s wire.Service) { t.exchange.service = s }

// Begin implements [httpx.Receiver].
func (t *tap) Begin(status int) {
	h := t.Header()
	t.exchange.record.Windows = subscription.Read(h, time.Now())
	kind := httpx.MediaType(h.Get("Content-Type"))
	switch {
	case status/100 != 2:
	case httpx.Coding(h) != "":
		httpx.FailOpen(reasonAnswerEncoding)
	case httpx.IsStream(kind):
		t.stream = true
		t.decode()
	case httpx.IsJSON(kind):
		t.decode()
		n, err := strconv.Atoi(h.Get("Content-Length"))
		if err == nil && n > 0 && n <= httpx.MaxAnswer && t.exchange.site.up.Headers {
			// Buffer a JSON response of known length: its header reports the tokens read from the cache.
			t.maxBuffered = n
		}
	}
	if t.maxBuffered == 0 {
		_ = t.release() // writes nothing but the header
	}
}

// decode starts a decoder of a stream, or of a response in one piece.
func (t *tap) decode() {
	t.reads.Begin(t.exchange.Format, t.stream)
	t.dec = &t.reads
}

// Take writes the upstream's bytes, and decodes them.
func (t *tap) Take(p []byte) (int, error) {
	if !t.released {
		if len(t.buffered)+len(p) <= t.maxBuffered {
			if t.buffered == nil {
				t.buffered = reuse.Buffer(min(t.maxBuffered, httpx.FirstBuffer))
			}
			t.buffered = append(t.buffered, p...)
			t.look(p)
			return len(p), nil
		}
		if err := t.release(); err != nil {
			return 0, err
		}
	}
	if t.stream && !t.begun {
		if t.begun = httpx.Begins(p); httpx.IsDocument(p) {
			t.stream = false
			t.decode()
		}
	}
	if t.stream && len(p) > 1 {
		return t.writeEvents(p)
	}
	n, err := t.write(p)
	t.look(p[:n])
	return n, err
}

// atOnce is the maximum length, in bytes, of a piece of a stream that stays in the server's buffer
// until it is flushed: net/http buffers 2 KiB.
const atOnce = 2 << 10

// writeEvents writes a piece of a stream. The decoder sees each event before the client has all of it.
func (t *tap) writeEvents(p []byte) (int, error) {
	// A short piece stays in the server's buffer until its flush.
	if len(p) <= atOnce {
		t.look(p)
		return t.write(p)
	}
	// A long piece may reach the client at once. No event is complete without the last byte.
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

// look feeds the decoder and completes the exchange at the terminal event.
func (t *tap) look(p []byte) {
	if t.dec == nil || len(p) == 0 {
		return
	}
	// A panic of the decoder ends the decoding, not the response.
	defer func() {
		if e := recover(); e != nil {
			t.dec = nil
			httpx.Recovered(t.exchange.site.up.Log, "decoding an answer", e)
		}
	}()
	t.dec.Feed(p)
	t.clock()
	switch {
	case !t.stream:
	case t.dec.Ended(): // completing includes joining
		// Complete before the client has all of the terminal event, so that its next request finds
		// the session up to date.
		t.exchange.complete(nil)
	case t.dec.Stopped():
		t.exchange.join()
	}
	// A conversation that was joined is published, unless the same piece has completed it: most responses end in one
	// piece, and others need to see it once.
	if t.exchange.untold {
		t.exchange.site.guard("joining a conversation", t.exchange.publish)
	}
}

// clock records the times of the first and the last token. It must run after the client has the bytes.
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

// release sends the header and the buffered bytes to the client. Later bytes are forwarded.
func (t *tap) release() error {
	if t.released || t.Status == 0 {
		return nil
	}
	t.released = true
	t.exchange.stamp(t.ResponseWriter.Header())
	t.ResponseWriter.WriteHeader(t.Status)
	buffered := t.buffered
	t.buffered = nil
	if len(buffered) == 0 {
		return nil
	}
	_, err := t.write(buffered)
	reuse.Recycle(buffered)
	return err
}

// turn returns the answer so far, nil without a decoder.
func (t *tap) turn() *wire.Turn {
	if t.dec == nil {
		return nil
	}
	turn := t.dec.Turn()
	turn.Timing = t.timing
	return turn
}

func (t *tap) write(p []byte) (int, error) {
	t.flushes.Wrote()
	return t.ResponseWriter.Write(p)
}

// FlushError implements the flusher of [http.ResponseController].
func (t *tap) FlushError() error {
	if t.released && !t.flushes.Due(t.ResponseWriter, t.stream, &t.exchange.site.headers) {
		return nil
	}
	return t.Answer.FlushError()
}

// flushAll flushes everything before the response is cut.
func (t *tap) flushAll() {
	t.flushes.Finish()
	_ = t.Answer.FlushError()
}

// Header implements [http.ResponseWriter].
func (t *tap) Header() http.Header {
	t.flushes.Finish()
	return t.Answer.Header()
}

// Buffering implements [httpx.Receiver].
func (t *tap) Buffering() bool { return !t.released }
