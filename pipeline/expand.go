// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// ExpandTool is the name of the tool by which a model gets folded text back.
const ExpandTool = "llm_cache_expand"

// expandDescription and expandSchema are what the model is told about the tool.
// Every request of a conversation carries them, in the same bytes.
const (
	expandDescription = "Returns the text behind [[llm_cache:folded ID ...]]. Give lines (\"10-80\") or pattern (a regular expression) for a part of it."
	expandSchema      = `{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}},"lines":{"type":"string"},"pattern":{"type":"string"}},"required":["ids"]}`
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

// names returns the further names.
func (e *Expand) names() []string {
	if e.Names == nil {
		return defaultExpandNames
	}
	return e.Names
}

// expandTool says what a request does about the tool.
type expandTool uint8

const (
	expandNone     expandTool = iota
	expandDeclared            // put in by us
	expandOffered             // offered by the client, under one of the names
)

// declare decides about the tool. A conversation that began with it keeps it,
// and one that began without goes on without, until its cache is cold. For one
// that this process has not seen the request alone decides: a process that has
// forgotten it does the same again.
func (f *frame) declare(m sessioncache.Match) {
	o := &f.o.Expand
	if o.Mode == stage.Off || f.policy == Observe || lastTool(f.View) < 0 || !f.View.HidesCalls() || !f.folds() {
		return
	}
	offered := false
	for i := range toolDefs(f.View) {
		name := f.View.Text(f.View.Blocks[i].Name)
		if name == ExpandTool {
			return // another proxy's
		}
		offered = offered || slices.Contains(o.names(), name)
	}
	switch {
	case offered:
		f.expand = expandOffered
		return
	case forced(f.View):
		return
	}
	var wants bool
	if l := m.Lineage; l != nil && !(f.cold && !f.rules.BindsThinking) {
		wants = l.Expand
	} else {
		wants = o.Mode == stage.On || !refers(f.View) && f.rules.Regime != cachemodel.KV && instructions(f.View) >= minInstructions && serves(f.View)
	}
	if wants {
		f.expand = expandDeclared
	}
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

// folds tells whether anything can be folded under the options.
func (f *frame) folds() bool {
	return f.o.Prune.Mode != stage.Off || f.policy != Eager && (f.o.Planner.FoldInputs == nil || *f.o.Planner.FoldInputs)
}

// refers tells whether the next request may refer to this one's answer in place
// of a history, which then cannot be folded.
func refers(v *wire.View) bool { return v.Traits().KeepsAnswers && !v.Stateless }

// forced tells whether the request makes the model call a tool, or wants the
// arguments of its calls in pieces.
func forced(v *wire.View) bool {
	choice := v.Bytes(v.ToolChoice)
	if len(choice) == 0 {
		return false
	}
	codec := v.Format.Codec()
	return codec != nil && codec.ForcesCall(gjson.ParseBytes(choice))
}

// declaration is the edit that puts the tool behind the client's own.
func (f *frame) declaration() (wire.Edit, bool) {
	if f.expand != expandDeclared {
		return wire.Edit{}, false
	}
	value := wire.DeclareTool(f.View.Format, ExpandTool, expandDescription, expandSchema)
	return wire.Edit{Block: lastTool(f.View), Op: wire.OpAfter, Value: value}, true
}

// weave puts what was said on the way to the client's last message back in its
// place. Where the client has changed that message beyond recognition, it goes
// out as it is, without the thinking in it if that is bound to its past.
func (f *frame) weave(m sessioncache.Match) {
	if m.Lineage == nil || len(m.Lineage.Said) == 0 {
		return
	}
	message := f.said(m.Common)
	if message < 0 {
		return
	}
	edits, ok := wire.Weave(f.View, message, m.Lineage.Said)
	if !ok {
		f.unwoven = true
		if f.rules.BindsThinking {
			f.forgetThinking(message)
		}
		return
	}
	for i := range edits {
		e := &edits[i]
		s := &f.States[e.Block-f.View.System]
		switch e.Op {
		case wire.OpReplace, wire.OpRemove:
			s.Edit = &sessioncache.Edit{Stage: stage.Expand, Op: e.Op, Value: e.Value}
		default:
			var inserts []sessioncache.Insert
			if s.Woven != nil {
				inserts = s.Woven.Inserts
			}
			s.Woven = &sessioncache.Woven{Inserts: append(inserts[:len(inserts):len(inserts)], sessioncache.Insert{Op: e.Op, Value: e.Value})}
		}
	}
}

// said finds the message that answered the last request, -1 if there is none.
func (f *frame) said(common int) int {
	for i := range f.View.Messages {
		m := &f.View.Messages[i]
		if m.Role == wire.RoleAssistant && int(m.First)-f.View.System >= common {
			return i
		}
	}
	return -1
}

func (f *frame) forgetThinking(message int) {
	m := &f.View.Messages[message]
	for i := int(m.First) - f.View.System; i < int(m.End)-f.View.System; i++ {
		if history.IsThinking(&f.Blocks[i]) && f.removable(i) {
			f.States[i].Edit = &sessioncache.Edit{Stage: stage.Expand, Op: wire.OpRemove}
		}
	}
}

// woven appends the insertions of all blocks, and the tool.
func (f *frame) woven(edits []wire.Edit) []wire.Edit {
	for i := range f.States {
		if w := f.States[i].Woven; w != nil {
			for _, in := range w.Inserts {
				edits = append(edits, wire.Edit{Block: f.View.System + i, Op: in.Op, Value: in.Value})
			}
		}
	}
	if e, ok := f.declaration(); ok {
		edits = append(edits, e)
	}
	return edits
}

// unweave takes the tool and everything hidden out of the request, except where
// thinking is bound to it.
func (f *frame) unweave(m sessioncache.Match) {
	l := m.Lineage
	if f.rules.BindsThinking && l != nil && !l.Observed {
		if !l.Expand {
			f.expand = expandNone
		}
		return
	}
	f.expand = expandNone
	for i := range f.States {
		f.States[i].Woven = nil
	}
}

// CallsExpand tells whether calls of a tool are answered on the way, in this
// conversation.
func (x *Exchange) CallsExpand(name string) bool {
	switch {
	case !x.Intercepts():
		return false
	case name == ExpandTool:
		return x.frame.expand == expandDeclared
	}
	return slices.Contains(x.frame.o.Expand.names(), name)
}

// Intercepts tells whether the answer may hold calls that are answered on the
// way.
func (x *Exchange) Intercepts() bool { return x.Edited && x.frame.expand != expandNone }

// Continue returns the body that asks the upstream to go on after an answer and
// the answers before it to the same request: what was sent, with all of them
// and the results of their hidden calls at its end.
func (x *Exchange) Continue(its []wire.Iteration) ([]byte, error) {
	edits := slices.Clone(x.sent)
	var more []byte
	for i := range its {
		if i > 0 {
			more = append(more, ',')
		}
		more = append(more, wire.Continuation(x.view.Format, &its[i])...)
	}
	edits = append(edits, wire.Edit{Block: len(x.view.Blocks) - 1, Op: wire.OpAfterMessage, Value: more})
	return x.view.Splice(edits)
}

// Correct takes the usage of all answers for that of a turn that is made of
// several: the client may have been told of the last only.
func (x *Exchange) Correct(t *wire.Turn) {
	if t == nil || len(x.said) < 2 {
		return
	}
	var sum wire.Usage
	for i := range x.said {
		sum = sum.Add(x.said[i].Usage)
	}
	if sum.Prompt() > 0 {
		t.Usage = sum
	}
}

// Say notes what the upstream has said, where the client's message is made of
// several answers or holds less than was said. It must be called before
// [Exchange.Commit].
func (x *Exchange) Say(its []wire.Iteration) {
	x.first = its[0].Usage
	last := &its[len(its)-1]
	// What was cut before it was complete was never called.
	last.Parts = slices.DeleteFunc(last.Parts, func(p wire.Part) bool { return p.Hidden && p.Result == "" })
	if len(its) > 1 || len(last.Hidden()) > 0 {
		x.said = its
	}
}
