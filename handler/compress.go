// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// words compresses texts after answers, by leaving words out. Results are kept with the folded texts,
// under the hash of the block.
type words struct {
	options *compressor.Options
	worker  *compressor.Worker
	name    string
	stage   *pipeline.Compress
}

// leaveOut sets the stage up, where there is a worker.
func (o *site) leaveOut(options *compressor.Options) {
	worker := options.Worker()
	if worker == nil {
		return
	}
	w := &words{options, worker, options.Name(), options.Stage()}
	w.stage.Find = func(s *sessioncache.Session, block wire.Hash) (pipeline.Shortened, bool) {
		text, ok := o.store.Blocks.Get(s, block, w.name)
		if !ok {
			return pipeline.Shortened{}, false
		}
		return unpack(text)
	}
	o.words, o.pipe.Compress = w, w.stage
}

// arrives tells the worker that a request is there, or over.
func (w *words) arrives() {
	if w != nil {
		w.worker.Touch()
	}
}

// leaveOut has the worker look at the texts of the request, once it was answered.
func (x *exchange) leaveOut() {
	w := x.site.words
	if w == nil || !x.ended() || x.resent {
		return
	}
	x.site.guard("looking for prose", func() {
		s, blocks := x.session, x.site.store.Blocks
		x.edit.Unread(func(block wire.Hash, text string) bool {
			j := compressor.Job{
				ID: compressor.ID{Session: s.ID(), Block: block}, Tenant: x.tenant, Text: text,
				Done: func(r pipeline.Shortened) { blocks.Put(s, block, w.name, pack(r)) },
			}
			w.options.Fill(&j)
			return w.worker.Offer(j)
		})
	})
	w.worker.Touch()
}

// pack encodes a result: the milliseconds it took, and the text.
func pack(r pipeline.Shortened) string {
	return strconv.FormatInt(r.Took.Milliseconds(), 10) + "\n" + r.Text
}

// unpack is the inverse of pack.
func unpack(s string) (pipeline.Shortened, bool) {
	ms, text, ok := strings.Cut(s, "\n")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return pipeline.Shortened{}, false
	}
	return pipeline.Shortened{Text: text, Took: time.Duration(n) * time.Millisecond}, true
}
