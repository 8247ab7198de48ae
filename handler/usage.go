// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// usageRequests asks for the usage of chat streams in place of clients that do not: without it, their
// cost is an estimate. The client gets the stream without the chunk that this adds.
type usageRequests struct {
	mu sync.Mutex
	// refused has pairs of tenant and model for which the upstream does not take the option. A tenant's upstream may
	// be the tenant's own.
	refused *lru.Cache[usageKey, struct{}, struct{}]
}

type usageKey struct{ tenant, model string }

// maxUsageKeys bounds the memory of refusals: a model is a name of the client's choice.
const maxUsageKeys = 1024

func (u *usageRequests) isRefused(k usageKey) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused != nil && u.refused.Get(k) != nil
}

func (u *usageRequests) refuse(k usageKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refused == nil {
		u.refused = lru.New(lru.Options[usageKey, struct{}, struct{}]{Pool: lru.NewPool[struct{}](maxUsageKeys)})
	}
	u.refused.Put(k, struct{}{}, struct{}{}, 1)
}

// asksForUsage reports whether the usage is asked for in place of the client.
func (o *site) asksForUsage(v *wire.View) bool {
	// Under observe nothing is added to requests. Sessions held out get the addition, as both groups need a usage.
	// llama.cpp tells its timings with the last chunk of a stream, unless that is the chunk of the usage.
	if !v.Traits().UsageOnRequest || o.up.Target(v.Format) != v.Format || o.records.policy == pipeline.Observe ||
		o.up.TellsTimings() {
		return false
	}
	return !gjson.GetBytes(v.Bytes(v.Reply.StreamOptions), "include_usage").Bool()
}

func (u *usageRequests) layer(next caddyhttp.Handler, p *passage) caddyhttp.Handler {
	k := usageKey{string(p.Tenant[:]), p.View.Model}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		additions := httpx.AdditionsOf(r.Context())
		if additions.Off.Has(wire.EditUsage) || u.isRefused(k) {
			return next.ServeHTTP(w, r)
		}
		body, err := httpx.OutgoingEdits(r, p.site.up.MaxBody)
		if err != nil || !httpx.Same(body.Raw, p.View.Raw) {
			return next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
		}
		out := askForUsage(body, p.View.Reply.StreamOptions)
		if out == nil {
			return next.ServeHTTP(w, r)
		}
		additions.Make(wire.EditUsage, func() { u.refuse(k) })
		defer httpx.SwapEdited(r, body.Raw, out)()
		if body.Parts() == 1 && p.View.Reply.StreamOptions.Empty() {
			httpx.SetView(r, p.View)
		}
		return next.ServeHTTP(w, r)
	})
}

// askForUsage returns the body of a chat request with the option, nil where it cannot take it. options has the client's
// own stream_options, empty for none.
func askForUsage(body *wire.Body, options rawjson.Span) *wire.Body {
	const option = `{"include_usage":true}`
	end := int32(bytes.LastIndexByte(body.Raw, '}'))
	cut := wire.Cut{Start: end, End: end, With: []byte(`,"stream_options":` + option)}
	if !options.Empty() {
		asks, err := wire.Patch(options.Of(body.Raw), wire.Member{Name: "include_usage", Value: []byte("true")})
		if err != nil { // null, or a value that the upstream will refuse in any case
			asks = []byte(option)
		}
		cut = wire.Cut{Start: options.Start, End: options.End, With: asks}
	}
	out, err := body.With(cut)
	if err != nil {
		return nil
	}
	return out
}

// newUsageFilter returns a writer that removes the chunks without choices that tell the usage of a chat stream.
func newUsageFilter(w http.ResponseWriter) *httpx.Editor {
	dropped := false // the event before
	return httpx.NewEditor(w, func(out []byte, e framing.Event) []byte {
		if dropped && string(e.Raw) == "\n" {
			return out // the framer ends an event at its \r
		}
		if dropped = tellsUsage(e.Data); dropped {
			return out
		}
		return append(out, e.Raw...)
	}, nil)
}

func tellsUsage(data []byte) bool {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return false
	}
	chunk := gjson.ParseBytes(data)
	choices := chunk.Get("choices")
	return choices.IsArray() && choices.Get("#").Int() == 0 && chunk.Get("usage").IsObject()
}
