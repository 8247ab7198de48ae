// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ExpandTool is the name of the tool with which a model restores folded text.
// It has the form of an MCP server's tools. With a token of a Claude plan, tools with names other
// than these and Claude Code's own are reported to be refused, or billed as extra usage
// (NousResearch/hermes-agent#46675).
const ExpandTool = "mcp__llm_cache__expand"

// expandDescription and expandSchema declare the tool to the model. Every request of a conversation
// contains them, in the same bytes.
const (
	expandDescription = "Returns the text behind [[llm_cache:folded ID ...]]. Give lines (\"10-80\") or pattern (a regular expression) for a part of it."
	maxDefinition     = 512 // bytes of the declaration, in any format
	expandSchema      = `{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}},"lines":{"type":"string"},"pattern":{"type":"string"}},"required":["ids"]}`
)

// expandTool says how a request handles the tool.
type expandTool uint8

const (
	expandNone     expandTool = iota
	expandDeclared            // declared by the pipeline
	expandOffered             // offered by the client, under one of the known names
)

// declare decides about the tool. A conversation keeps the decision of its first request until its
// cache is cold, even under other options.
func (r *request) declare() {
	o, l := &r.o.Expand, r.match.Lineage
	// A cold cache allows a new decision, unless thinking is bound to the old prompt.
	began := l != nil && !(r.cached.cold && !r.rules.BindsThinking)
	wants := began && l.Expand
	off := !wants && (o.Mode == stage.Off || !r.folds())
	if r.o.Policy == Observe || content.LastDefinition(r.View) < 0 || !hidden.Possible(r.View) {
		return
	}
	var bounds wire.ToolBounds
	if r.p.ToolBounds != nil {
		bounds = r.p.ToolBounds(r.View.Format)
	}
	offered, tools := false, 0
	for i := range content.Definitions(r.View) {
		name := r.View.Text(r.View.Blocks[i].Name)
		if name == ExpandTool {
			return // the tool of another proxy
		}
		// A translation takes the namespaces of tools apart.
		tools += content.OfferedTool(r.View, i, r.upstream != r.View.Format)
		offered = offered || !off && slices.Contains(o.Known(), name)
	}
	switch {
	case offered:
		r.offer.expand = expandOffered
		return
	case forced(r.View):
		return
	case !bounds.Room(tools, len(r.View.Raw)+maxDefinition, ExpandTool, expandDescription):
		// The upstream takes no further tool.
		r.offer.without = !began
		return
	}
	// For an unknown conversation, the request alone decides, so another process decides the same.
	if !began && !off {
		// Auto declares the tool for agents with long instructions, where cached tokens have a
		// price.
		wants = !r.orders.given.Cuts() && (o.Mode == stage.On || !refers(r.View) && r.rules.Regime != pricing.KV && instructions(r.View) >= minInstructions && content.ServesTools(r.View))
	}
	if r.offer.without = !began && !wants; wants {
		r.offer.expand = expandDeclared
	}
}

// keeps reports whether the conversation has the tool after this request.
func (f *offer) keeps(before bool) bool {
	// A request that forces a call or offers no tools goes without the tool, and leaves the
	// conversation's decision alone.
	return f.expand == expandDeclared || before && f.expand == expandNone && !f.without
}

// minInstructions is the minimum size of tools and system prompt, in bytes, of an agent with long
// conversations. For smaller ones, the declaration would be a noticeable part of the prompt.
const minInstructions = 8000

// instructions returns the size of the tools and the system prompt, in bytes.
func instructions(v *wire.View) (n int) {
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if b.Section == wire.SectionMessages && b.Role != wire.RoleSystem {
			break
		}
		n += b.Span.Len()
	}
	return n
}

// folds reports whether the options allow any folds.
func (r *request) folds() bool {
	return r.p.Compress != nil || r.o.Prune.Mode != stage.Off || r.o.Policy != Eager && (r.o.Planner.FoldInputs == nil || *r.o.Planner.FoldInputs)
}

// refers reports whether the next request may refer to this response instead of repeating the
// history. Such a history cannot be folded.
func refers(v *wire.View) bool { return v.Traits().KeepsAnswers && !v.Conversation.Stateless }

// forced reports whether the request forces a tool call, or wants the arguments of calls in pieces.
func forced(v *wire.View) bool {
	choice := v.Bytes(v.Reply.ToolChoice)
	if len(choice) == 0 {
		return false
	}
	codec := v.Format.Codec()
	return codec != nil && codec.ForcesCall(gjson.ParseBytes(choice))
}

// expandDefinition returns the declaration of the tool as an entry of tools.
func (r *request) expandDefinition() []byte {
	return hidden.DeclareTool(r.View.Format, ExpandTool, expandDescription, expandSchema)
}

// reinsert puts intercepted calls back into the client's copy of the last message.
func (r *request) reinsert() {
	l := r.match.Lineage
	if len(l.Said) == 0 && !l.Unsaid {
		return
	}
	message := r.said()
	if message < 0 {
		return
	}
	var edits []wire.Edit
	ok := !l.Unsaid
	if ok {
		edits, ok = hidden.Reinsert(r.View, message, l.Said)
	}
	if !ok {
		// The client has changed the message too much. It goes out as it is.
		r.lost = true
		if r.rules.BindsThinking {
			// The thinking in it is bound to the intercepted calls before it.
			r.forgetThinking(message)
		}
		return
	}
	for i := range edits {
		e := &edits[i]
		s := &r.States[e.Block-r.View.System]
		switch e.Op {
		case wire.OpReplace, wire.OpRemove:
			s.Edit = &sessioncache.Edit{Stage: stage.Expand, Op: e.Op, Value: e.Value}
		default:
			var inserts []sessioncache.Insert
			if s.Inserted != nil {
				inserts = s.Inserted.Inserts
			}
			s.Inserted = &sessioncache.Inserted{Inserts: append(inserts[:len(inserts):len(inserts)], sessioncache.Insert{Op: e.Op, Value: e.Value})}
		}
	}
}

// said returns the message that answers the last request, -1 if there is none.
func (r *request) said() int {
	for i := range r.View.Messages {
		m := &r.View.Messages[i]
		if m.Role == wire.RoleAssistant && int(m.First)-r.View.System >= r.match.Common {
			return i
		}
	}
	return -1
}

func (r *request) forgetThinking(message int) {
	m := &r.View.Messages[message]
	for i := int(m.First) - r.View.System; i < int(m.End)-r.View.System; i++ {
		if content.IsThinking(&r.Blocks[i]) && r.removable(i) {
			r.States[i].Edit = &sessioncache.Edit{Stage: stage.Expand, Op: wire.OpRemove}
		}
	}
}
