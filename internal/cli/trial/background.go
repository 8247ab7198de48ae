// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/localsite"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Background is the result of idle folding.
type Background struct {
	// Planned is the number of folds planned during responses. Finished counts the folds that the local
	// server had read before the next request, Broken those that were interrupted.
	Planned int `json:"planned"`
	// Finished: see Planned.
	Finished int `json:"finished"`
	// Broken: see Planned.
	Broken int `json:"broken"`
	// Processed is the number of tokens that the local server read for folds. Wasted estimates the
	// tokens that it read for interrupted ones.
	Processed int64 `json:"processed"`
	// Wasted: see Processed.
	Wasted int64 `json:"wasted"`
}

func (b *Background) add(o *Background) {
	b.Planned += o.Planned
	b.Finished += o.Finished
	b.Broken += o.Broken
	b.Processed += o.Processed
	b.Wasted += o.Wasted
}

func (o *Options) foldIdly(h *handler.Handler) {
	l, ok := h.Feature("local").(*localsite.Local)
	switch {
	case !ok:
		return
	case o.Background == 0:
		l.IdleFolding = nil
		return
	case l.IdleFolding == nil:
		l.IdleFolding = new(idlefold.Options)
	}
	if l.Queue == nil {
		l.Queue = new(local.Queue)
	}
}

// breaks counts a fold of so many tokens that the next request breaks off, and reports whether it does.
func (a *arm) breaks(tokens int) bool {
	b := &a.result.Background
	begun := a.clock.Now()
	needs := time.Duration(float64(tokens) / a.speed * float64(time.Second))
	if !begun.Add(needs).After(a.until) {
		return false
	}
	if had := a.until.Sub(begun); had > 0 {
		b.Broken++
		// The local server has read these tokens in vain.
		b.Wasted += int64(had.Seconds() * a.speed)
	}
	return true
}

const long = 60

func (r *Combination) writeBackground(w io.Writer) error {
	var all, longer Result
	for i := range r.Conversations {
		c := &r.Conversations[i]
		all.Add(c)
		if c.Calls > long {
			longer.Add(c)
		}
	}
	if all.Background.Planned == 0 {
		return nil
	}
	var s strings.Builder
	b := &all.Background
	fmt.Fprintf(&s, "while nobody waited: %d folds planned, %d held, %d broken off; %s read, %s in vain\n",
		b.Planned, b.Finished, b.Broken, thousands(b.Processed), thousands(b.Wasted))
	for _, p := range []struct {
		name string
		r    *Result
	}{{"all", &all}, {fmt.Sprintf("over %d requests", long), &longer}} {
		fmt.Fprintf(&s, "%s: %d requests, prompt tokens %s, read in front of people %s (%s), harm %.2f %% of %d\n",
			p.name, p.r.Calls,
			figure.Change(p.r.TokenRatio()), pair(fresh(p.r.Base), fresh(p.r.Sent)),
			figure.Change(Ratio(float64(fresh(p.r.Sent)), float64(fresh(p.r.Base)))), 100*p.r.Harm(), p.r.Edits)
	}
	_, err := io.WriteString(w, s.String())
	return err
}

func fresh(u wire.Usage) int64 { return u.Prompt() - u.Read }
