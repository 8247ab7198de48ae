// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const defaultAffinityLoad = 2

// Affinity is a selection policy for `reverse_proxy` over several local servers, each with a prefix
// cache of its own: it sends all requests of one conversation to the same server, also on retries.
// `llm_cache` must stand before `reverse_proxy` in the same route.
//
// Rendezvous hashing spreads the conversations. When a server is down, only its conversations move
// to other servers; they move back when it is up again. A server much busier than the others is
// skipped until its load drops.
//
// Requests that `llm_cache` did not process go to the less busy of two random servers.
type Affinity struct {
	// Load is the maximum number of requests in flight at a server, as a multiple of the mean over
	// all servers. Beyond it, a request goes to the next server in its order, which has to read the
	// prefix anew. A server may always have one request. At least 1. Default: 2.
	Load float64 `json:"load,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Affinity) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.selection_policies.llm_session",
		New: func() caddy.Module { return new(Affinity) },
	}
}

// Provision sets the default.
func (a *Affinity) Provision(caddy.Context) error {
	if a.Load == 0 {
		a.Load = defaultAffinityLoad
	}
	return nil
}

// Validate returns an error for a load below 1.
func (a *Affinity) Validate() error {
	if a.Load != 0 && !(a.Load >= 1) {
		return fmt.Errorf("load: %v is below 1", a.Load)
	}
	return nil
}

// UnmarshalCaddyfile sets the policy up from Caddyfile tokens. Syntax:
//
//	lb_policy llm_session [<load>]
func (a *Affinity) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the policy
	if d.NextArg() {
		load, err := strconv.ParseFloat(d.Val(), 64)
		if err != nil || load == 0 || math.IsInf(load, 0) {
			return d.Errf("llm_session: %q is not a number of at least 1", d.Val())
		}
		a.Load = load
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(d.Nesting()) {
		return d.Errf("unrecognized option %q of llm_session", d.Val())
	}
	if err := a.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// Select implements reverseproxy.Selector.
func (a *Affinity) Select(
	pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter,
) *reverseproxy.Upstream {
	if t, ok := caddyhttp.GetVar(r.Context(), ReplicaVar).(*Replica); ok && t != nil { // an internal request
		if t.Of = len(pool); t.Of > 0 && pool[t.Index%t.Of].Available() {
			return pool[t.Index%t.Of]
		}
		return nil
	}
	session, _ := caddyhttp.GetVar(r.Context(), "llm_session").(string)
	if session == "" {
		// Two random choices spread load nearly as well as a full search, and without a herd.
		return quieter(anyOf(pool), anyOf(pool))
	}
	first, _ := caddyhttp.GetVar(r.Context(), "llm_conversation").(wire.Hash)
	bound := a.bound(pool)
	var best, spare candidate
	for _, u := range pool {
		if !u.Available() {
			continue
		}
		c := candidate{u, weight(u, session, first)}
		if float64(u.NumRequests()) < bound {
			best = best.or(c)
		}
		spare = spare.or(c)
	}
	// All servers are too busy: prefer the one with the cached prefix.
	if best.upstream == nil {
		return spare.upstream
	}
	return best.upstream
}

func (a *Affinity) bound(pool reverseproxy.UpstreamPool) float64 {
	n, busy := 0, 1 // including this request
	for _, u := range pool {
		if u.Available() {
			n++
			busy += u.NumRequests()
		}
	}
	// A server may always have one request, even if the mean is lower.
	return max(1, math.Floor(a.Load*float64(busy)/float64(max(n, 1))))
}

type candidate struct {
	upstream *reverseproxy.Upstream
	weight   uint64
}

func (c candidate) or(o candidate) candidate {
	if c.upstream == nil || o.weight > c.weight {
		return o
	}
	return c
}

// weight returns a server's rendezvous hash for one conversation.
func weight(u *reverseproxy.Upstream, session string, first wire.Hash) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(u.Dial)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(session)
	// A session's sub-agents have conversations, and so caches, of their own.
	_, _ = d.Write(first[:])
	return d.Sum64()
}

func anyOf(pool reverseproxy.UpstreamPool) (chosen *reverseproxy.Upstream) {
	seen := 0
	for _, u := range pool {
		if !u.Available() {
			continue
		}
		// Reservoir sampling: the n-th candidate replaces the choice with a probability of 1/n.
		if seen++; rand.IntN(seen) == 0 { //nolint:gosec // spreads load
			chosen = u
		}
	}
	return chosen
}

func quieter(a, b *reverseproxy.Upstream) *reverseproxy.Upstream {
	if a == nil || b != nil && b.NumRequests() < a.NumRequests() {
		return b
	}
	return a
}

// ReplicaVar is the variable by which an internal request selects one of several servers.
const ReplicaVar = "llm_box"

// Replica selects a server by its index. Selection sets Of to the number of servers.
type Replica struct{ Index, Of int }
