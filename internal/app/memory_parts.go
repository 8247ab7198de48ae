// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/origin"
)

// statePart is a part of the memory budget that each state has.
type statePart struct {
	memory.Part
	used  func(*State) int64
	limit func(*State, int64)
}

// stateParts are all of these.
var stateParts = []statePart{
	{memory.Sessions, func(s *State) int64 { return s.Stats().Bytes }, func(s *State, n int64) { s.SetMaxBytes(n) }},
	{memory.Overlays, func(s *State) int64 { return s.overlays.Bytes() }, func(s *State, n int64) { s.overlays.SetLimit(n) }},
	{memory.Retained, func(s *State) int64 { return s.Holds.Pool.Bytes() }, func(s *State, n int64) { s.Holds.Pool.SetLimit(n) }},
	{memory.Sockets, func(s *State) int64 { return s.Sockets.Held() }, func(s *State, n int64) { s.Sockets.SetLimit(n) }},
	{memory.Originals, func(s *State) int64 { return s.originals.Bytes() }, func(s *State, n int64) { s.originals.SetLimit(n) }},
	{memory.Answers, func(s *State) int64 { return s.Detached.Bytes() }, func(s *State, n int64) { s.Detached.SetLimit(n) }},
	{memory.Pings, func(s *State) int64 { return s.Keeper.Bytes() }, func(s *State, n int64) { s.Keeper.SetMemory(n) }},
	{memory.Bases, func(s *State) int64 { return s.Boxes.Bytes() }, func(s *State, n int64) { s.Boxes.SetLimit(n) }},
}

// processPart is a part of the memory budget that the process has once.
type processPart struct {
	memory.Part
	used  func() int64
	limit func(int64)
}

// processParts are all of these.
var processParts = []processPart{
	{memory.Bodies, budget.Bodies.Held, budget.Bodies.Resize},
	{memory.Origin, origin.Pool.Bytes, origin.Pool.SetLimit},
}

// setMemory gives the parts of a state their shares of the budget.
func (s *State) setMemory(budget int64) {
	for _, p := range stateParts {
		p.limit(s, p.Of(budget))
	}
}

// setMemory divides the configuration's memory budget. Entries beyond a smaller share give
// way at once, in the order in which they would anyway.
func (a *App) setMemory() {
	memory.SetBudget(a.Memory)
	for _, p := range processParts {
		p.limit(p.Share())
	}
	for _, s := range Open() {
		s.setMemory(memory.Budget())
	}
}

// partBytes is the memory that a part takes, of all open states.
func partBytes(name string) (sum int64) {
	for _, p := range processParts {
		if p.Name == name {
			sum += p.used()
		}
	}
	for _, p := range stateParts {
		if p.Name == name {
			for _, s := range Open() {
				sum += p.used(s)
			}
		}
	}
	return sum
}

// healthOfMemory says how much of the budget is used, and by which parts.
func healthOfMemory() page.Health {
	var sum int64
	var parts []string
	for _, p := range memory.Parts {
		n := partBytes(p.Name)
		if sum += n; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s of %s", p.Name, humanize.IBytes(uint64(n)), humanize.IBytes(uint64(p.Share()))))
		}
	}
	h := page.Health{Name: "Memory", State: page.OK, Note: fmt.Sprintf("%s of %s", humanize.IBytes(uint64(max(sum, 0))), humanize.IBytes(uint64(memory.Budget())))}
	if len(parts) > 0 {
		h.Note += ": " + strings.Join(parts, ", ")
	}
	return h
}

func init() { // which keeps these out of the order in which variables begin
	metric.GaugeFunc("memory_budget_bytes", "Memory that all parts together may take.", func() float64 { return float64(memory.Budget()) })
	for _, p := range memory.Parts {
		metric.GaugeFuncOf("memory_bytes", "Memory that a part of the budget takes, estimated.", "part", p.Name, func() float64 { return float64(partBytes(p.Name)) })
		metric.GaugeFuncOf("memory_limit_bytes", "Memory that a part of the budget may take.", "part", p.Name, func() float64 { return float64(p.Share()) })
	}
}
