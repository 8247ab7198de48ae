// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulator is the HTTP interface of a simulated model. It answers Messages, chat
// completions, Responses, Gemini and Interactions requests, with and without streams. Usage follows
// the cache rules of a provider, and requests that the provider's API refuses are refused.
//
// Answers are a short fixed text or come from a [Script].
package simulator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats" // which is spoken here
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

const (
	// maxBody bounds a request of the Messages API, in bytes.
	maxBody = 32 << 20
	// chunkSize is the approximate content of one event of a stream, in bytes.
	chunkSize = 48
	// eventStream is the media type of server-sent events.
	eventStream = "text/event-stream; charset=utf-8"
)

// Handler answers requests like a provider. It needs Cache only. It must not be changed after its
// first use.
type Handler struct {
	// Cache is the simulated prefix cache. Required.
	Cache *pricing.Simulator
	// Script has the answers to requests that offer tools. Default: every request gets a short text.
	Script *Script
	// Pace is the time before each event of a stream. Default: none.
	Pace time.Duration
	// Keys maps access keys of AWS to their secrets: requests to Bedrock must be signed with one of
	// them. Default: signatures are not checked.
	Keys map[string]string
	// Unthreaded lists members that a request of a thread must not have besides fallbacks, such as
	// thinking, cache_control or context_management.
	Unthreaded []string
	// SocketLife is the lifetime of a WebSocket. Default: 1 hour, as at the provider.
	SocketLife time.Duration
	// Subscription is the worth of a five-hour usage window in US dollars at list prices. Responses to Messages and
	// Responses requests then report the windows of a subscription. Default: none.
	Subscription float64
	// Hooks replace parts of the handler.
	Hooks Hooks

	threads threads
	stored  stored
	plans   plans
}

// Hooks replace parts of a [Handler] for programs that run it in process. All are optional.
type Hooks struct {
	// Now is the clock. Default: time.Now.
	Now func(ctx context.Context) time.Time
	// Answer returns the answer to a request instead of the script. After nil the handler's own
	// answer is used.
	Answer func(ctx context.Context, v *wire.View) *Answer
	// Parse reads a body. Default: [wire.Parse] without recall.
	Parse func(ctx context.Context, f wire.Format, body []byte) (*wire.View, error)
	// Call may complete the call to the simulated provider.
	Call func(ctx context.Context, c *pricing.Call)
	// Done receives the result of a parsed request: its usage, or the provider's refusal.
	Done func(ctx context.Context, u wire.Usage, refused *pricing.APIError)
}

// format encodes responses in one API.
type format interface {
	JSON(c *query) []byte
	events(c *query) [][]byte
	// streamType returns the media type of the output of events.
	streamType() string
	failure(f Failure, id string) []byte
	requestID() string
	// schema returns the JSON schema in a [wire.Reply.OutputConfig].
	schema(output gjson.Result) gjson.Result
}

// spoken are the formats of the simulated model.
var spoken = map[wire.Format]format{
	wire.Anthropic: anthropic{}, wire.OpenAIChat: openai{}, wire.OpenAIResponses: responses{}, wire.Gemini: gemini{},
	wire.Interactions: interactions{},
	vertex.Format:     anthropic{}, bedrock.Format: claudeOnBedrock{},
}

// query is one request and its response.
type query struct {
	view   *wire.View
	usage  wire.Usage
	answer *Answer
	id     string
	at     time.Time
}

