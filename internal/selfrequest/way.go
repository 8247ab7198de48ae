// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package selfrequest

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Way is the path of a request through this module's handlers. The zero value means that the
// forwarding handler is the first one.
type Way struct {
	// Behind is the number of earlier handlers of this module. They must not edit an internal
	// request, because its body already has their edits.
	Behind int `json:"behind,omitempty"`
	// Path is the URL path after the earlier handlers' rewrites.
	Path string `json:"path,omitempty"`
}

// behindVar counts the handlers that a request has passed.
const behindVar = "llm_handlers"

// Passing returns the path of a client's request so far, and counts the present handler. Each
// handler sets the request's conversation before it calls the next one.
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

// leads reports whether the present handler is the last one on the path. It forwards all kinds that
// an earlier handler would.
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

// passed is the part of the path that is already covered.
type passed struct {
	behind int
	sends  Kind
}
