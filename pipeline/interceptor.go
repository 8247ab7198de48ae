// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Interceptor answers calls that a model makes within a turn, and hides them from the client.
type Interceptor struct {
	// Expansions are the calls answered so far.
	Expansions []Expansion
	// Lost reports that intercepted calls of the last message could not be put back, because the
	// client changed that message.
	Lost bool

	x      *Exchange
	said   []hidden.Iteration // the responses that make up the client's message
	first  wire.Usage         // usage of the first of them
	calls  []wire.Usage       // usage of each call of the model, if there were several
	asked  []int              // the blocks requested by the model
	whole  bool
	copied bool
}

// LastUsage reports whether the client receives only the usage of the last of several responses in
// one message.
func (c *Interceptor) LastUsage() bool { return c.x.req.o.Expand.Usage == Last }

// CallsExpand reports whether calls of a tool are intercepted in this conversation.
func (c *Interceptor) CallsExpand(name string) bool {
	switch {
	case !c.x.Prompt.Edited || c.x.req.offer.expand == expandNone:
		return false
	case name == ExpandTool:
		return c.x.req.offer.expand == expandDeclared
	}
	return slices.Contains(c.x.req.o.Expand.Known(), name)
}

// Intercepts reports whether the response may contain calls to intercept.
func (c *Interceptor) Intercepts() bool {
	return c.x.Prompt.Edited && (c.x.req.offer.expand != expandNone || c.x.Prompt.marked && hidden.Possible(c.x.req.View))
}

// Continue returns the body of the next request within the turn: the sent request, with all
// responses and the results of their intercepted calls at its end.
func (c *Interceptor) Continue(its []hidden.Iteration) ([]byte, error) {
	edits := slices.Clone(c.x.Prompt.edits)
	var more []byte
	for i := range its {
		if i > 0 {
			more = append(more, ',')
		}
		more = append(more, hidden.Continuation(c.x.req.View.Format, &its[i])...)
	}
	edits = append(edits, wire.Edit{Block: len(c.x.req.View.Blocks) - 1, Op: wire.OpAfterMessage, Value: more})
	return c.x.req.View.Splice(edits)
}

// Correct replaces the turn's usage by the sum of its responses.
func (c *Interceptor) Correct(t *wire.Turn, its []hidden.Iteration) {
	if t == nil || len(its) < 2 {
		return
	}
	calls := make([]wire.Usage, 0, len(its))
	for i := range its {
		it := &its[i]
		if i > 0 && it.Usage == (wire.Usage{}) && len(it.Parts) == 0 && it.StopReason == "" {
			continue // the upstream refused the continuation
		}
		calls = append(calls, it.Usage)
	}
	all := sum(calls)
	if all.Prompt() == 0 {
		return
	}
	// The client may have seen the usage of the last response only. The iterations in its message
	// come from the pipeline, not from the provider.
	all.Reported = true
	c.calls, t.Usage, t.Final, t.Iterations = calls, all, wire.Usage{}, nil
}

// Say stores the responses of the upstream if the client's message differs from them. It must be
// called before [Exchange.Commit].
func (c *Interceptor) Say(its []hidden.Iteration) {
	c.first = its[0].Usage
	last := &its[len(its)-1]
	// A call that was cut off was never made.
	last.Parts = slices.DeleteFunc(last.Parts, func(p hidden.Part) bool { return p.Hidden && p.Result == "" })
	if len(its) > 1 || len(last.Hidden()) > 0 {
		c.said = its
	}
}

// Marked reports whether the sent request may contain marks, see [Interceptor.Marks].
func (c *Interceptor) Marked() bool { return c.x.Prompt.Edited && c.x.Prompt.marked }

// Whole reports whether calls must be buffered until they are complete. The last response was ended
// because a call contained a mark, and this time the model can be told.
func (c *Interceptor) Whole() bool { return c.whole }

// Copied reports that the response ends in an error: a call contained a mark after the client had
// received its beginning.
func (c *Interceptor) Copied() {
	c.copied = true
	c.Expansions = append(c.Expansions, Expansion{Refused: true})
}

