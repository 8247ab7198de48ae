// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// CaddyModule returns the Caddy module information.
func (Options) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.llm_cache.compress", New: func() caddy.Module { return new(Options) }}
}

func init() { caddy.RegisterModule(Options{}) }

// Interface guards
var (
	_ feature.Feature    = (*Options)(nil)
	_ caddy.Provisioner  = (*Options)(nil)
	_ caddy.Validator    = (*Options)(nil)
	_ caddy.CleanerUpper = (*Options)(nil)
)

// CaddyfileOptions implements [feature.Feature].
func (o *Options) CaddyfileOptions() option.Options {
	return option.Options{"compress": option.Into(o)}
}

// Open implements [feature.Feature]: texts are shortened after answers, and results are kept with the
// folded texts, under the hash of the block.
func (o *Options) Open(s *feature.Site) (*feature.Part, error) {
	w := o.worker
	if w == nil {
		return new(feature.Part), nil
	}
	stage, name := o.stage(), o.name()
	stage.Find = func(x *sessioncache.Session, block wire.Hash) (pipeline.Shortened, bool) {
		text, ok := s.State.Blocks.Get(x, block, name)
		if !ok {
			return pipeline.Shortened{}, false
		}
		return unpack(text)
	}
	s.Pipeline.Compress = stage
	return &feature.Part{
		Arrive: w.Touch,
		Answered: func(a *feature.Answered) (goesOn bool) {
			if a.Err != nil || a.Resent {
				return false
			}
			httpx.Guard(s.Log, "looking for prose", func() {
				a.Edit.Unread(func(block wire.Hash, text string) bool {
					return w.Offer(Job{
						ID: ID{Session: a.Session, Block: block}, Tenant: a.Tenant, Text: text,
						Rate: o.rate(), MinChars: cmp.Or(o.MinChars, defaultMinChars),
						Done: func(r pipeline.Shortened) { s.State.Blocks.Put(a.SessionState, block, name, pack(r)) },
					})
				})
			})
			w.Touch()
			return false
		},
		Health: func() any { return w.Health() },
	}, nil
}

// pack encodes a result: the milliseconds it took, and the text.
func pack(r pipeline.Shortened) string {
	return strconv.FormatInt(r.Took.Milliseconds(), 10) + "\n" + r.Text
}

func unpack(s string) (pipeline.Shortened, bool) {
	ms, text, ok := strings.Cut(s, "\n")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return pipeline.Shortened{}, false
	}
	return pipeline.Shortened{Text: text, Took: time.Duration(n) * time.Millisecond}, true
}
