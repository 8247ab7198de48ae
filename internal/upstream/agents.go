// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

const (
	// DefaultAgentBlock is the default label of the memory block with the system prompt.
	DefaultAgentBlock = "system_prompt"
	// DefaultMaxAgents is the default number of agents kept in memory.
	DefaultMaxAgents = 100

	maxAgents = 100_000
)

// Agents configures a Letta server with the REST API (Letta Cloud or an old server): each
// conversation gets an agent.
type Agents struct {
	// Embedding is the embedding model of the agents' archival memory, such as
	// openai/text-embedding-3-small. Default: the server's default, which old servers lack.
	Embedding string `json:"embedding,omitempty"`
	// Block is the label of the memory block that holds the system prompt: letters, digits, "_" and
	// "-". Default: system_prompt.
	Block string `json:"block,omitempty"`
	// Tools are names of server tools that agents get, besides the tools for their own memory.
	// Default: none.
	Tools []string `json:"tools,omitempty"`
	// MaxAgents is how many agents the module keeps in memory. Over the limit, the tenant with the most
	// agents loses some first. Evicted agents stay at the server and are found there again.
	// Default: 100.
	MaxAgents int `json:"max_agents,omitempty"`
}

// label matches memory block labels, which are part of a URL path.
var label = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// validate returns an error for the first invalid option. Nil is valid.
func (a *Agents) validate(u *Upstream) error {
	switch {
	case a == nil:
		return nil
	case u.Preset != "letta" || u.Format != "":
		return errors.New("agents: only letta has them, and in no other format")
	case a.Block != "" && !label.MatchString(a.Block):
		return fmt.Errorf("agents: block: %q is not 1 to 64 letters, digits, _ and -", a.Block)
	case a.MaxAgents < 0 || a.MaxAgents > maxAgents:
		return fmt.Errorf("agents: max_agents must be between 1 and %d, got %d", maxAgents, a.MaxAgents)
	}
	return nil
}

// agents parses the options of agents:
//
//	agents {
//		embedding <model>
//		block     <label>
//		tools     <names...>
//		max_agents <number>
//	}
func (u *Upstream) agents(d *caddyfile.Dispenser) error {
	u.Agents = new(Agents)
	if err := u.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return option.Alone(d, "agents", option.Options{
		"embedding":  option.Word(&u.Agents.Embedding),
		"block":      option.Checked(option.Word(&u.Agents.Block), u.Validate),
		"tools":      option.AtLeastOne(option.Names(&u.Agents.Tools)),
		"max_agents": option.Checked(option.Count(&u.Agents.MaxAgents), u.Validate),
	})
}
