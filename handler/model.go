// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// MatchModel matches requests by the model that they ask for, in any API. Caddy's `handle` can so choose an
// upstream by model:
//
//	@box llm_model local/* qwen*
//	handle @box {
//		llm_cache
//		reverse_proxy 127.0.0.1:8080
//	}
//
// The model is in the path (Gemini, Vertex AI, Bedrock), or the member `model` of a JSON body, which is read
// into memory once: an llm_cache behind the matcher takes it over, and other handlers read it as if it had
// not been. Requests without a model match nothing: lists of models, handshakes of WebSockets, and bodies that
// are not JSON, cannot be decoded or exceed 32 MiB. They pass whole.
type MatchModel struct {
	// Models are names of models, in which each `*` stands for any characters. One of them has to match.
	Models []string `json:"models,omitempty"`

	bodies *budget.Budget
	up     *upstream.Profile // with the limit and the logger for bodies, as a matcher knows no upstream
}

// CaddyModule returns the Caddy module information.
func (MatchModel) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.llm_model",
		New: func() caddy.Module { return new(MatchModel) },
	}
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	llm_model <models...>
func (m *MatchModel) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() { // a repeated matcher adds models
		if d.CountRemainingArgs() == 0 {
			return d.ArgErr()
		}
		m.Models = append(m.Models, d.RemainingArgs()...)
		if d.NextBlock(0) {
			return d.Err("malformed llm_model matcher: blocks are not supported")
		}
	}
	return nil
}

// Provision finds the memory for bodies.
func (m *MatchModel) Provision(ctx caddy.Context) error {
	// The app has the size of the memory.
	if _, err := ctx.App("llm_cache"); err != nil {
		return fmt.Errorf("loading the llm_cache app: %w", err)
	}
	m.begin(budget.Of(shared.Of(ctx)), ctx.Logger())
	return nil
}

func (m *MatchModel) begin(bodies *budget.Budget, log *zap.Logger) {
	m.bodies, m.up = bodies, new(upstream.Profile)
	m.up.MaxBody, m.up.Log = defaultMaxBody, log
}

// Validate reports a name that matches nothing.
func (m *MatchModel) Validate() error {
	if len(m.Models) == 0 || slices.Contains(m.Models, "") {
		return fmt.Errorf("models must be names of models, got %q", m.Models)
	}
	return nil
}

// MatchWithError returns true if r asks for one of the models.
func (m *MatchModel) MatchWithError(r *http.Request) (bool, error) {
	model := m.model(r)
	return model != "" && slices.ContainsFunc(m.Models, func(pattern string) bool {
		return upstream.Matches(pattern, model)
	}), nil
}

// model returns the model that a request asks for, "" for none.
func (m *MatchModel) model(r *http.Request) string {
	// An internal request gets its body, which an earlier handler may have edited, at the handler that sends it.
	if e := selfrequest.Of(r); e != nil {
		return e.Model
	}
	if r.Method != http.MethodPost {
		return ""
	}
	path := answers.Replace(r.URL.Path) // counts of tokens are about other requests
	f, _ := wire.Detect(r.Method, path)
	if a, ok := f.Codec().(wire.Addresser); ok {
		_, model, _, _ := a.Address(path)
		return model
	}
	if unreadable(r.Header) != "" || caddyhttp.IsIncremental(r.Header) {
		return ""
	}
	e, read := caddyhttp.GetVar(r.Context(), readVar).(*readBody)
	if !read { // by no matcher before
		e = m.read(r)
		caddyhttp.SetVar(r.Context(), readVar, e)
	}
	return e.model
}

// readVar is the variable with a request's [readBody].
const readVar = "llm_body"

// readBody is a body that a matcher has read, with its memory. The handler takes both over; else the memory
// is released when the request ends.
type readBody struct {
	arrival
	model string
	keep  func() bool // cancels the release, unless it has happened
}

// read reads the body ahead of its handlers.
func (m *MatchModel) read(r *http.Request) *readBody {
	b := &readBody{
		arrival: arrival{share: *m.bodies.Open(), up: m.up, forms: 1},
	}
	if p, ok := httpx.Whole(r); ok { // the body belongs to a handler before this matcher
		if b.model = modelOf(p.Plain()); b.model == "" {
			b.model = modelOf(p.Bytes())
		}
		return b
	}
	if r.ContentLength > b.up.MaxBody {
		return b
	}
	b.share.Owner.Address = address(r)
	b.share.Read(r.ContentLength, endOf(r))
	raw, err := httpx.ReadAhead(r, b.up.MaxBody, b.toll(r, 1))
	switch stalled := b.share.Arrived(); {
	case stalled:
		_ = r.Body.Close()
		r.Body = failed{budget.ErrStalled}
	case err == nil:
		b.Data = raw
		b.Attach(r)
		coding := httpx.Coding(r.Header)
		switch {
		case coding == "":
			b.model = modelOf(raw)
		case b.decode(r, coding) == nil:
			b.model = modelOf(b.Plain())
		default:
			b.Decoded(nil, nil) // the handler may have a larger limit, or more room
		}
	}
	b.keep = context.AfterFunc(r.Context(), b.share.Close)
	return b
}

func modelOf(body []byte) string {
	if v := gjson.GetBytes(body, "model"); v.Type == gjson.String {
		return v.Str
	}
	return ""
}

// endOf returns a function that ends the reading of a body, as far as a matcher, which has no response, can.
func endOf(r *http.Request) func() error {
	c, ok := r.Context().Value(caddyhttp.ConnCtxKey).(net.Conn)
	if !ok || r.ProtoMajor != 1 { // else the connection has other requests
		return nil
	}
	return func() error { return c.SetReadDeadline(time.Now()) }
}

// failed is a body that cannot be read.
type failed struct{ error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.error }

// Close implements io.Closer.
func (failed) Close() error { return nil }

// adopt takes over a body that a matcher has read. It reports false if there is none.
func (a *arrival) adopt(r *http.Request) bool {
	b, _ := caddyhttp.GetVar(r.Context(), readVar).(*readBody)
	// A handler in between may have set another body.
	if p, ok := httpx.Whole(r); b == nil || !ok || p != &b.Payload {
		return false
	}
	if b.keep() {
		a.share = b.share
	}
	a.Data, b.Data = b.Data, nil
	if b.Plain() != nil || b.Undone() != nil {
		a.Decoded(b.Plain(), b.Undone())
		a.why = b.why
	}
	return true
}
