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

// base is what many prompts of a box begin with: tools and system text, as they
// go upstream, with a message of one character behind.
type base struct {
	id     string
	target wire.Format         // the upstream's
	path   string              // the upstream's
	owner  sessioncache.Tenant // whose request it came with first

	// What follows changes under the lock of the box.

	to    *selfrequest.Target // with the body
	uses  float64             // counted half after a day
	used  time.Time
	saved time.Time // when it was last written to disk
}

// mostBaseBytes bounds a base.
const mostBaseBytes = 4 << 20

// halfLife is the time after which a use of a base counts half.
const halfLife = 24 * time.Hour

// use counts a use of the base.
func (b *base) use(now time.Time) {
	b.uses, b.used = b.worth(now)+1, now
}

// worth is the number of uses, those of long ago counted less.
func (b *base) worth(now time.Time) float64 {
	return b.uses * math.Exp2(-float64(now.Sub(b.used))/float64(halfLife))
}

// prefixKey names the tools and system text that a client sends, and whose they
// are.
type prefixKey [sha256.Size]byte

// Prompt is a request whose prompt may begin with a base.
type Prompt struct {
	// Tenant is whose it is, and View what the client sent.
	Tenant sessioncache.Tenant
	// View: see Tenant.
	View *wire.View
	// Side: the client says that it asks on the side. How that begins is not recorded.
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

// prefix is how a prompt begins.
type prefix struct {
	key    prefixKey
	body   []byte // nil if it is known already
	path   string
	target wire.Format
	salt   string // of the engine's cache
}

// recorder looks, behind the overlay, at how prompts begin, and whether the box
// is there.
type recorder struct {
	next   caddyhttp.Handler
	box    func() *Box
	site   *Site
	prompt *Prompt
}

// Layer returns next with a look at the request before it.
func (s *Site) Layer(next caddyhttp.Handler, box func() *Box, p *Prompt) caddyhttp.Handler {
	return &recorder{next: next, box: box, site: s, prompt: p}
}

// ServeHTTP implements [caddyhttp.Handler].
func (f *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	x := f.box()
	if p := f.prompt; !p.Side && p.View.Tools > 0 && p.View.System > 0 {
		httpx.Guard(f.site.Log, "looking at how a prompt begins", func() {
			key, target := p.key(), f.site.Upstream.Target(p.View.Format)
			p.prefix.Store(&prefix{key: key})
			if x.knows(key) {
				return
			}
			body, err := httpx.Outgoing(r, f.site.Upstream.MaxBody)
			if err != nil {
				return
			}
			if body, err = baseBody(target, body); err == nil && len(body) <= mostBaseBytes {
				p.prefix.Store(&prefix{key: key, body: body, path: r.URL.Path, target: target, salt: f.site.Upstream.CacheSalt(r)})
			}
		})
	}
	returned := false
	defer func() {
		if !returned && r.Context().Err() == nil { // cut in the middle
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

// Answered counts a use of the prompt's base, now that it was answered; to makes what is
// needed to send a body the way that it took. lost says that the box had not held what
// it should have.
func (x *Box) Answered(p *Prompt, now time.Time, lost bool, to func(body []byte) *selfrequest.Target) {
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

// unreachable reports whether an error says that the upstream is not there.
func unreachable(err error) bool {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && (e.StatusCode == http.StatusBadGateway || e.StatusCode == http.StatusServiceUnavailable)
}

var errNoBase = errors.New("the request has no base that could be sent alone")

// baseBody makes a request for one token that begins as a request does.
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
	return bytes.Clone(out), nil
}

// adapt makes the request what the box behind the site is to get.
func (j *job) adapt(s *selfrequest.Site, r *http.Request) ([]byte, error) {
	path, query := j.base.path, r.URL.RawQuery
	if j.to.Client != j.base.target {
		translate.Headers(j.to.Client, j.base.target, r.Header, query)
		query = "" // which is what upstreams that have bases are asked by
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

// loadPath is where ollama is told how long to keep a model.
const loadPath = "/api/generate"

// loadBody has ollama load a model and keep it for twice the time to the next
// such request. It touches no cache.
func loadBody(model string, every time.Duration) []byte {
	return fmt.Appendf(nil, `{"model":%q,"keep_alive":"%ds"}`, model, int((2 * every).Seconds()))
}
