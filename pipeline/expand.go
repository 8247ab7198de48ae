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

// ExpandTool is the name of the tool by which a model gets folded text back.
// It has the form of an MCP server's tools: with a token of a Claude plan, requests with
// tools of other names than these and Claude Code's own are reported to be refused, or
// billed as extra usage (NousResearch/hermes-agent#46675).
const ExpandTool = "mcp__llm_cache__expand"

// expandDescription and expandSchema are what the model is told about the tool.
// Every request of a conversation carries them, in the same bytes.
const (
	expandDescription = "Returns the text behind [[llm_cache:folded ID ...]]. Give lines (\"10-80\") or pattern (a regular expression) for a part of it."
	maxDefinition     = 512 // bytes of the declaration, in any format
	expandSchema      = `{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}},"lines":{"type":"string"},"pattern":{"type":"string"}},"required":["ids"]}`
)

// expandTool says what a request does about the tool.
type expandTool uint8

const (
	expandNone     expandTool = iota
	expandDeclared            // put in by us
	expandOffered             // offered by the client, under one of the names
)

// declare decides about the tool. A conversation that began with it keeps it, whatever
// the options say by now, and one that began without goes on without, until its cache is
// cold. Where the upstream takes no further tool, a request goes without. For one that this process has not seen the request alone decides: a process that has
// forgotten it does the same again.
func (r *request) declare(m sessioncache.Match) {
	o := &r.o.Expand
	began := m.Lineage != nil && !(r.cached.cold && !r.rules.BindsThinking)
	wants := began && m.Lineage.Expand
	off := !wants && (o.Mode == stage.Off || !r.folds())
	if r.o.Policy == Observe || content.LastDefinition(r.View) < 0 || !hidden.Possible(r.View) {
		return
	}
	offered, tools := false, 0
	for i := range content.Definitions(r.View) {
		name := r.View.Text(r.View.Blocks[i].Name)
		if name == ExpandTool {
			return // another proxy's
		}
		tools += content.OfferedTool(r.View, i, r.offer.flat)
		offered = offered || !off && slices.Contains(o.Known(), name)
	}
	switch {
	case offered:
		r.offer.expand = expandOffered
		return
	case forced(r.View):
		return
	case !r.offer.bounds.Room(tools, len(r.View.Raw)+maxDefinition, ExpandTool, expandDescription):
		r.offer.without = !began
		return
	}
	if !began && !off {
		wants = !r.orders.given.Cuts() && (o.Mode == stage.On || !refers(r.View) && r.rules.Regime != pricing.KV && instructions(r.View) >= minInstructions && content.ServesTools(r.View))
	}
	if r.offer.without = !began && !wants; wants {
		r.offer.expand = expandDeclared
	}
}

// keeps reports whether the tool is part of a conversation after a request, of which it was
// part before or not. One that forces a call, or offers no tools, goes without it and
// leaves it to the conversation.
func (f *offer) keeps(before bool) bool {
	return f.expand == expandDeclared || before && f.expand == expandNone && !f.without
}

// minInstructions is the size in bytes of tools and system prompt from which an
// agent is expected to run long conversations: below, the declaration would be
// a noticeable part of the prompt.
const minInstructions = 8000

// instructions is the size of the tools and the system prompt.
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

// folds reports whether anything can be folded under the options.
func (r *request) folds() bool {
	return r.omission.words != nil || r.o.Prune.Mode != stage.Off || r.o.Policy != Eager && (r.o.Planner.FoldInputs == nil || *r.o.Planner.FoldInputs)
}

// refers reports whether the next request may refer to this one's answer in place
// of a history, which then cannot be folded.
func refers(v *wire.View) bool { return v.Traits().KeepsAnswers && !v.Conversation.Stateless }

// forced reports whether the request makes the model call a tool, or wants the
// arguments of its calls in pieces.
func forced(v *wire.View) bool {
	choice := v.Bytes(v.Reply.ToolChoice)
	if len(choice) == 0 {
		return false
	}
	codec := v.Format.Codec()
	return codec != nil && codec.ForcesCall(gjson.ParseBytes(choice))
}

// declaration is the edit that puts the tool behind the client's own.
func (r *request) declaration() (wire.Edit, bool) {
	if r.offer.expand != expandDeclared {
		return wire.Edit{}, false
	}
	return wire.Edit{Block: content.LastDefinition(r.View), Op: wire.OpAfter, Value: r.expandDefinition()}, true
}

// expandDefinition is the entry of tools that declares the tool.
func (r *request) expandDefinition() []byte {
	return hidden.DeclareTool(r.View.Format, ExpandTool, expandDescription, expandSchema)
}

// reinsert puts what was said on the way to the client's last message back in its
// place. Where the client has changed that message beyond recognition, it goes
// out as it is, without the thinking in it if that is bound to its past.
func (r *request) reinsert(m sessioncache.Match) {
	if m.Lineage == nil || len(m.Lineage.Said) == 0 && !m.Lineage.Unsaid {
		return
	}
	message := r.said(m.Common)
	if message < 0 {
		return
	}
	var edits []wire.Edit
	ok := !m.Lineage.Unsaid
	if ok {
		edits, ok = hidden.Reinsert(r.View, message, m.Lineage.Said)
	}
	if !ok {
		r.lost = true
		if r.rules.BindsThinking {
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

// said finds the message that answered the last request, -1 if there is none.
func (r *request) said(common int) int {
	for i := range r.View.Messages {
		m := &r.View.Messages[i]
		if m.Role == wire.RoleAssistant && int(m.First)-r.View.System >= common {
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

// insertions appends the insertions of all blocks, and the tool.
func (r *request) insertions(edits []wire.Edit) []wire.Edit {
	for i := range r.States {
		if w := r.States[i].Inserted; w != nil {
			for _, in := range w.Inserts {
				edits = append(edits, wire.Edit{Block: r.View.System + i, Op: in.Op, Value: in.Value})
			}
		}
	}
	if e, ok := r.declaration(); ok {
		edits = append(edits, e)
	}
	return edits
}

// withdraw takes the tool and everything hidden out of the request, except where
// thinking is bound to it.
func (r *request) withdraw(m sessioncache.Match) {
	if r.bound(m) {
		if !m.Lineage.Expand {
			r.offer.expand = expandNone
		}
		return
	}
	r.offer.expand = expandNone
	for i := range r.States {
		r.States[i].Inserted = nil
	}
}
