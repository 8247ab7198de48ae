// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The response headers, in canonical form.
const (
	headerSession   = "X-Llm-Cache-Session"
	headerPolicy    = "X-Llm-Cache-Policy"
	headerOriginal  = "X-Llm-Cache-Original-Tokens"
	headerSent      = "X-Llm-Cache-Sent-Tokens"
	headerSaved     = "X-Llm-Cache-Saved-Tokens"
	headerReduction = "X-Llm-Cache-Reduction-Pct"
	headerFired     = "X-Llm-Cache-Transforms"
	headerWords     = "X-Llm-Cache-Compressed" // words left out
	headerOverhead  = "X-Llm-Cache-Overhead-Us"
	headerDecision  = "X-Llm-Cache-Decision"
	headerCached    = "X-Llm-Cache-Cached-Tokens"
	headerEstimated = "X-Llm-Cache-Cached-Tokens-Estimated" // beside it, if the upstream did not report them
	headerModel     = "X-Llm-Cache-Model"                   // the one that is billed, where it has another name
	headerAssumed   = "X-Llm-Cache-Assumed-From"            // the model whose cache rules stand in, where the model is not known
	headerGuess     = "X-Llm-Cache-Input-Tokens-Estimated"  // of a count of tokens that is ours
)

// sent estimates the tokens sent upstream: the original's after a resend.
func (c *requestState) sent() int {
	if c.ending.resent {
		return c.ex.Prompt.OriginalTokens
	}
	return c.ex.Prompt.SentTokens
}

func (c *requestState) saved() int { return c.ex.Prompt.OriginalTokens - c.sent() }

func (c *requestState) reduction() string {
	if c.ex.Prompt.OriginalTokens <= 0 {
		return "0.0"
	}
	return strconv.FormatFloat(100*float64(c.saved())/float64(c.ex.Prompt.OriginalTokens), 'f', 1, 64)
}

func (c *requestState) transforms() string {
	if c.ending.resent {
		return "none;resent"
	}
	if len(c.ex.Prompt.Fired) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, f := range c.ex.Prompt.Fired {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Stage)
		b.WriteString(";n=")
		b.WriteString(strconv.Itoa(f.Count))
	}
	return b.String()
}

// cached returns the tokens that the upstream reports to have read from its cache.
func (e *ending) cached() (string, bool) {
	if e.turn == nil || !e.turn.Usage.Reported {
		return "", false
	}
	return strconv.FormatInt(e.turn.Usage.Read, 10), true
}

// stamp writes the headers of an answer, at the moment when it is released.
func (c *requestState) stamp(h http.Header, t *tap) {
	if !c.site.up.Headers {
		return
	}
	delete(h, headerCached) // another llm_cache upstream may have set it
	delete(h, headerEstimated)
	delete(h, headerBrief)
	if c.telling.all {
		c.stampAll(h)
	} else {
		c.telling.told[0] = c.brief()
		h[headerBrief] = c.telling.told[:]
		if c.ex.Prompt.Err != nil {
			h[headerBypass] = []string{reasonSplice}
		}
	}
	if _, ok := c.ending.cached(); !ok && c.telling.trailer(t) {
		h.Add("Trailer", headerCached)
	}
}

// stampAll writes a header for each value.
func (c *requestState) stampAll(h http.Header) {
	values := make([]string, 0, 15)
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(headerSession, c.session.ID())
	set(headerPolicy, string(c.ex.Policy))
	if model := c.site.records.billed(c.view.Model); model != "" {
		set(headerModel, model)
	}
	if from := c.ex.Rules().AssumedFrom; from != "" {
		set(headerAssumed, from)
	}
	set(headerOriginal, strconv.Itoa(c.ex.Prompt.OriginalTokens))
	set(headerSent, strconv.Itoa(c.sent()))
	set(headerSaved, strconv.Itoa(c.saved()))
	set(headerReduction, c.reduction())
	set(headerFired, c.transforms())
	if words := c.compressed(); words != "" {
		set(headerWords, words)
	}
	if c.ex.Decision.Epoch != "" {
		set(headerDecision, c.ex.Decision.String())
	}
	if c.ex.Prompt.Err != nil {
		set(headerBypass, reasonSplice)
	}
	set(headerOverhead, strconv.FormatInt(c.overhead.Microseconds(), 10))
	if n, ok := c.ending.cached(); ok {
		set(headerCached, n)
		if c.ending.estimated {
			set(headerEstimated, "1")
		}
	}
}

// trailer reports whether the answer carries trailers, for values known at its end only.
func (t *telling) trailer(of *tap) bool {
	return t.trailers && of.dec != nil && len(of.Header()["Content-Length"]) == 0
}

// stampTrailer writes the trailer that stamp announced.
func (c *requestState) stampTrailer(t *tap) {
	if !c.site.up.Headers || !c.telling.trailer(t) {
		return
	}
	h := t.ResponseWriter.Header()
	if !slices.Contains(h["Trailer"], headerCached) { // it was a header
		return
	}
	if n, ok := c.ending.cached(); ok {
		h[headerCached] = []string{n}
		if c.ending.estimated {
			h[http.TrailerPrefix+headerEstimated] = []string{"1"}
		}
	}
}

// placeholder resolves {http.llm_cache.*}.
func (c *requestState) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.llm_cache.")
	if !ok {
		return nil, false
	}
	switch name {
	case "session":
		return c.session.ID(), true
	case "policy":
		return string(c.ex.Policy), true
	case "original_tokens":
		return c.ex.Prompt.OriginalTokens, true
	case "sent_tokens":
		return c.sent(), true
	case "saved_tokens":
		return c.saved(), true
	case "reduction_pct":
		return c.reduction(), true
	case "transforms":
		return c.transforms(), true
	case "compressed":
		return c.compressed(), true
	case "decision":
		return c.ex.Decision.String(), true
	case "overhead_us":
		return c.overhead.Microseconds(), true
	case "cached_tokens":
		n, _ := c.ending.cached()
		return n, true
	}
	return nil, false
}
