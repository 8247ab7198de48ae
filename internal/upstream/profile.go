// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Options are a site's options for its upstream.
type Options struct {
	// Translate enables the translation of requests in a format that the upstream does not speak.
	// Nil: enabled.
	Translate *bool
	// BufferCalls sends each tool call of a stream in one piece, JoinCalls all calls together.
	BufferCalls, JoinCalls bool
	// MaxBody is the maximum size of a body, in bytes.
	MaxBody int64
	// Headers adds a header with the fields that the translation dropped from the request.
	Headers bool
	// Salt returns a secret that is equal for all tenants which share prefixes with a request's
	// tenant, and different for all others.
	Salt func(r *http.Request) string
	// Log gets errors.
	Log *zap.Logger
	// Prices is the table of model prices. Default: the built-in table.
	Prices *pricing.Table
}

// Profile is an upstream with a site's options. The layers next to the upstream are built from it.
type Profile struct {
	*Upstream // nil: any upstream
	Options

	// Formats are the upstream's formats. Other formats are translated to the first one. None: any.
	Formats []wire.Format

	compat  *compat // nil if no change is needed
	blind   blindModels
	reached atomic.Pointer[reachedHost]
}

// Profile combines the upstream with a site's options.
func (u *Upstream) Profile(o Options) *Profile {
	return &Profile{Upstream: u, Options: o, Formats: u.formats(), compat: u.compat()}
}

// Target returns the format in which a client's request is sent upstream.
func (p *Profile) Target(client wire.Format) wire.Format {
	if p.speaks(client) || p.Options.Translate != nil && !*p.Options.Translate || client.Traits().Variant || p.Formats[0].Traits().Variant {
		return client
	}
	return p.Formats[0]
}

// Understands reports whether requests in a format can be forwarded, unmodified or translated.
func (p *Profile) Understands(client wire.Format) bool { return p.speaks(p.Target(client)) }

// Holds reports whether the upstream may retain conversations in a format: a provider does in its
// own format, a local server does not, and an unspecified upstream decides itself.
func (p *Profile) Holds(client wire.Format) bool {
	return p.Target(client) == client && !p.Local()
}

// Marks reports whether the translation of a request asks the provider to cache the prompt up to
// its end.
func (p *Profile) Marks(v *wire.View) bool {
	to := p.Target(v.Format)
	if to == v.Format || !p.Official() && !p.marked() || !to.Traits().Markers {
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

// Manages reports whether the client's options for long histories reach the upstream unmodified, or
// the upstream builds its prompts itself.
func (p *Profile) Manages(client wire.Format) bool {
	return p.Stateful() || p.Target(client) == client && (p.compat == nil || !slices.Contains(p.compat.drop, "context_management"))
}

// Verbatim reports whether unedited requests in a format are forwarded unmodified.
func (p *Profile) Verbatim(client wire.Format) bool {
	return p.Target(client) == client && !p.Renames() && p.compat == nil
}

// Forms counts the copies that the layers make of a body in a format.
func (p *Profile) Forms(client wire.Format) (n int64) {
	if p.Target(client) != client {
		n += 2 // the upstream's body, and the pieces to build it from
	}
	if p.compat != nil {
		n++
	}
	return n
}

// KeepsMarkers reports whether cache_control reaches the upstream.
func (p *Profile) KeepsMarkers() bool { return p.compat == nil || p.compat.cacheControl }

// marked reports whether the upstream is a billed API that caches what is marked.
func (u *Upstream) marked() bool { return u.preset().hosted && u.keepsMarkers() }

// TakesMarkers reports whether requests in a client's format may get cache markers.
func (p *Profile) TakesMarkers(client wire.Format) bool {
	return client.Traits().Markers || p.marked() && client.Traits().ServersVary && p.Target(client) == client
}

// TellsTimings reports whether the server reports timings, as llama.cpp does, without a request for
// usage.
func (p *Profile) TellsTimings() bool { return p.Upstream != nil && p.Preset == "llama_cpp" }

// Slotted reports whether requests name their slot.
func (p *Profile) Slotted() bool { return p.compat.slotted() }

func (p *Profile) buffers() bool { return p.BufferCalls || p.JoinCalls }
