// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	defaultEvery = 12 * time.Second
	defaultOpen  = 25 * time.Second
	minSilent    = time.Second
)

// Heartbeat shows clients that a silent upstream is at work. A local server reads a long prompt for
// minutes before it writes a token; clients give up on streams that are silent for about as long,
// and retry from the beginning.
//
// While the upstream is silent, streams get an `event: ping` (Anthropic Messages), a comment (chat
// completions) or a `response.in_progress` (OpenAI Responses, once the response has begun). Clients
// of Gemini fail on anything that is not an answer, and get nothing. The upstream's own events
// count as heartbeats, so no more are sent than needed.
type Heartbeat struct {
	// Off disables heartbeats. Default: false for local servers, true for hosted APIs.
	Off *bool `json:"off,omitempty"`
	// Every is the maximum silence of a stream. At least 1s. Default: 12s.
	Every caddy.Duration `json:"every,omitempty"`
	// Open is how long to wait for the upstream's status, including the time in the queue, before
	// the stream to the client is opened without it. If the upstream then answers with an error,
	// the error becomes an event of the stream. At least 1s. Default: 25s.
	Open caddy.Duration `json:"open,omitempty"`
}

// Validate returns an error for the first interval out of its range.
func (l *Heartbeat) Validate() error {
	if l == nil {
		return nil
	}
	if d := time.Duration(l.Every); d != 0 && d < minSilent {
		return fmt.Errorf("every: %s is below %s", d, minSilent)
	}
	if d := time.Duration(l.Open); d != 0 && d < minSilent {
		return fmt.Errorf("open: %s is below %s", d, minSilent)
	}
	return nil
}

// Stream describes a response before it begins.
type Stream struct {
	// Every and Open are the intervals, 0 for no heartbeats.
	Every, Open time.Duration
	// Events reports a stream of events.
	Events bool
	// Format is the client's format, Agent its User-Agent.
	Format wire.Format
	Agent  string
	// Stamp adds further fields to a stream's header.
	Stamp func(http.Header)
}

// Intervals returns the heartbeat intervals for an upstream, 0 for none.
func (l *Heartbeat) Intervals(u *upstream.Upstream) (every, open time.Duration) {
	if l == nil {
		l = new(Heartbeat)
	}
	if l.Off == nil && !u.Local() || l.Off != nil && *l.Off {
		return 0, 0
	}
	return cmp.Or(time.Duration(l.Every), defaultEvery), cmp.Or(time.Duration(l.Open), defaultOpen)
}

// Alive is the writer of one stream to a client. It forwards the upstream's bytes, and sends a
// heartbeat during silence.
type Alive struct {
	httpx.Answer // with a header of its own until the header is sent
	format       wire.Format
	codex        bool
	every        time.Duration
	stamp        func(http.Header)

	mu      sync.Mutex
	timer   *time.Timer
	last    time.Time // time of the last write to the client
	status  int       // of the upstream, 0 before its response
	opened  bool      // by a heartbeat
	stream  bool      // the upstream's response is a stream of events
	failure []byte    // the upstream's error after the stream was opened
	ended   bool
	tail    [2]byte // the last bytes written, without \r
	begun   bool    // bytes of the upstream were sent
}

// Begin returns the writer for a response, nil for a client without heartbeats.
func (b Stream) Begin(w http.ResponseWriter) *Alive {
	if b.Every == 0 || !b.Events || b.Format.Traits().BareStreams {
		return nil
	}
	a := &Alive{
		format: b.Format, codex: strings.HasPrefix(b.Agent, "codex"), every: b.Every, stamp: b.Stamp,
		last: time.Now(), tail: [2]byte{'\n', '\n'},
	}
	a.Answer = httpx.NewAnswer(w, a)
	a.Apart()
	a.mu.Lock() // tick asks for the timer
	a.timer = time.AfterFunc(b.Open, func() { httpx.Background("showing a sign of life", a.tick) })
	a.mu.Unlock()
	return a
}

// WriteHeader implements [http.ResponseWriter]. It drops informational statuses once the stream is
// open.
func (a *Alive) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.Answer.WriteHeader(status)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.opened {
		a.Inform(status)
	}
}

