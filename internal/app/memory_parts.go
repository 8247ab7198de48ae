// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

func (a *App) setMemory() {
	budget := memory.Of(a.instance)
	budget.Set(a.Memory)
	for _, s := range state.Open(a.instance) {
		s.SetBudget(budget.Bytes())
	}
}

// partBytes returns the memory that a part takes in an instance and in all of its states.
func partBytes(i *shared.Instance, p memory.Part) int64 {
	sum := memory.Of(i).Used(p)
	for _, s := range state.Open(i) {
		sum += s.Used(p)
	}
	return sum
}

func healthOfMemory(i *shared.Instance) page.Health {
	budget := memory.Of(i)
	var sum int64
	var parts []string
	for _, p := range memory.Parts {
		n := partBytes(i, p)
		if sum += n; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s of %s", p.Name, humanize.IBytes(uint64(n)),
				humanize.IBytes(uint64(budget.Share(p)))))
		}
	}
	h := page.Health{Name: "Memory", State: page.OK, Note: fmt.Sprintf("%s of %s", humanize.IBytes(uint64(max(sum, 0))),
		humanize.IBytes(uint64(budget.Bytes())))}
	if len(parts) > 0 {
		h.Note += ": " + strings.Join(parts, ", ")
	}
	return h
}

func init() { // which keeps these out of the order in which variables begin
	metric.GaugeFunc("memory_budget_bytes", "Memory that all parts together may take.",
		func(i *shared.Instance) float64 { return float64(memory.Of(i).Bytes()) })
	for _, p := range memory.Parts {
		metric.GaugeFuncOf("memory_bytes", "Memory that a part of the budget takes, estimated.", "part", p.Name,
			func(i *shared.Instance) float64 { return float64(partBytes(i, p)) })
		metric.GaugeFuncOf("memory_limit_bytes", "Memory that a part of the budget may take.", "part", p.Name,
			func(i *shared.Instance) float64 { return float64(memory.Of(i).Share(p)) })
	}
}
