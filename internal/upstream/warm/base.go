// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// base is the common beginning of many prompts: tools and system text in the upstream's format, followed by a
// message of one character.
type base struct {
	id     string
	target wire.Format         // the upstream's format
	path   string              // the upstream's path
	owner  sessioncache.Tenant // tenant of the first request

	// The server's lock guards the fields below.

	to    *selfrequest.Target // with the body
	uses  float64             // decayed by half per day
	used  time.Time
	saved time.Time // last write to disk
}

// maxBaseBytes bounds a base, in bytes.
const maxBaseBytes = 4 << 20

const halfLife = 24 * time.Hour

func (b *base) use(now time.Time) {
	b.uses, b.used = b.worth(now)+1, now
}

func (b *base) worth(now time.Time) float64 {
	return b.uses * math.Exp2(-float64(now.Sub(b.used))/float64(halfLife))
}

// prefixKey identifies a tenant's tools and system text in the client's format.
type prefixKey [sha256.Size]byte

// Prompt is a request with a prompt that may begin with a base.
type Prompt struct {
	// Tenant is the request's tenant, and View the client's request.
	Tenant sessioncache.Tenant
	// View: see Tenant.
	View *wire.View
	// Side marks a side request, which does not record a base.
	Side bool

	prefix atomic.Pointer[prefix]
}

func (p *Prompt) key() (key prefixKey) {
	sum := sha256.New()
	sum.Write(tenant.AppendField(p.Tenant[:], p.View.Model))
	for i := range p.View.Blocks[:p.View.System] {
		h := p.View.Blocks[i].Hash
		sum.Write(h[:])
	}
	sum.Sum(key[:0])
	return key
}

type prefix struct {
	key    prefixKey
	body   []byte // nil for a known prefix
	path   string
	target wire.Format
	salt   string // cache salt of the tenant
}

// recorder records the beginnings of prompts after the overlay, and whether the server is reachable.
type recorder struct {
	next   caddyhttp.Handler
	server *Server
	site   *Site
	prompt *Prompt
}

// Layer returns next behind a recorder.
func (s *Site) Layer(next caddyhttp.Handler, server *Server, p *Prompt) caddyhttp.Handler {
	return &recorder{next: next, server: server, site: s, prompt: p}
}

// ServeHTTP implements [caddyhttp.Handler].
func (f *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	x := f.server
	if p := f.prompt; !p.Side && p.View.Tools > 0 && p.View.System > 0 {
		httpx.Guard(f.site.Log, "looking at how a prompt begins", func() {
			key, target := p.key(), f.site.Upstream.Target(p.View.Format)
			p.prefix.Store(&prefix{key: key})
			// A known base needs no second copy of its body.
			if x.knows(key) {
				return
			}
			body, err := httpx.Outgoing(r, f.site.Upstream.MaxBody)
			if err != nil {
				return
			}
			if body, err = baseBody(target, body); err == nil && len(body) <= maxBaseBytes {
				p.prefix.Store(&prefix{key: key, body: body, path: r.URL.Path, target: target, salt: f.site.Upstream.CacheSalt(r)})
			}
		})
	}
	returned := false
	defer func() {
		if !returned && r.Context().Err() == nil { // cut amid the response
			x.gone()
		}
	}()
	err := f.next.ServeHTTP(w, r)
	returned = true
	if err != nil && r.Context().Err() == nil && unreachable(err) {
		x.gone()
	}
	return err
}

// Answered counts a use of the prompt's base after its answer. to returns the target for a body on
// the request's route. lost reports a cache miss.
func (x *Server) Answered(p *Prompt, now time.Time, lost bool, to func(body []byte) *selfrequest.Target) {
	f := p.prefix.Load()
	if f == nil {
		x.back(nil, lost)
		return
	}
	var b *base
	if f.body != nil {
		sum := sha256.New()
		sum.Write(tenant.AppendField(tenant.AppendField(tenant.AppendField(nil, p.View.Model), f.path), f.salt))
		sum.Write(f.body)
		b = &base{id: hex.EncodeToString(sum.Sum(nil)[:16]), to: to(f.body), target: f.target, path: f.path, owner: p.Tenant}
	}
	x.back(x.keep(f.key, b, now), lost)
}

func unreachable(err error) bool {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && (e.StatusCode == http.StatusBadGateway || e.StatusCode == http.StatusServiceUnavailable)
}

var errNoBase = errors.New("the request has no base that could be sent alone")

func baseBody(f wire.Format, body []byte) ([]byte, error) {
	members := []wire.Member{{Name: "stream", Value: []byte("false")}, {Name: "stream_options"}, {Name: "tool_choice"}}
	c, ok := f.Codec().(wire.Prefiller)
	if !ok {
		return nil, errNoBase
	}
	out, err := wire.Patch(body, append(members, c.Base(body)...)...)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	// The base outlives the request and must not share its memory.
	return bytes.Clone(out), nil
}

func (j *job) adapt(s *selfrequest.Site, r *http.Request) ([]byte, error) {
	path, query := j.base.path, r.URL.RawQuery
	if j.to.Client != j.base.target {
		translate.Headers(j.to.Client, j.base.target, r.Header, query)
		query = "" // upstreams with bases use no query
	}
	var body []byte
	if j.load {
		path, query, body = loadPath, "", loadBody(s.Upstream.Model(j.to.Model), j.every)
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = path, "", query
	r.URL, r.RequestURI = &u, u.RequestURI()
	caddyhttp.SetVar(r.Context(), "llm_slot", max(j.slot, 0))
	caddyhttp.SetVar(r.Context(), local.ReplicaVar, j.turn)
	return body, nil
}

// loadPath is the path of ollama's request to keep a model loaded.
const loadPath = "/api/generate"

// loadBody returns ollama's request to load a model.
func loadBody(model string, every time.Duration) []byte {
	// Twice the interval, so that a late request still finds the model loaded. The cache stays unchanged.
	return fmt.Appendf(nil, `{"model":%q,"keep_alive":"%ds"}`, model, int((2 * every).Seconds()))
}