// Writes reports whether calls of a tool may write their arguments to a file: all except tools for
// reading and searching.
func (c *Interceptor) Writes(name string) bool {
	switch content.ClassOf(name) {
	case sessioncache.ClassRead, sessioncache.ClassSearch:
		// Only the first word of a name tells; a later part is less reliable.
		return !slices.Contains(lookers, verb(name))
	}
	return true
}

// Marks returns the stubs and notes in the sent request, without those that the client's own text
// contains.
func (c *Interceptor) Marks() *hidden.Marks {
	var texts []string
	for i := range c.x.req.States {
		if e := c.x.req.States[i].Edit; marks(e) {
			texts = marksIn(texts, e, hidden.Plain(string(e.Value)))
		}
	}
	return hidden.NewMarks(c.x.req.foreign(texts))
}

// Misled reports whether the arguments of a call contain a mark: the model took the mark for the
// text behind it.
func (c *Interceptor) Misled(arguments string) bool { return c.Marks().In(arguments) != "" }

func (c *Interceptor) misled(arguments string) (known []string) {
	names := content.StubNames(hidden.Plain(arguments))
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if id, _, _ := strings.Cut(name, "."); c.x.req.foldedAs(id) >= 0 {
			known = append(known, name)
		}
	}
	return known
}

// refuse answers a call that must not run.
func (c *Interceptor) refuse(p *hidden.Part) {
	p.Failed = true
	c.Expansions = append(c.Expansions, Expansion{Refused: true})
	names := c.misled(p.Arguments)
	switch {
	case len(names) == 0:
		p.Result = fmt.Sprintf("Not run: the arguments hold %s, which only stands in for text. Look it up, and call again with it.", c.Marks().In(p.Arguments))
		return
	case c.x.req.offer.expand == expandNone:
		p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. Call again with the text:", strings.Join(names, " and "))
		for _, name := range names {
			p.Result += "\n" + c.x.req.original(name)
		}
		return
	}
	p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. Get the text by %s, ids %q, and call again with it.",
		strings.Join(names, " and "), c.x.req.tool(), names)
}

// Folded returns the texts folded in this request, for a store that outlives the client's history.
func (c *Interceptor) Folded() (out []Block) {
	r := &c.x.req
	if !c.x.Prompt.Edited || r.offer.expand == expandNone {
		return nil
	}
	for i := range r.ledger.fresh {
		if !content.Folded(r.States[i].Edit) {
			continue
		}
		out = append(out, Block{r.stubName(i), content.OriginalText(r.View, &r.Blocks[i])})
	}
	return out
}

// learnExpansions counts the requested blocks: each counts as used, stays whole from now on, and
// raises the need of its class.
func (c *Interceptor) learnExpansions(l *sessioncache.Lineage) {
	for _, i := range c.asked {
		s := &c.x.req.States[i]
		s.Unused, s.Pinned = 0, true
		if n := &l.Expanded[s.Class]; *n < 1<<15 {
			*n++
		}
	}
}

var lookers = []string{"read", "view", "cat", "grep", "rg", "glob", "search", "find", "list", "ls"}

// verb returns the first word of a name such as read_file or ReadFile, in lower case.
func verb(name string) string {
	for i, r := range name {
		if i > 0 && !unicode.IsLower(r) {
			return strings.ToLower(name[:i])
		}
	}
	return strings.ToLower(name)
}

// Expansion is one block requested by the model.
type Expansion struct {
	// Class is the class of the call that the text belongs to.
	Class sessioncache.Class
	// Part reports whether the model requested only a part.
	Part bool
	// Unknown reports whether the conversation has no such block.
	Unknown bool
	// Refused reports whether the call was no expansion, but a call with a stub or a note in its
	// arguments.
	Refused bool
}

// Block is a folded text with the name in its stub.
type Block struct {
	// Name is the name, Text the text.
	Name, Text string
}

