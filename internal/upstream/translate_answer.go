// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// headerDropped lists the fields of a request that the upstream's format cannot express.
const headerDropped = "X-Llm-Cache-Dropped"

// Outcomes of a translated turn.
const (
	translationDone    = "translated"
	translationRefused = "refused"        // the request cannot be translated: 400
	translationFailed  = "failed"         // the upstream answered with an error, or not at all
	translationBroken  = "broken"         // the response could not be read
	translationUnknown = "unknown_reason" // the response's stop reason has no translation
)

// translatedAnswer is a response writer that translates the upstream's response to the client's
// format. It forwards a stream event by event and buffers an error or a response in one piece until
// it is complete.
type translatedAnswer struct {
	httpx.Answer
	t      *translation
	out    *translate.Outgoing
	asked  *translate.Answering
	stream answerStream // of a successful response
	coding string
	held   []byte // a buffered error, or an encoded response
	mode   answerMode
}

// answerStream processes a model's response: a translation or, in the client's own format, the
// buffering of tool calls.
type answerStream interface {
	Feed(p []byte) []byte
	Close(cut bool) []byte
	Ended() bool
	Failure() *translate.Failure
}

type answerMode uint8

const (
	answerPasses  answerMode = iota // unmodified
	answerStreams                   // event by event
	answerWaits                     // the first byte will tell whether the response is a stream
	answerGathers                   // one response in one piece
	answerFails                     // an error
	answerTold                      // the client got an error instead
)

func newTranslatedAnswer(w http.ResponseWriter, t *translation, out *translate.Outgoing, asked *translate.Answering) *translatedAnswer {
	a := &translatedAnswer{t: t, out: out, asked: asked}
	a.Answer = httpx.NewAnswer(w, a)
	return a
}

// Begin implements [httpx.Interceptor].
func (a *translatedAnswer) Begin(status int) {
	h := a.Header()
	if len(a.out.Dropped) > 0 && a.t.p.Headers {
		h[headerDropped] = []string{strings.Join(a.out.Dropped, ", ")}
	}
	if a.t.from == a.t.to && !a.t.p.buffers() {
		a.pass()
		return
	}
	a.coding = httpx.Coding(h)
	switch {
	case a.t.from == a.t.to && nothingFollows(status):
		a.pass()
	case status/100 == 2:
		a.begin(h)
	case status >= 400 && a.t.from != a.t.to:
		a.mode = answerFails
	default:
		a.pass()
	}
}

// nothingFollows reports whether a response of this status has no body (RFC 9110, 15.3.5 and
// 15.3.6).
func nothingFollows(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent
}

func (a *translatedAnswer) pass() {
	a.mode = answerPasses
	a.Send()
}

// begin prepares for a model's response.
func (a *translatedAnswer) begin(h http.Header) {
	if a.t.from == a.t.to && (a.coding != "" || httpx.MediaType(h.Get("Content-Type")) != "text/event-stream") {
		a.pass() // a response in one piece has its calls whole
		return
	}
	if a.t.from == a.t.to {
		a.stream, a.mode = translate.NewHold(a.t.from, a.t.p.JoinCalls), answerStreams
		// Buffering calls changes the length.
		delete(h, "Content-Length")
		a.Send()
		return
	}
	a.stream, a.mode = translate.NewStream(a.t.to, a.t.from, a.asked), answerGathers
	switch {
	case !a.asked.Stream || a.coding != "" || nothingFollows(a.Status):
	case httpx.MediaType(h.Get("Content-Type")) == "text/event-stream":
		a.open()
	default:
		a.mode = answerWaits
	}
}

// open begins the client's stream.
func (a *translatedAnswer) open() {
	h := a.Header()
	a.mode = answerStreams
	a.clean(h)
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	if a.asked.Array {
		h["Content-Type"] = []string{"application/json; charset=utf-8"}
	}
	h["Cache-Control"] = []string{"no-cache"}
	a.Send()
}

// recognise decides by its first byte whether a response without the type of a stream is one.
func (a *translatedAnswer) recognise(p []byte) {
	p = bytes.TrimLeft(p, "\xEF\xBB\xBF \t\r\n")
	switch {
	case len(p) == 0:
	case strings.IndexByte("deir:", p[0]) >= 0: // data, event, id, retry, or a comment
		a.open()
	// A gateway's HTML page, or JSON, must be complete before the client gets a status.
	default:
		a.mode = answerGathers
	}
}

// serve runs the next handlers. A response that is cut before the client has any of it becomes an
// error of the client's API. Any other response stays cut.
func (a *translatedAnswer) serve(next caddyhttp.Handler, r *http.Request) (err error) {
	cut := true
	defer func() {
		if !cut || !a.Holds() {
			return
		}
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint,err113 // the very value
			panic(p)
		}
		a.t.p.Log.Error("the upstream's answer was cut", zap.Int("status", a.Status))
		a.t.count(translationBroken)
		if a.mode == answerFails {
			err = a.fail()
		} else {
			a.clean(a.Header())
			err = httpx.Fail(a.ResponseWriter, a.t.from, &translate.Failure{Status: http.StatusBadGateway, Message: httpx.Unreached[http.StatusBadGateway]})
		}
		a.mode = answerTold
	}()
	err = next.ServeHTTP(a, r)
	cut = false
	return err
}

