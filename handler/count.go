// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	// askCountAgain is the time until a server that counted no tokens is asked again: it may have been replaced.
	askCountAgain = time.Hour
	// maxCount is the time that a local server has to count. Some count only between two responses.
	maxCount = 2 * time.Second
)

// estimates reports whether the tokens of a prompt are estimated here.
func (o *site) estimates(f wire.Format) bool {
	if at, ok := o.uncounted.Load(f); ok && o.now().Sub(at.(time.Time)) < askCountAgain {
		return true
	}
	// The upstream's API may not count in this format.
	return o.up.Target(f) != f && o.up.Counts() != f
}

// uncounted judges the answers to counts: it rejects those of servers that cannot count, or not now.
type uncounted struct{}

// Judge implements [httpx.Judge].
func (uncounted) Judge(a *httpx.Attempt) httpx.Verdict {
	if countsNothing(a.Status) || a.Status >= http.StatusInternalServerError || errors.Is(a.Err, context.DeadlineExceeded) {
		return httpx.Reject
	}
	return httpx.Accept
}

func countsNothing(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// askCount has the server count the tokens of a prompt. It reports false, without a response, if the server cannot or is
// too busy.
func (o *site) askCount(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, f wire.Format, p *httpx.Payload,
) (counted bool, err error) {
	next = o.unknown(r, slotless, f).through(next)
	if o.up.Official() {
		return true, passBody(w, r, next, p)
	}
	a := httpx.NewAttempt(w, uncounted{})
	refused, err := a.Serve(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if o.up.Local() {
			ctx, cancel := context.WithTimeout(r.Context(), maxCount)
			defer cancel()
			r = r.WithContext(ctx)
		}
		return passBody(w, r, next, p)
	}), r)
	if refused && countsNothing(a.Status) {
		// The server is not asked with each prompt.
		o.uncounted.Store(f, o.now())
	}
	return !refused, err
}

// serveCount responds with the number of tokens of a prompt.
func (o *site) serveCount(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, f wire.Format) error {
	a := new(arrival)
	a.begin(o, r, f)
	defer a.share.Close()
	// An API that does not count in the client's format leaves the count to our estimate.
	estimated := o.estimates(f)
	err := a.receive(w, r)
	switch {
	case errors.Is(err, httpx.ErrNoRoom):
		if !estimated {
			return o.passUnread(w, r, next, f, a)
		}
		return budget.Fail(w, f)
	case errors.Is(err, budget.ErrStalled):
		return budget.FailStalled(w, f)
	case err != nil:
		return failBody(w, r, f, err)
	}
	// Clients decide by the count when to summarize a conversation: the prompt is counted as it would be
	// sent, with its edits.
	if a.Undone() == nil && o.store.Pin() {
		o.guard("editing a prompt that is counted", func() { a.replace(r, o.counted(r, f, a.body(), estimated)) })
		o.store.Unpin()
	}
	switch {
	case a.Undone() != nil && estimated:
		// The request itself would be refused, too.
		return httpx.Fail(w, f, translate.Refusal(a.Undone()))
	}
	prompt := a.body()
	if !estimated {
		if !o.up.Official() {
			prompt = bytes.Clone(prompt) // the body goes with the request
		}
		if counted, err := o.askCount(w, r, next, f, &a.Payload); counted {
			return err
		}
	}
	n, err := 0, errors.New("the tokens could not be counted")
	o.guard("counting tokens", func() { n, err = resourceTokens(f, prompt) })
	if err != nil {
		return httpx.Fail(w, f, translate.Refusal(err))
	}
	body := f.Codec().(wire.TokenCounter).CountAnswer(n) //nolint:forcetypeassert // else nobody would have asked
	if o.up.Headers {
		w.Header()[headerGuess] = []string{"1"}
	}
	return httpx.Respond(w, http.StatusOK, "application/json", body)
}

// counted returns the body of a count with the prompt as it would be sent. It stores nothing.
func (o *site) counted(r *http.Request, f wire.Format, body []byte, estimated bool) []byte {
	if !estimated {
		body = seal.Remove(body)
	}
	asked, _ := f.Codec().(wire.TokenCounter).CountedRequest(body) //nolint:forcetypeassert // it counts
	tenant, path := o.store.Tenants().Of(r), answers.Replace(knownPath(r))
	view, err := o.parse(f, asked, tenant)
	if err != nil {
		return body
	}
	view.Address(answers.Replace(r.URL.Path), "")
	key := o.sessionKey(r, tenant, view)
	key.Upstream = o.upstreamKeyAt(r, path)
	session := o.store.Acquire(r.Context(), key)
	defer o.store.Release(session)
	x := o.pipe.Begin(view, session, o.now())
	defer x.Abandon()
	if x.Prompt.Err != nil || !x.Prompt.Edited {
		return body
	}
	// Gemini's count may have the whole request as a member.
	for _, name := range [...]string{"generateContentRequest", "generate_content_request"} {
		if gjson.GetBytes(body, name).IsObject() {
			if out, err := wire.Patch(body, wire.Member{Name: name, Value: x.Prompt.Body.Bytes()}); err == nil {
				return out
			}
			return body
		}
	}
	return x.Prompt.Body.Bytes()
}

// answers makes the path of a count that of the request that it is about.
var answers = strings.NewReplacer("/count_tokens", "", "/input_tokens", "", ":countTokens", ":generateContent")

// resourceTokens returns about how many tokens the prompt of a request has.
func resourceTokens(f wire.Format, body []byte) (n int, err error) {
	in := translate.Incoming{Body: body}
	if c, ok := f.Codec().(wire.TokenCounter); ok {
		in.Body, in.Path = c.CountedRequest(body)
	}
	if _, err := translate.Read(f, in); err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	view, err := wire.Parse(f, in.Body, nil)
	if err != nil {
		return len(in.Body) / 4, nil //nolint:nilerr // a request that is not understood goes upstream, too
	}
	for i := range view.Blocks {
		if b := &view.Blocks[i]; !b.Has(wire.FlagDeferred) {
			n += pricing.Tokens(view, b)
		}
	}
	return n, nil
}
