// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// prompt is a request as a provider renders it. Its slices have one element for each position.
type prompt struct {
	view  *wire.View
	block []int32     // index in view.Blocks
	chain []wire.Hash // hash of the prefix that ends here
	total []int64     // tokens of that prefix
}

// render builds the prompt of a view without the blocks marked in drop. known caches token counts and may be nil.
func render(v *wire.View, r Rules, drop []bool, known counts) *prompt {
	n := len(v.Blocks)
	p := &prompt{view: v, block: make([]int32, 0, n), chain: make([]wire.Hash, 0, n), total: make([]int64, 0, n)}
	prefix, tokens := seed(v, r), int64(0)
	stripped := strippedBefore(v, r)
	attributed, omits := v.Attributed(), r.OmitsAttribution(v)
	for i := range v.Blocks {
		// Options that change the rendering of messages leave the caches of tools and system valid.
		if i == v.System {
			prefix = link(prefix, salt(v, r))
		}
		b := &v.Blocks[i]
		// Deferred tools are no part of the prompt, and the rules may exclude the thinking of finished turns.
		if b.Has(wire.FlagDeferred) || drop != nil && drop[i] || b.IsThinking() && int(b.Message) < stripped {
			continue
		}
		hash := b.Hash
		if attributed && i == v.Tools {
			if omits {
				continue
			}
			hash = hashOf(v.Text(b.Body)) // other providers read it as text
		}
		prefix = link(prefix, hash)
		tokens += int64(known.of(v, b))
		p.block = append(p.block, int32(i))
		p.chain = append(p.chain, prefix)
		p.total = append(p.total, tokens)
	}
	return p
}

// OmitsAttribution reports whether the provider removes Claude Code's attribution, the first block of the system
// prompt.
func (r Rules) OmitsAttribution(v *wire.View) bool { return r.Regime == Markers && v.Attributed() }

func (p *prompt) tokens(n int) int64 {
	if n == 0 {
		return 0
	}
	return p.total[n-1]
}

func (p *prompt) size() int64 { return p.tokens(len(p.total)) }

// sameRun reports whether positions i and i+1 are in one run of tool calls or results.
func (p *prompt) sameRun(i int) bool {
	a, b := p.view.Blocks[p.block[i]].Kind, p.view.Blocks[p.block[i+1]].Kind
	return a == b && a.Collapses()
}

func link(chain, block wire.Hash) wire.Hash {
	var b [2 * len(chain)]byte
	copy(b[:], chain[:])
	copy(b[len(chain):], block[:])
	sum := sha256.Sum256(b[:])
	return wire.Hash(sum[:len(chain)])
}

func hashOf(parts ...string) wire.Hash {
	h := sha256.New()
	for _, s := range parts {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return wire.Hash(h.Sum(nil)[:len(wire.Hash{})])
}

// seed is the start of a prompt's chain.
func seed(v *wire.View, r Rules) wire.Hash {
	if r.Regime == Automatic || r.Regime == Breakpoints {
		// Requests go to machines by the client's cache key, and each machine has a cache of its own.
		return hashOf(v.Session)
	}
	return wire.Hash{}
}

// salt hashes the options that change the rendering of messages, but not of tools and system.
func salt(v *wire.View, r Rules) wire.Hash {
	// A local engine sees the prompt only, and so do some APIs.
	if r.Regime == KV || v.Traits().OptionsOutsidePrompt {
		return wire.Hash{}
	}
	images := ""
	// The first image invalidates the messages' cache entries (Claude docs, prompt caching).
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Kind == wire.KindImage || b.Has(wire.FlagMedia) {
			images = "images"
			break
		}
	}
	choice := ""
	// OpenAI's guide does not name the choice of tools among the causes of a miss (prompt caching, "diagnostics").
	if v.Traits().NoCalls == "" {
		choice = compact(v, v.Reply.ToolChoice)
	}
	return hashOf(choice, compact(v, v.Reply.Thinking), output(v), compact(v, v.Conversation.ContextManagement), images)
}

// output is the output_config, empty for the default.
func output(v *wire.View) string {
	s := compact(v, v.Reply.OutputConfig)
	// high is the default effort, so naming it changes nothing.
	if s == `{"effort":"high"}` || s == `{}` || s == `null` {
		return ""
	}
	return s
}

func compact(v *wire.View, s rawjson.Span) string {
	if s.Empty() {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, s.Of(v.Raw)) != nil {
		return v.Text(s)
	}
	return b.String()
}

// strippedBefore returns the index of the message before which the provider itself omits thinking.
func strippedBefore(v *wire.View, r Rules) int {
	if r.KeepsThinking || r.Regime == KV {
		return 0
	}
	// Thinking lasts to the end of its turn, and a person's prompt begins the next one.
	return lastPrompt(v)
}

// lastPrompt returns the index of the last user message without a tool result, 0 for none.
func lastPrompt(v *wire.View) int {
	for m := len(v.Messages) - 1; m > 0; m-- {
		if v.Messages[m].Role == wire.RoleUser && !answersTool(v, m) {
			return m
		}
	}
	return 0
}

func answersTool(v *wire.View, message int) bool {
	msg := &v.Messages[message]
	for i := msg.First; i < msg.End; i++ {
		if k := v.Blocks[i].Kind; k == wire.KindToolResult || k == wire.KindProgram {
			return true
		}
	}
	return false
}

func member(v *wire.View, s rawjson.Span, name string) string {
	if s.Empty() {
		return ""
	}
	return gjson.GetBytes(s.Of(v.Raw), name).Str
}
