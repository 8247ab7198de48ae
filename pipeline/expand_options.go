// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
)

// Expand configures the tool with which the model restores folded text.
type Expand struct {
	// Mode is auto, on or off. On declares the tool in every conversation with tools in its first
	// request. Auto declares it only for coding agents, with at least 8,000 bytes of tools and
	// system prompt, and an upstream with a price for cached tokens. Other conversations are hardly
	// folded, so the declaration would cost more than it saves. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// Names are further names of the tool that a model may call. If the client itself offers a tool
	// with one of these names, its calls are answered and no tool is declared. Default:
	// cachelane:expand, mcp__cachelane__expand.
	Names []string `json:"names,omitempty"`
	// Usage is the usage reported to the client for a turn with several responses. With summed it
	// is their sum, and usage.iterations lists each of them. With last it is the prompt of the last
	// response and the output of all. Choose last for clients that take the usage for the length of
	// their context and do not know iterations: the sum makes them summarize too early. The audit
	// records the billed usage in either case. Default: summed.
	Usage Usage `json:"usage,omitempty"`
}

// Usage selects the usage reported to a client.
type Usage string

// The values of Usage. The empty Usage is Summed.
const (
	Summed Usage = "summed"
	Last   Usage = "last"
)

var defaultExpandNames = []string{"cachelane:expand", "mcp__cachelane__expand"}

// Known returns the further names of the tool.
func (e *Expand) Known() []string {
	if e.Names == nil {
		return defaultExpandNames
	}
	return e.Names
}
