// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
)

// Expand configures the tool by which the model gets folded text back.
type Expand struct {
	// Mode is auto, on or off. On declares the tool in every conversation whose
	// first request offers tools. Auto does where these look like those of a
	// coding agent, tools and system prompt take 8,000 bytes or more, and the
	// upstream's cached prefix has a price: elsewhere conversations are hardly
	// folded, and the declaration costs more than it helps. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// Names are further names that a model may call the tool by. Where the
	// client itself offers a tool of one of these names, calls of it are
	// answered and nothing is declared. Default: cachelane:expand,
	// mcp__cachelane__expand.
	Names []string `json:"names,omitempty"`
	// Usage is what the client is told that a turn of several answers took:
	// summed, each of them in usage.iterations, or last: the prompt of the last,
	// and the output of all. Clients that read the usage as the length of their
	// context, and do not know iterations, sum up their conversation too early
	// by the sum. What was billed is on record in either case. Default: summed.
	Usage Usage `json:"usage,omitempty"`
}

// Usage is which usage a client is told.
type Usage string

// The usages. The empty Usage is Summed.
const (
	Summed Usage = "summed"
	Last   Usage = "last"
)

var defaultExpandNames = []string{"cachelane:expand", "mcp__cachelane__expand"}

// Known returns the further names that a model may call the tool by.
func (e *Expand) Known() []string {
	if e.Names == nil {
		return defaultExpandNames
	}
	return e.Names
}
