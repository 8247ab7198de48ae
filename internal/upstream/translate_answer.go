// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// headerDropped lists the fields of a request that the upstream's format cannot
// hold.
const headerDropped = "X-Llm-Cache-Dropped"

// How a translated exchange went.
const (
	translationDone    = "translated"
	translationRefused = "refused"        // the request cannot be carried: 400
	translationFailed  = "failed"         // the upstream answered with an error, or not at all
	translationBroken  = "broken"         // the answer could not be read
	translationUnknown = "unknown_reason" // the answer ended for a reason that has no translation
)

// translatedAnswer is the writer of an upstream's answer, which reaches the
// client in its own format. A stream passes on event by event; an answer in one
// piece and an error are held until they are complete.
type translatedAnswer struct {
	httpx.Answer
	t      *translation
	out    *translate.Outgoing
	asked  *translate.Answering
	stream answerStream // of an answer that is no error
	coding string
	held   []byte // an error, or an answer that came encoded
	mode   answerMode
}

// answerStream is what an answer of a model goes through: a translation, or, in
// the client's own format, the holding of tool calls.
type answerStream interface {
	Feed(p []byte) []byte
	Close(cut bool) []byte
	Ended() bool
	Failure() *translate.Failure
}

type answerMode uint8

const (
	answerPasses  answerMode = iota // as it is
	answerStreams                   // event by event
	answerWaits                     // its first byte will tell whether event by event
	answerGathers                   // one answer in one piece
	answerFails                     // an error
	answerTold                      // the client has an error in its place
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

// nothingFollows reports whether an answer of this status has no body (RFC 9110, 15.3.5
// and 15.3.6), and so nothing that a model has said.
func nothingFollows(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent
}

func (a *translatedAnswer) pass() {
	a.mode = answerPasses
	a.Send()
}

// begin prepares for an answer of the model.
func (a *translatedAnswer) begin(h http.Header) {
	if a.t.from == a.t.to && (a.coding != "" || httpx.MediaType(h.Get("Content-Type")) != "text/event-stream") {
		a.pass() // in one piece, its calls are whole
		return
	}
	if a.t.from == a.t.to {
		a.stream, a.mode = translate.NewHold(a.t.from, a.t.p.JoinCalls), answerStreams
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

// recognise decides by its first byte what an answer is whose type does not say
// that it is a stream. A page of some gateway, or JSON, must be known whole before
// the client is told of any success.
func (a *translatedAnswer) recognise(p []byte) {
	p = bytes.TrimLeft(p, "\xEF\xBB\xBF \t\r\n")
	switch {
	case len(p) == 0:
	case strings.IndexByte("deir:", p[0]) >= 0: // data, event, id, retry, or a comment
		a.open()
	default:
		a.mode = answerGathers
	}
}

// serve runs the handlers behind. An answer that is cut before the client has any of
// it becomes an error of the client's API; any other stays cut.
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

// Holds implements [httpx.Interceptor]: the upstream has answered, and the client has
// nothing of it.
func (a *translatedAnswer) Holds() bool {
	return a.mode == answerWaits || a.mode == answerGathers || a.mode == answerFails
}

// fault deals with an error of the handlers behind. Where the client has nothing of
// the answer, it is told of the error; a stream that has begun is cut.
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

// clean drops the headers that speak of the upstream's bytes, and names the
// request as the client's API does.
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
	if a.mode == answerWaits { // nothing but white space is held
		a.recognise(p)
	}
	switch a.mode {
	case answerStreams:
		return len(p), a.send(a.feed(p))
	case answerWaits, answerGathers, answerFails:
		if room := a.room(); len(p) > room { // the rest would only be thrown away
			a.held = append(a.held, p[:room]...)
			return len(p), nil
		}
		a.held = append(a.held, p...)
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// room is how much may still be held. An answer that does not fit is cut, and
// so is none; of an error the beginning is enough.
func (a *translatedAnswer) room() int {
	if a.mode == answerFails {
		return httpx.MaxError - len(a.held)
	}
	return largestAnswer + 1 - len(a.held)
}

// largestAnswer bounds an answer that has to be held to be translated.
const largestAnswer = 32 << 20

// feed translates the next bytes. A panic in there ends the answer where it is:
// it stays cut.
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
	panic(http.ErrAbortHandler) // neither the upstream's bytes nor half an answer may pass for a whole one
}

func (a *translatedAnswer) send(out []byte) error {
	// The answer in the client's format need not say it, and the end of the answer is when
	// it is charged.
	if s, ok := a.stream.(*translate.Stream); ok && s.Service() != 0 {
		httpx.Served(a.ResponseWriter, s.Service())
	}
	if len(out) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(out)
	return err
}

// finish ends an answer that has not been cut.
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

// fail answers with the upstream's error as the client's API would put it.
func (a *translatedAnswer) fail() error {
	h := a.Header()
	body, err := httpx.Decode(a.coding, a.held, 16*httpx.MaxError, nil)
	if err != nil {
		body = nil
	}
	a.clean(h)
	f := translate.ReadFailure(a.t.to, a.Status, body)
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		f.RetryAfter = n
	}
	return httpx.Relay(a.ResponseWriter, a.t.from, f)
}

// gathered answers with an answer that came, or has to go, in one piece.
func (a *translatedAnswer) gathered() error {
	body, err := httpx.Decode(a.coding, a.held, largestAnswer, nil)
	var out []byte
	if err == nil && len(body) <= largestAnswer {
		out = append(out, a.feed(body)...)
		out = append(out, a.end()...)
	}
	h := a.Header()
	a.clean(h)
	if f := a.stream.Failure(); f != nil {
		a.t.count(translationFailed)
		return httpx.Relay(a.ResponseWriter, a.t.from, f)
	}
	a.judge(a.stream.Ended())
	if !a.stream.Ended() {
		return httpx.Fail(a.ResponseWriter, a.t.from, &translate.Failure{Status: http.StatusBadGateway, Message: "the upstream's answer is not one that can be read"})
	}
	h["Content-Type"] = []string{"application/json"}
	if a.asked.Stream && !a.asked.Array {
		h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(out))}
	a.Send()
	return a.send(out)
}