// Holds implements [httpx.Interceptor]: the upstream has answered, and the client has nothing of
// the response.
func (a *translatedAnswer) Holds() bool {
	return a.mode == answerWaits || a.mode == answerGathers || a.mode == answerFails
}

// fault handles an error of the next handlers. If the client has nothing of the response, it gets
// the error; a stream that has begun is cut.
func (a *translatedAnswer) fault(err error) error {
	switch {
	case a.mode == answerStreams && !a.stream.Ended():
		_ = a.FlushError()
		httpx.LogCut(a.t.p.Log, err)
		panic(http.ErrAbortHandler)
	case a.Holds():
		if _, ok := errors.AsType[caddyhttp.HandlerError](err); !ok {
			return caddyhttp.Error(http.StatusBadGateway, err)
		}
	}
	return err
}

// clean drops headers about the upstream's bytes, and renames the request id's header to the client
// API's.
func (a *translatedAnswer) clean(h http.Header) {
	httpx.DropCoded(h)
	from, to := "X-Request-Id", "Request-Id"
	if a.t.from.Traits().RequestID == "" {
		from, to = to, from
	}
	if v := h[from]; len(v) > 0 && len(h[to]) == 0 {
		h[to] = v
	}
}

// Take implements [httpx.Interceptor].
func (a *translatedAnswer) Take(p []byte) (int, error) {
	if a.mode == answerWaits { // only white space is buffered so far
		a.recognise(p)
	}
	switch a.mode {
	case answerStreams:
		return len(p), a.send(a.feed(p))
	case answerWaits, answerGathers, answerFails:
		a.held = httpx.Keep(a.held, p, a.limit())
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// limit returns how many bytes are buffered. A longer response is invalid; of an error the beginning
// is enough.
func (a *translatedAnswer) limit() int {
	if a.mode == answerFails {
		return httpx.MaxError
	}
	return largestAnswer + 1
}

// largestAnswer bounds a response that is buffered for translation, in bytes.
const largestAnswer = 32 << 20

// feed translates the next bytes. A panic of the translation cuts the response there.
func (a *translatedAnswer) feed(p []byte) (out []byte) {
	defer func() {
		if e := recover(); e != nil {
			a.broke(e)
			out = nil
		}
	}()
	return a.stream.Feed(p)
}

func (a *translatedAnswer) end() (out []byte) {
	defer func() {
		if e := recover(); e != nil {
			a.broke(e)
			out = nil
		}
	}()
	return a.stream.Close(false)
}

func (a *translatedAnswer) broke(e any) {
	httpx.Recovered(a.t.p.Log, "translating an answer", e)
	a.t.count(translationBroken)
	panic(http.ErrAbortHandler) // neither the upstream's bytes nor half a response may pass for a whole one
}

// serves reports the service tier: the client's format may lack it, and the response is charged at
// its end.
func (a *translatedAnswer) serves() {
	if s, ok := a.stream.(*translate.Stream); ok && s.Service() != 0 {
		httpx.Served(a.ResponseWriter, s.Service())
	}
}

func (a *translatedAnswer) send(out []byte) error {
	a.serves()
	if len(out) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(out)
	return err
}

// finish ends a response that has not been cut.
func (a *translatedAnswer) finish() error {
	switch a.mode {
	case answerStreams:
		err := a.send(a.end())
		a.judge(a.stream.Ended())
		return err
	case answerFails:
		a.t.count(translationFailed)
		return a.fail()
	case answerWaits, answerGathers:
		return a.gathered()
	case answerTold:
		return nil
	}
	if a.Status != 0 {
		a.t.count(translationDone)
	}
	return nil
}

func (a *translatedAnswer) judge(whole bool) {
	s, _ := a.stream.(*translate.Stream)
	switch {
	case !whole:
		a.t.count(translationBroken)
	case s != nil && s.UnknownReason() != "":
		a.t.p.Log.Info("the answer ended for a reason that has no translation", zap.String("reason", s.UnknownReason()), zap.String("format", string(a.t.to)))
		a.t.count(translationUnknown)
	default:
		a.t.count(translationDone)
	}
}

// fail sends the upstream's error in the format of the client's API.
func (a *translatedAnswer) fail() error {
	f := httpx.ReadFailure(a.t.to, a.Status, a.Header(), a.held)
	a.clean(a.Header())
	return httpx.Relay(a.ResponseWriter, a.t.from, f)
}

// gathered sends a response that arrived, or must be sent, in one piece.
func (a *translatedAnswer) gathered() error {
	body, err := httpx.Decode(a.coding, a.held, largestAnswer, nil)
	var out []byte
	if err == nil && len(body) <= largestAnswer {
		out = append(out, a.feed(body)...)
		out = append(out, a.end()...)
	}
	a.clean(a.Header())
	if f := a.stream.Failure(); f != nil {
		a.t.count(translationFailed)
		return httpx.Relay(a.ResponseWriter, a.t.from, f)
	}
	a.judge(a.stream.Ended())
	if !a.stream.Ended() {
		return httpx.Fail(a.ResponseWriter, a.t.from, &translate.Failure{Status: http.StatusBadGateway, Message: "the upstream's answer is not one that can be read"})
	}
	kind := "application/json"
	if a.asked.Stream && !a.asked.Array {
		kind = "text/event-stream; charset=utf-8"
	}
	a.serves()
	return httpx.Respond(a.ResponseWriter, a.Status, kind, out)
}