// ServeHTTP answers POST …/v1/messages, …/v1/messages/count_tokens, …/chat/completions, …/responses,
// …/responses/input_tokens, …/interactions, …/models/{model}:generateContent, :streamGenerateContent and
// :countTokens, …/publishers/anthropic/models/{model}:rawPredict and :streamRawPredict, …/model/{id}/invoke and
// …/invoke-with-response-stream, GET …/v1/models, GET /inference-profiles, GET and HEAD of /, and WebSockets on
// …/responses. All other requests get a 404.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f, ok := wire.Detect(r.Method, r.URL.Path); ok && spoken[f] != nil {
		h.serve(w, r, f, false)
		return
	}
	if f, ok := wire.DetectCount(r.Method, r.URL.Path); ok && spoken[f] != nil {
		h.serve(w, r, f, true)
		return
	}
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case get && strings.HasSuffix(r.URL.Path, "/responses") && websocket.Upgrades(w, r):
		h.serveSocket(w, r)
	case get && strings.HasSuffix(r.URL.Path, "/v1/models"):
		writeJSON(w, http.StatusOK, models())
	case get && r.URL.Path == "/inference-profiles": // of Bedrock
		writeJSON(w, http.StatusOK, []byte(`{"inferenceProfileSummaries":[]}`))
	case get && r.URL.Path == "/":
		writeJSON(w, http.StatusOK, []byte(`{"simulated":true}`))
	default:
		fail(w, anthropic{}, Failure{Status: http.StatusNotFound, Message: "Not found: this is a simulated model"}, newID())
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name wire.Format, count bool) {
	f := spoken[name]
	if a, ok := name.Codec().(wire.Addresser); ok {
		if _, _, stream, _ := a.Address(r.URL.Path); name.Array(stream, r.URL.RawQuery) {
			f = gemini{array: true}
		}
	}
	ctx, id := r.Context(), newID()
	body, err := read(w, r)
	if err != nil {
		failure := Failure{Status: http.StatusBadRequest, Message: "The request body could not be read"}
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			failure = Failure{Status: http.StatusRequestEntityTooLarge, Message: "Request exceeds the maximum size"}
		}
		fail(w, f, failure, id)
		return
	}
	if _, signed := f.(claudeOnBedrock); signed && h.Keys != nil {
		if wrong := h.unsigned(r, body); wrong != "" {
			fail(w, f, Failure{Status: http.StatusForbidden, Message: wrong}, id)
			return
		}
	}
	view, err := h.parse(ctx, name, body)
	if err != nil {
		fail(w, f, Failure{Status: http.StatusBadRequest, Message: "The request body is not valid: " + err.Error()}, id)
		return
	}
	view.Address(r.URL.Path, r.URL.RawQuery)
	if count {
		w.Header().Set(f.requestID(), "req_"+id)
		counter := name.Codec().(wire.TokenCounter) //nolint:forcetypeassert // it has recognised the request
		writeJSON(w, http.StatusOK, counter.CountAnswer(int(h.Cache.Count(view))))
		return
	}
	c := &query{view: view, id: id, at: h.now(ctx)}
	failure := h.unsupported(view)
	whole, end := view.Raw, func(string, []byte) {}
	if failure == nil {
		whole, end, failure = h.threads.open(r, view, c.at)
	}
	_, keeps := f.(responses)
	if failure == nil && keeps {
		whole, failure = h.stored.open(r, view)
	}
	if failure != nil {
		fail(w, f, *failure, id)
		return
	}
	defer func() { end("", nil) }()
	if len(whole) != len(view.Raw) {
		if c.view, err = h.parse(ctx, name, whole); err != nil {
			fail(w, f, Failure{Status: http.StatusBadRequest, Message: "The request body is not valid: " + err.Error()}, id)
			return
		}
	}
	call := pricing.Call{View: c.view, Credential: credential(r), At: c.at}
	if h.Hooks.Call != nil {
		h.Hooks.Call(ctx, &call)
	}
	run, refused := h.Cache.Begin(call)
	if refused != nil {
		h.done(ctx, wire.Usage{}, refused)
		fail(w, f, Failure{Status: refused.Status, Type: refused.Type, Message: refused.Message}, id)
		return
	}
	c.usage = run.Usage()
	c.answer = h.answer(ctx, c)
	c.usage.Output = c.answer.tokens()
	if !sleep(ctx, c.answer.Delay) {
		return
	}
	if c.answer.Hang {
		<-ctx.Done()
		return
	}
	if c.answer.Failure != nil {
		fail(w, f, *c.answer.Failure, id)
		return
	}
	if run.FirstByte(h.now(ctx)); c.answer.Truncate == 0 && !view.Conversation.Thread.Empty() {
		end("msg_"+id, anthropic{}.reply(c))
	}
	if keeps && c.answer.Truncate == 0 && !view.Conversation.Stateless {
		h.stored.keep(r, c)
	}
	h.done(ctx, c.usage, nil)
	w.Header().Set(f.requestID(), "req_"+id)
	h.plans.charge(w.Header(), f, h.Subscription, c, credential(r))
	h.write(w, r, f, c)
}

// read reads a body, in one allocation if its length is known.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= maxBody {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	return b.Bytes(), err
}