// Answer answers an intercepted call: of the expand tool, or of a tool with a stub in its
// arguments. The originals come from the request itself. recall may know the originals of blocks
// that the client has dropped.
func (c *Interceptor) Answer(p *hidden.Part, recall func(name string) (string, bool)) {
	if !c.CallsExpand(p.Name) {
		c.refuse(p)
		return
	}
	arguments := gjson.Parse(p.Arguments)
	names := content.AskedFor(arguments)
	if len(names) == 0 {
		p.Result, p.Failed = "Give the ids of folded blocks as in [[llm_cache:folded ID ...]].", true
		return
	}
	narrow, err := content.Narrowing(arguments)
	if err != nil {
		p.Result, p.Failed = err.Error(), true
		return
	}
	var out []string
	failed := true
	for _, name := range names {
		text, ok := c.expansion(name, recall, narrow)
		failed = failed && !ok
		if len(names) > 1 {
			text = name + ":\n" + text
		}
		out = append(out, text)
	}
	p.Result, p.Failed = strings.Join(out, "\n"), failed
	if p.Result == "" {
		p.Result = "(empty)"
	}
}

func (c *Interceptor) expansion(name string, recall func(string) (string, bool), narrow func(string) string) (string, bool) {
	r := &c.x.req
	id, part, parted := strings.Cut(name, ".")
	var text, output string // output is the text without its envelope
	var ok bool
	e := Expansion{Part: narrow != nil || parted}
	i := r.foldedAs(id)
	switch {
	case i >= 0:
		text, ok = content.OriginalText(r.View, &r.Blocks[i]), true
		if output = text; r.Blocks[i].Kind == wire.KindToolResult {
			output, ok = r.Text(i), !parted
		}
		e.Class = r.States[i].Class
	case recall != nil && len(id) == content.IDLen:
		text, ok = recall(id)
		output, e.Class = content.Unwrap(text), sessioncache.ClassOther
	}
	if ok && parted && (i < 0 || r.Blocks[i].Kind == wire.KindToolUse) {
		text, ok = content.InputPart(text, part)
		output = text
	}
	if !ok {
		e.Unknown = true
		c.Expansions = append(c.Expansions, e)
		return "Unknown block: " + strconv.Quote(content.Clip(name, 40)) + " is not folded in this conversation.", false
	}
	if i >= 0 {
		c.asked = append(c.asked, i)
	}
	if narrow != nil {
		text = narrow(output)
	}
	c.Expansions = append(c.Expansions, e)
	return text, true
}

// tool returns the name of the tool that the model knows.
func (r *request) tool() string {
	if r.offer.expand == expandOffered {
		for i := range content.Definitions(r.View) {
			for _, name := range r.o.Expand.Known() {
				if r.View.Text(r.View.Blocks[i].Name) == name {
					return name
				}
			}
		}
	}
	return ExpandTool
}

// back tells the model how to restore the text of a stub.
func (r *request) back(i int) string {
	switch {
	case r.offer.expand != expandNone:
		return ExpandTool + " returns it."
	case r.Call(i) >= 0:
		return "Run the call again to see it."
	}
	return "It is gone."
}

// foldedAs returns the folded block with a name, -1 if the request has none.
func (r *request) foldedAs(name string) int {
	if len(name) != content.IDLen {
		return -1
	}
	for i := range r.Blocks {
		if content.Folded(r.States[i].Edit) && r.stubName(i) == name {
			return i
		}
	}
	return -1
}

// original returns the text behind a stub of the request.
func (r *request) original(name string) string {
	id, part, parted := strings.Cut(name, ".")
	text := content.OriginalText(r.View, &r.Blocks[r.foldedAs(id)])
	if parted {
		if t, ok := content.InputPart(text, part); ok {
			return t
		}
	}
	return text
}

// stubName returns the name of a block in its stub.
func (r *request) stubName(i int) string { return content.StubName(r.session, r.View, &r.Blocks[i]) }

// stub returns the stub of a tool result, with so many of its first lines.
func (r *request) stub(i, preview int) string {
	return content.StubResult(r.View, i, r.stubName(i), r.Text(i), r.back(i), preview)
}
