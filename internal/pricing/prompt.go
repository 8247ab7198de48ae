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

// prompt is a request as a provider renders it: the blocks that count, one
// chained hash for each prefix that ends with one, and the tokens up to there.
type prompt struct {
	view *wire.View
	// block holds, for each position, the index in view.Blocks.
	block []int32
	// chain holds, for each position, the hash of the prefix that ends with it.
	chain []wire.Hash
	// total holds, for each position, the tokens of that prefix.
	total []int64
}

// render builds the prompt of a view. Blocks for which drop holds true are left
// out, as are deferred tools and, where the rules say so, the thinking of
// finished turns and what Claude Code tells of itself. known, if not nil, holds
// what blocks were counted, and learns it.
func render(v *wire.View, r Rules, drop []bool, known counts) *prompt {
	n := len(v.Blocks)
	p := &prompt{view: v, block: make([]int32, 0, n), chain: make([]wire.Hash, 0, n), total: make([]int64, 0, n)}
	prefix, tokens := seed(v, r), int64(0)
	stripped := strippedBefore(v, r)
	attributed, omits := v.Attributed(), r.OmitsAttribution(v)
	for i := range v.Blocks {
		if i == v.System {
			prefix = link(prefix, salt(v, r))
		}
		b := &v.Blocks[i]
		if b.Has(wire.FlagDeferred) || drop != nil && drop[i] || isThinking(b) && int(b.Message) < stripped {
			continue
		}
		hash := b.Hash
		if attributed && i == v.Tools {
			if omits {
				continue
			}
			hash = hashOf(v.Text(b.Body)) // what is not Anthropic reads it
		}
		prefix = link(prefix, hash)
		tokens += int64(known.of(v, b))
		p.block = append(p.block, int32(i))
		p.chain = append(p.chain, prefix)
		p.total = append(p.total, tokens)
	}
	return p
}

// OmitsAttribution reports whether the provider takes the first block of a request's
// system prompt out, in which Claude Code tells of itself.
func (r Rules) OmitsAttribution(v *wire.View) bool { return r.Regime == Markers && v.Attributed() }

// tokens returns the length of the first n positions.
func (p *prompt) tokens(n int) int64 {
	if n == 0 {
		return 0
	}
	return p.total[n-1]
}

// size returns the length of the whole prompt.
func (p *prompt) size() int64 { return p.tokens(len(p.total)) }

// sameRun reports whether position i+1 belongs to the run of tool calls or tool
// results that position i is in.
func (p *prompt) sameRun(i int) bool {
	a, b := p.view.Blocks[p.block[i]].Kind, p.view.Blocks[p.block[i+1]].Kind
	return a == b && a.Collapses()
}

// link returns the hash of a chain with one more block.
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

// seed is what stands before the first block: where the provider sends requests
// to machines by a key that the client gives, the key.
func seed(v *wire.View, r Rules) wire.Hash {
	if r.Regime == Automatic || r.Regime == Breakpoints {
		return hashOf(v.Session)
	}
	return wire.Hash{}
}

// salt hashes the members of the request that change how the messages are
// rendered, but neither tools nor system: tool_choice, thinking, effort and the
// output's form, context management, and whether there are images at all. A local
// engine knows nothing but the prompt, and so do some APIs. OpenAI's choice of tools is
// not among the causes that it names for a prefix that was not found (prompt caching
// guide, "diagnostics").
func salt(v *wire.View, r Rules) wire.Hash {
	if r.Regime == KV || v.Traits().OptionsOutsidePrompt {
		return wire.Hash{}
	}
	images := ""
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Kind == wire.KindImage || b.Has(wire.FlagMedia) {
			images = "images"
			break
		}
	}
	choice := ""
	if v.Traits().NoCalls == "" {
		choice = compact(v, v.Reply.ToolChoice)
	}
	return hashOf(choice, compact(v, v.Reply.Thinking), output(v), compact(v, v.Conversation.ContextManagement), images)
}

// output is the output_config without an effort that says what is the default.
func output(v *wire.View) string {
	s := compact(v, v.Reply.OutputConfig)
	if s == `{"effort":"high"}` || s == `{}` || s == `null` {
		return ""
	}
	return s
}

// compact returns the value of a span without white space between its tokens.
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

func isThinking(b *wire.Block) bool {
	return b.Kind == wire.KindThinking || b.Kind == wire.KindRedactedThinking
}

// strippedBefore returns the index of the message before which the provider
// itself leaves thinking out: the last one by a person.
func strippedBefore(v *wire.View, r Rules) int {
	if r.KeepsThinking || r.Regime == KV {
		return 0
	}
	return lastPrompt(v)
}

// lastPrompt returns the index of the last user message that holds no tool
// result, 0 if there is none.
func lastPrompt(v *wire.View) int {
	for m := len(v.Messages) - 1; m > 0; m-- {
		if v.Messages[m].Role == wire.RoleUser && !answersTool(v, m) {
			return m
		}
	}
	return 0
}

// answersTool reports whether a message holds a tool result.
func answersTool(v *wire.View, message int) bool {
	msg := &v.Messages[message]
	for i := msg.First; i < msg.End; i++ {
		if k := v.Blocks[i].Kind; k == wire.KindToolResult || k == wire.KindProgram {
			return true
		}
	}
	return false
}

// member returns the string member of a JSON object in a span, empty if absent.
func member(v *wire.View, s rawjson.Span, name string) string {
	if s.Empty() {
		return ""
	}
	return gjson.GetBytes(s.Of(v.Raw), name).Str
}