// write sends the response, or the part before its truncation.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, f format, c *query) {
	if !c.view.Reply.Stream {
		b := f.JSON(c)
		if c.answer.Truncate > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			b = b[:len(b)/2]
		}
		writeJSON(w, http.StatusOK, b)
		if c.answer.Truncate > 0 {
			panic(http.ErrAbortHandler)
		}
		return
	}
	w.Header().Set("Content-Type", f.streamType())
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for i, e := range f.events(c) {
		if c.answer.Truncate > 0 && i == c.answer.Truncate {
			if c.answer.Clean {
				return
			}
			panic(http.ErrAbortHandler)
		}
		if !sleep(r.Context(), h.Pace) {
			return
		}
		if _, err := w.Write(e); err != nil {
			return
		}
		// A writer without Flush sends the stream at its end.
		_ = flush.Flush()
	}
}

// wantedWord matches the word that a prompt asks for, such as those of `caddy llm-cache smoketest`.
var wantedWord = regexp.MustCompile(`your whole answer is the one word ([A-Z]+)`)

// answer returns the answer: the hook's, the script's, or the fixed text.
func (h *Handler) answer(ctx context.Context, c *query) *Answer {
	if h.Hooks.Answer != nil {
		if a := h.Hooks.Answer(ctx, c.view); a != nil {
			return a
		}
	}
	// Such a request only fills the cache.
	if c.view.Caching.Prewarms || c.view.Reply.MaxTokens == 0 {
		return &Answer{StopReason: "max_tokens"}
	}
	if a := h.Script.answer(c.view); a != nil {
		return a
	}
	if text := inShape(c.view); text != "" {
		return &Answer{Blocks: []Block{{Type: Text, Text: text}}}
	}
	if word := wantedWord.FindSubmatch(c.view.Raw); word != nil {
		return &Answer{Blocks: []Block{{Type: Text, Text: string(word[1])}}}
	}
	u := c.usage
	return &Answer{Blocks: []Block{{Type: Text, Text: fmt.Sprintf(
		"This is a simulated model. Of the %d tokens of your prompt it read %d from its cache and wrote %d to it.",
		u.Prompt(), u.Read, u.Write5m+u.Write1h)}}}
}

func (h *Handler) now(ctx context.Context) time.Time {
	if h.Hooks.Now != nil {
		return h.Hooks.Now(ctx)
	}
	return time.Now()
}

func (h *Handler) parse(ctx context.Context, f wire.Format, body []byte) (*wire.View, error) {
	if h.Hooks.Parse != nil {
		return h.Hooks.Parse(ctx, f, body)
	}
	return wire.Parse(f, body, nil)
}

func (h *Handler) done(ctx context.Context, u wire.Usage, refused *pricing.APIError) {
	if h.Hooks.Done != nil {
		h.Hooks.Done(ctx, u, refused)
	}
}

// credential returns the credential that separates the provider's customers.
func credential(r *http.Request) string {
	for _, key := range []string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key")} {
		if key != "" {
			return key
		}
	}
	return customer(r.Header.Get("Authorization"))
}

// errorTypes are the types of errors by status. They are equal in both APIs if both have one.
var errorTypes = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusPaymentRequired:       "billing_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusConflict:              "conflict_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
	529:                              "overloaded_error",
}

func fail(w http.ResponseWriter, f format, e Failure, id string) {
	if e.Status == 0 {
		e.Status = http.StatusInternalServerError
	}
	if e.Type == "" {
		if e.Type = errorTypes[e.Status]; e.Type == "" {
			e.Type = "api_error"
		}
	}
	if e.Message == "" {
		e.Message = "The simulated model was told to fail"
	}
	w.Header().Set(f.requestID(), "req_"+id)
	if e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, e.Status, f.failure(e, "req_"+id))
}

func writeJSON(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get("Content-Length") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	w.WriteHeader(status)
	// The client may have left, so the error does not matter.
	_, _ = w.Write(b)
}

// models returns a list of one model that clients of either API accept.
func models() []byte {
	type model struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Object  string `json:"object"`
		Name    string `json:"display_name"`
		Created int64  `json:"created"`
		At      string `json:"created_at"`
		Owner   string `json:"owned_by"`
	}
	return encode(struct {
		Object  string  `json:"object"`
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
	}{"list", []model{{"simulated", "model", "model", "Simulated model", 0, "1970-01-01T00:00:00Z", "llm_cache"}}, false})
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// sleep waits, and reports whether the client is still connected.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
