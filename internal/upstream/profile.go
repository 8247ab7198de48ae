// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"slices"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Options are what a site says of how the upstream is spoken to.
type Options struct {
	// Translate reports whether requests in a format that the upstream does not speak are
	// translated. Nil: they are.
	Translate *bool
	// BufferCalls has tool calls of streams sent whole, JoinCalls all of them together.
	BufferCalls, JoinCalls bool
	// MaxBody is the size in bytes that a body may have.
	MaxBody int64
	// Headers has answers say what was left out of their requests.
	Headers bool
	// Salt returns a secret that is the same for all who share prefixes with a request's
	// tenant, and another for everybody else.
	Salt func(r *http.Request) string
	// Log gets what goes wrong.
	Log *zap.Logger
	// Prices are those of models. Default: the built-in table.
	Prices *pricing.Table
}

// Profile is an upstream as a site speaks to it: what the layers next to it are made
// of.
type Profile struct {
	*Upstream // nil: whatever stands there
	Options

	// Formats are what it speaks, the one that all else is translated to first. None:
	// any.
	Formats []wire.Format

	compat *compat // nil for nothing to do
	blind  blindModels
}

// Profile returns what the options come to.
func (u *Upstream) Profile(o Options) *Profile {
	return &Profile{Upstream: u, Options: o, Formats: u.formats(), compat: u.compat()}
}

// Target returns the format that a request goes upstream in.
func (p *Profile) Target(client wire.Format) wire.Format {
	if p.speaks(client) || p.Options.Translate != nil && !*p.Options.Translate || client.Traits().Variant || p.Formats[0].Traits().Variant {
		return client
	}
	return p.Formats[0]
}

// Understands reports whether requests in a format can be forwarded at all: as they
// are, or translated.
func (p *Profile) Understands(client wire.Format) bool { return p.speaks(p.Target(client)) }

// Holds reports whether the upstream may keep conversations that it is asked to keep in
// a format: a provider does in its own, a box does not, and what stands behind an
// unstated upstream says so itself.
func (p *Profile) Holds(client wire.Format) bool {
	return p.Target(client) == client && !p.Local()
}

// Marks reports whether the translation of a request asks the provider to mark the end of
// its prompt for the cache.
func (p *Profile) Marks(v *wire.View) bool {
	to := p.Target(v.Format)
	if to == v.Format || !p.Official() || !to.Traits().Markers {
		return false
	}
	talks := v.OffersTools()
	for i := range v.Blocks {
		if !v.Blocks[i].Marker.Empty() {
			return false
		}
	}
	for i := range v.Messages {
		talks = talks || v.Messages[i].Role == wire.RoleAssistant
	}
	return talks
}

// Manages reports whether the upstream gets what a client asks its provider to do about a
// history that has grown long, in the client's own words, or makes its prompts itself.
func (p *Profile) Manages(client wire.Format) bool {
	return p.Stateful() || p.Target(client) == client && (p.compat == nil || !slices.Contains(p.compat.drop, "context_management"))
}

// Verbatim reports whether requests in a format go out as they are, if nothing is
// edited.
func (p *Profile) Verbatim(client wire.Format) bool {
	return p.Target(client) == client && !p.Renames() && p.compat == nil
}

// Forms counts the forms that the layers make of a body in a format.
func (p *Profile) Forms(client wire.Format) (n int64) {
	if p.Target(client) != client {
		n += 2 // the upstream's body, and the pieces of which it is made
	}
	if p.compat != nil {
		n++
	}
	return n
}

// KeepsMarkers reports whether cache_control goes upstream.
func (p *Profile) KeepsMarkers() bool { return p.compat == nil || p.compat.cacheControl }

// TellsTimings reports whether the server tells what an answer took without being asked
// for its usage, in the timings that llama.cpp adds.
func (p *Profile) TellsTimings() bool { return p.Upstream != nil && p.Preset == "llama_cpp" }

// Slotted reports whether requests name the slot that they are to run in.
func (p *Profile) Slotted() bool { return p.compat.slotted() }

func (p *Profile) buffers() bool { return p.BufferCalls || p.JoinCalls }