// Begin implements [httpx.Receiver].
func (a *Alive) Begin(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
	a.last = time.Now()
	a.stream = status/100 == 2 && httpx.MediaType(a.Header().Get("Content-Type")) == "text/event-stream" &&
		httpx.Coding(a.Header()) == ""
	if a.opened {
		return
	}
	if a.stream {
		delete(a.Header(), "Content-Length") // heartbeats make the body longer
		a.timer.Reset(a.every)
	} else {
		a.timer.Stop()
	}
	a.Send()
}

// Buffering implements [httpx.Receiver]. The lock is taken.
func (a *Alive) Buffering() bool { return a.opened && !a.stream }

// Take implements [httpx.Receiver].
func (a *Alive) Take(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Buffering() {
		a.failure = httpx.Keep(a.failure, p, httpx.MaxError)
		return len(p), nil
	}
	n, err := a.ResponseWriter.Write(p)
	if n > 0 {
		a.last, a.begun = time.Now(), true
	}
	for _, b := range p[max(0, n-4):n] {
		if b != '\r' { // lines end in \n or in \r\n
			a.tail[0], a.tail[1] = a.tail[1], b
		}
	}
	return n, err
}

// FlushError implements the flusher of http.ResponseController.
func (a *Alive) FlushError() error {
	if a.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Buffering() {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *Alive) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.status != 0 && !a.stream {
		return
	}
	if silent := time.Since(a.last); a.status != 0 && silent < a.every {
		a.timer.Reset(a.every - silent)
		return
	}
	if a.status == 0 && !a.opened {
		a.open()
	}
	if between := a.tail == [2]byte{'\n', '\n'}; between { // never within an event
		_, err := io.WriteString(a.ResponseWriter, a.sign())
		if err != nil || http.NewResponseController(a.ResponseWriter).Flush() != nil {
			return // the client is gone
		}
		a.last = time.Now()
	}
	a.timer.Reset(a.every)
}

func (a *Alive) open() {
	a.opened = true
	h := a.ResponseWriter.Header()
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	h["Cache-Control"] = []string{"no-cache"}
	a.stamp(h)
	a.ResponseWriter.WriteHeader(http.StatusOK)
}

func (a *Alive) sign() string {
	// Events within a response are valid only after its first event. Codex accepts them earlier.
	if t := a.format.Traits(); t.Heartbeat != "" && (!t.HeartbeatWithin || a.begun || a.codex) {
		return t.Heartbeat
	}
	return ": ping\n" // a blank line would end an event without data
}

// Stop ends the heartbeats.
func (a *Alive) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.timer.Stop()
}

// End handles the error of the next handlers. A stream that was cut stays cut.
func (a *Alive) End(err error) error {
	a.Stop() // heartbeats no longer write
	if !a.opened {
		if a.status == 0 { // an error route may answer
			a.Join()
		}
		return err
	}
	// The next handlers wrote their trailers to a header of their own.
	for name, values := range a.Header() {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			a.ResponseWriter.Header()[name] = values
		}
	}
	if a.stream {
		return err
	}
	// The client has a status of 200 already, so the failure becomes the stream's last event.
	status := a.status
	if err != nil {
		status = http.StatusBadGateway
		if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && e.StatusCode >= 400 {
			status = e.StatusCode
		}
		a.failure = nil
	}
	_, werr := a.ResponseWriter.Write(streamFailure(a.format, status, a.failure))
	if werr == nil {
		werr = http.NewResponseController(a.ResponseWriter).Flush()
	}
	// No error for error routes: the client has a stream already.
	return werr
}

func streamFailure(f wire.Format, status int, body []byte) []byte {
	_, body = translate.ReadFailure(f, status, body).Write(f)
	s := translate.NewStream(f, f, &translate.Answering{Stream: true})
	out := append([]byte(nil), s.Feed(body)...)
	return append(out, s.Close(false)...)
}

// UnmarshalCaddyfile sets the options from Caddyfile tokens. Syntax:
//
//	heartbeat [on|off] {
//		every <duration>
//		open  <duration>
//	}
func (l *Heartbeat) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		off := d.Val() == "off"
		if !off && d.Val() != "on" {
			return d.Errf("heartbeat: %q is not on or off", d.Val())
		}
		l.Off = &off
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "heartbeat", option.Options{
		"every": option.Checked(option.Duration(&l.Every), l.Validate),
		"open":  option.Checked(option.Duration(&l.Open), l.Validate),
	})
}
