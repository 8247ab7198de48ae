// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package selfrequest

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Way is how a request came to a handler behind which an errand is to go upstream. Its
// zero value is that of a handler with no other one in front.
type Way struct {
	// Behind is how many handlers of this module it had passed. Theirs is not to change
	// what is sent: they have done so before.
	Behind int `json:"behind,omitempty"`
	// Path is what they have made of the path.
	Path string `json:"path,omitempty"`
}

// behindVar counts the handlers that a request has passed, where there were any.
const behindVar = "llm_handlers"

// Passing tells how a client's request has come to a handler, and counts that. Each handler
// says which conversation it is before the next one is asked.
func Passing(r *http.Request) (w Way) {
	ctx := r.Context()
	if caddyhttp.GetVar(ctx, "llm_lineage") == nil {
		return w
	}
	before, _ := caddyhttp.GetVar(ctx, behindVar).(int)
	w = Way{Behind: before + 1, Path: r.URL.Path}
	caddyhttp.SetVar(ctx, behindVar, w.Behind)
	return w
}

// leads reports whether the way ends at a handler that the errand has come to. Kinds
// that one in front sends on, the one behind does, too.
func (e *Errand) leads(r *http.Request, s *Site) bool {
	e.way.sends |= s.Sends
	if e.way.behind < e.Way.Behind {
		e.way.behind++
		return false
	}
	if e.Way.Behind > 0 {
		r.URL.Path, r.URL.RawPath = e.Way.Path, ""
	}
	return true
}

// passed is what lies behind an errand on its way.
type passed struct {
	behind int
	sends  Kind
}
