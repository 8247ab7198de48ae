// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// maxPlans bounds the credentials with a plan. Beyond it all begin anew.
const maxPlans = 1000

// plans are the subscriptions of credentials.
type plans struct {
	mu sync.Mutex
	of map[string]*[2]planWindow
}

// planWindow is one usage window. The one of a week is worth ten of those of five hours.
type planWindow struct {
	spent float64 // in US dollars
	ends  time.Time
}

var planWindows = [2]struct {
	claude, codex string
	length        time.Duration
	worth         float64
}{{"5h", "Primary", 5 * time.Hour, 1}, {"7d", "Secondary", 7 * 24 * time.Hour, 10}}

// charge writes the headers of a response about the windows of its credential, as they are before the
// response, and charges its cost.
func (p *plans) charge(h http.Header, f format, worth float64, c *query, credential string) {
	_, claude := f.(anthropic)
	_, codex := f.(responses)
	if !claude && !codex || worth <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	windows := p.of[credential]
	if windows == nil {
		if p.of == nil || len(p.of) >= maxPlans {
			p.of = map[string]*[2]planWindow{}
		}
		windows = new([2]planWindow)
		p.of[credential] = windows
	}
	cost := pricing.Lookup("", c.view.Model, c.at).Dollars(c.usage)
	status := "allowed"
	for i, kind := range planWindows {
		w := &windows[i]
		if !c.at.Before(w.ends) {
			*w = planWindow{ends: c.at.Add(kind.length)}
		}
		used, ends := w.spent/(worth*kind.worth), strconv.FormatInt(w.ends.Unix(), 10)
		w.spent += cost
		if codex {
			of := "X-Codex-" + kind.codex
			h.Set(of+"-Used-Percent", strconv.FormatFloat(math.Floor(100*used), 'f', -1, 64))
			h.Set(of+"-Window-Minutes", strconv.Itoa(int(kind.length.Minutes())))
			h.Set(of+"-Reset-At", ends)
			continue
		}
		of := "Anthropic-Ratelimit-Unified-" + kind.claude
		is := "allowed"
		if used >= 0.75 {
			is, status = "allowed_warning", "allowed_warning"
		}
		h.Set(of+"-Utilization", strconv.FormatFloat(math.Floor(100*used)/100, 'f', -1, 64))
		h.Set(of+"-Status", is)
		h.Set(of+"-Reset", ends)
	}
	if claude {
		h.Set("Anthropic-Ratelimit-Unified-Status", status)
		h.Set("Anthropic-Ratelimit-Unified-Representative-Claim", "five_hour")
	}
}
