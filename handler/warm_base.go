// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/box"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// base is what many prompts of a box begin with: tools and system text, as they
// go upstream, with a message of one character behind.
type base struct {
	id             string
	client, target wire.Format
	path           string // the upstream's
	model          string
	owner          sessioncache.Tenant // whose request it came with first

	// What follows changes under the lock of the box.

	way   *lastRequest // with the body
	uses  float64      // counted half after a day
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

// frontKey names the tools and system text that a client sends, and whose they
// are.
type frontKey [sha256.Size]byte

func (c *call) frontKey() (key frontKey) {
	sum := sha256.New()
	sum.Write(tenant.AppendField(c.tenant[:], c.view.Model))
	for i := range c.view.Blocks[:c.view.System] {
		h := c.view.Blocks[i].Hash
		sum.Write(h[:])
	}
	sum.Sum(key[:0])
	return key
}

// fronting looks, behind the overlay, at how prompts begin, and whether the box
// is there.
type fronting struct {
	h      *Handler
	next   caddyhttp.Handler
	call   *call
	format wire.Format // the upstream's
}

// fronting returns next with a look at the request before it, or next itself
// where no base is kept warm.
func (h *Handler) fronting(next caddyhttp.Handler, client wire.Format, c *call) caddyhttp.Handler {
	if h.Warm == nil {
		return next
	}
	return &fronting{h: h, next: next, call: c, format: h.up.Target(client)}
}

// ServeHTTP implements caddyhttp.Handler.
func (f *fronting) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	x, c := f.h.warmer(), f.call
	if c.view.Tools > 0 && c.view.System > 0 && !isSide(r.Header) {
		f.h.guard("looking at how a prompt begins", func() {
			key := c.frontKey()
			c.front.Store(&front{key: key})
			if x.knows(key) {
				return
			}
			body, err := layer.Outgoing(r, f.h.MaxBody)
			if err != nil {
				return
			}
			if body, err = baseBody(f.format, body); err == nil && len(body) <= mostBaseBytes {
				c.front.Store(&front{key: key, body: body, path: r.URL.Path, target: f.format})
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

// front is how the prompt of a call begins.
type front struct {
	key    frontKey
	body   []byte // nil if it is known already
	path   string
	target wire.Format
}

// remember counts a use of the call's base once it was answered. r must be as it
// came.
func (c *call) remember(r *http.Request) {
	if c.h.Warm == nil || c.turn == nil || !c.turn.Done || c.turn.Failed() {
		return
	}
	x := c.h.warmer()
	f := c.front.Load()
	c.h.guard("remembering how a prompt begins", func() {
		lost := c.h.Upstream.Reports() && c.ex.Vanished(c.turn)
		if f == nil {
			x.back(nil, lost)
			return
		}
		var b *base
		if f.body != nil {
			sum := sha256.New()
			sum.Write(tenant.AppendField(tenant.AppendField(nil, c.view.Model), f.path))
			sum.Write(f.body)
			b = &base{id: hex.EncodeToString(sum.Sum(nil)[:16]), way: c.way(r, f.body), client: c.view.Format, target: f.target, path: f.path, model: c.view.Model, owner: c.tenant}
		}
		x.back(x.keep(f.key, b, c.h.now()), lost)
	})
}

// unreachable tells whether an error says that the upstream is not there.
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

// deliver hands a warm-up on to the box that it came to.
func (j *job) deliver(h *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.Warm == nil {
		return caddyhttp.Error(http.StatusNotFound, errUnreached)
	}
	b := j.base
	path, query := b.path, r.URL.RawQuery
	if b.client != b.target {
		translate.Headers(b.client, b.target, r.Header, query)
		query = "" // which is what upstreams that have bases are asked by
	}
	var body []byte
	if j.loads() {
		path, query, body = loadPath, "", loadBody(h.Upstream.Model(b.model), h.Warm.every(h.Upstream.Preset))
	} else {
		var err error
		if body, err = layer.Decode("zstd", j.way.body, largestMaxBody, nil); err != nil {
			return caddyhttp.Error(http.StatusInternalServerError, err)
		}
		next = (&passage{h: h, errand: warming, format: b.client}).through(next)
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = path, "", query
	r.URL, r.RequestURI = &u, u.RequestURI()
	layer.SetBody(r, body)
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	layer.AskPlain(r.Header)
	caddyhttp.SetVar(r.Context(), "llm_slot", max(j.slot, 0))
	caddyhttp.SetVar(r.Context(), box.ReplicaVar, j.turn)
	return next.ServeHTTP(w, r)
}

// loadPath is where ollama is told how long to keep a model.
const loadPath = "/api/generate"

// loadBody has ollama load a model and keep it for twice the time to the next
// such request. It touches no cache.
func loadBody(model string, every time.Duration) []byte {
	return fmt.Appendf(nil, `{"model":%q,"keep_alive":"%ds"}`, model, int((2 * every).Seconds()))
}
