// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
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
	expandDescription = "Returns the text behind [[llm_cache:folded ID ...]]. Give lines (\"10-80\") or pattern (a " +
		"regular expression) for a part of it."
	maxDefinition = 512 // bytes of the declaration, in any format
	expandSchema  = `{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}},` +
		`"lines":{"type":"string"},"pattern":{"type":"string"}},"required":["ids"]}`
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
	if r.o.Policy == Observe || content.LastDefinition(r.View) < 0 || !intercept.Possible(r.View) {
		return
	}
	o, l := &r.o.Expand, r.match.Conversation
	// A cold cache allows a new decision, unless thinking is bound to the old prompt.
	began := l != nil && !(r.cached.cold && !r.rules.BindsThinking)
	wants := began && l.Expand
	folds := r.p.Compress != nil || r.o.Prune.Mode != stage.Off || r.o.Policy != Eager &&
		(r.o.Planner.FoldInputs == nil || *r.o.Planner.FoldInputs)
	off := !wants && (o.Mode == stage.Off || !folds)
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
		wants = !r.orders.given.Cuts() && (o.Mode == stage.On || !refers(r.View) && r.rules.Regime != pricing.KV &&
			instructions(r.View) >= minInstructions && content.ServesTools(r.View))
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

// expandDefinitions has the declaration of the tool as an entry of tools, by format.
var expandDefinitions = sync.OnceValue(func() map[wire.Format][]byte {
	all := make(map[wire.Format][]byte)
	for _, f := range wire.Formats() {
		all[f] = slices.Clip(intercept.DeclareTool(f, ExpandTool, expandDescription, expandSchema))
	}
	return all
})

// expandDefinition returns the declaration of the tool as an entry of tools. It must not be modified.
func (r *request) expandDefinition() []byte { return expandDefinitions()[r.View.Format] }

// reinsert puts intercepted calls back into the client's copy of the last message.
func (r *request) reinsert() {
	l := r.match.Conversation
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
		edits, ok = intercept.Reinsert(r.View, message, l.Said)
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
			s.Inserted = &sessioncache.Inserted{Inserts: append(inserts[:len(inserts):len(inserts)],
				sessioncache.Insert{Op: e.Op, Value: e.Value})}
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
		if r.Blocks[i].IsThinking() && r.removable(i) {
			r.States[i].Edit = &sessioncache.Edit{Stage: stage.Expand, Op: wire.OpRemove}
		}
	}
}

// Some clients (Codex's local compaction, Zed) omit their tools when they ask for a summary of the
// conversation. Tools are the first part of the prompt: without them, the cache finds no part of
// the conversation, and the longest prompt of all is read again. So the pipeline adds the tools
// again, and forbids calls.

// maxDefinitions limits the stored tools of a conversation, in bytes.
const maxDefinitions = 256 << 10

// fits is the share of the context window that the last prompt and its response may take. The rest
// is room for tools and a summary.
const fits = 0.9

// restoreTools adds the conversation's tools to a request for a summary, if the upstream's cache then
// finds the conversation.
func (r *request) restoreTools() {
	v, l := r.View, r.match.Conversation
	if len(l.Tools) == 0 || r.o.Policy == Observe || r.cached.cold || r.ledger.turned || l.Model != v.Model ||
		r.match.Common < l.Len() {
		return
	}
	// The request has no tools, and may be given some.
	if v.OffersTools() || !v.Conversation.Thread.Empty() || v.Traits().NoCalls == "" ||
		r.upstream.Traits().NoCalls == "" || !content.Compacts(v) {
		return
	}
	if v.Tools > 0 || !sameSystem(l, v) {
		return
	}
	// The tools must not push the prompt over the context window.
	if w := r.rules.ContextWindow; w > 0 && float64(l.Last.Prompt()+l.Last.Output) > fits*float64(w) {
		return
	}
	r.offer.tools = l.Tools
	// The expand tool came last in the conversation's requests.
	if l.Expand {
		r.offer.tools = bytes.Join([][]byte{l.Tools[:len(l.Tools)-1], append(r.expandDefinition(), ']')}, []byte(","))
	}
}

// Answerer answers calls that a model makes within a turn, and hides them from the client.
type Answerer struct {
	// Expansions are the calls answered so far.
	Expansions []Expansion
	// Lost reports that intercepted calls of the last message could not be put back, because the
	// client changed that message.
	Lost bool

	x      *Transaction
	said   []intercept.Iteration // the responses that make up the client's message
	first  wire.Usage            // usage of the first of them
	calls  []wire.Usage          // usage of each call of the model, if there were several
	asked  []int                 // the blocks requested by the model
	whole  bool
	copied bool
}

// LastUsage reports whether the client receives only the usage of the last of several responses in
// one message.
func (c *Answerer) LastUsage() bool { return c.x.req.o.Expand.Usage == Last }

// CallsExpand reports whether calls of a tool are intercepted in this conversation.
func (c *Answerer) CallsExpand(name string) bool {
	switch {
	case !c.x.Prompt.Edited || c.x.req.offer.expand == expandNone:
		return false
	case name == ExpandTool:
		return c.x.req.offer.expand == expandDeclared
	}
	return slices.Contains(c.x.req.o.Expand.Known(), name)
}

// Intercepts reports whether the response may contain calls to intercept.
func (c *Answerer) Intercepts() bool {
	return c.x.Prompt.Edited && (c.x.req.offer.expand != expandNone || c.x.Prompt.marked &&
		intercept.Possible(c.x.req.View))
}

// Continue returns the body of the next request within the turn: the sent request, with all
// responses and the results of their intercepted calls at its end.
func (c *Answerer) Continue(its []intercept.Iteration) ([]byte, error) {
	edits := slices.Clone(c.x.Prompt.edits)
	var more []byte
	for i := range its {
		if i > 0 {
			more = append(more, ',')
		}
		more = append(more, intercept.Continuation(c.x.req.View.Format, &its[i])...)
	}
	edits = append(edits, wire.Edit{Block: len(c.x.req.View.Blocks) - 1, Op: wire.OpAfterMessage, Value: more})
	return c.x.req.View.Splice(edits)
}

// Correct replaces the turn's usage by the sum of its responses.
func (c *Answerer) Correct(t *wire.Turn, its []intercept.Iteration) {
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
// called before [Transaction.Commit].
func (c *Answerer) Say(its []intercept.Iteration) {
	c.first = its[0].Usage
	last := &its[len(its)-1]
	// A call that was cut off was never made.
	last.Parts = slices.DeleteFunc(last.Parts, func(p intercept.Part) bool { return p.Intercepted && p.Result == "" })
	if len(its) > 1 || len(last.Intercepted()) > 0 {
		c.said = its
	}
}

// Marked reports whether the sent request may contain marks, see [Answerer.Marks].
func (c *Answerer) Marked() bool { return c.x.Prompt.Edited && c.x.Prompt.marked }

// Whole reports whether calls must be buffered until they are complete. The last response was ended
// because a call contained a mark, and this time the model can be told.
func (c *Answerer) Whole() bool { return c.whole }

// Copied reports that the response ends in an error: a call contained a mark after the client had
// received its beginning.
func (c *Answerer) Copied() {
	c.copied = true
	c.Expansions = append(c.Expansions, Expansion{Refused: true})
}

// Writes reports whether calls of a tool may write their arguments to a file: all except tools for
// reading and searching.
func (c *Answerer) Writes(name string) bool {
	switch content.ClassOf(name) {
	case sessioncache.ClassRead, sessioncache.ClassSearch:
		// Only the first word of a name tells; a later part is less reliable.
		return !slices.Contains(lookers, verb(name))
	}
	return true
}

// Marks returns the stubs and notes in the sent request, without those that the client's own text
// contains.
func (c *Answerer) Marks() *intercept.Marks {
	var texts []string
	for _, i := range c.x.req.entries {
		if e := c.x.req.States[i].Edit; marks(e) {
			texts = marksIn(texts, e, intercept.Plain(string(e.Value)))
		}
	}
	return intercept.NewMarks(c.x.req.foreign(texts))
}

// Misled reports whether the arguments of a call contain a mark: the model took the mark for the
// text behind it.
func (c *Answerer) Misled(arguments string) bool { return c.Marks().In(arguments) != "" }

func (c *Answerer) misled(arguments string) (known []string) {
	names := content.StubNames(intercept.Plain(arguments))
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
func (c *Answerer) refuse(p *intercept.Part) {
	p.Failed = true
	c.Expansions = append(c.Expansions, Expansion{Refused: true})
	names := c.misled(p.Arguments)
	switch {
	case len(names) == 0:
		p.Result = fmt.Sprintf("Not run: the arguments hold %s, which only stands in for text. Look it up, and call again "+
			"with it.", c.Marks().In(p.Arguments))
		return
	case c.x.req.offer.expand == expandNone:
		p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. "+
			"Call again with the text:", strings.Join(names, " and "))
		for _, name := range names {
			p.Result += "\n" + c.x.req.original(name)
		}
		return
	}
	p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. "+
		"Get the text by %s, ids %q, and call again with it.",
		strings.Join(names, " and "), c.x.req.tool(), names)
}

// Folded returns the texts folded in this request, for a store that outlives the client's history.
func (c *Answerer) Folded() (out []Block) {
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
func (c *Answerer) Answer(p *intercept.Part, recall func(name string) (string, bool)) {
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

func (c *Answerer) expansion(
	name string, recall func(string) (string, bool), narrow func(string) string,
) (string, bool) {
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

// marks reports whether an edit may leave marks in a block: stubs or notes.
func marks(e *sessioncache.Edit) bool {
	if e == nil || e.Op == wire.OpRemove {
		return false
	}
	switch e.Stage {
	case stage.Admission, stage.Restore, stage.ToolResults, stage.Clearing:
		return true
	}
	return content.Folded(e)
}

// marksIn appends the marks in the plain text of an edit: stubs up to their name, notes up to the
// first closing bracket.
func marksIn(texts []string, e *sessioncache.Edit, text string) []string {
	named := func(frame string) {
		for rest := text; ; {
			_, after, ok := strings.Cut(rest, frame)
			if !ok {
				return
			}
			if rest = after; len(rest) >= content.IDLen {
				texts = append(texts, frame+rest[:content.IDLen])
			}
		}
	}
	noted := func(begins string) {
		for rest := text; ; {
			i := strings.Index(rest, begins)
			if i < 0 {
				return
			}
			rest = rest[i:]
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return
			}
			texts = append(texts, rest[:end+1])
			rest = rest[len(begins):]
		}
	}
	named(content.StubFrame)
	named(ReturnedFrame)
	noted(admission.Note)
	switch e.Stage {
	case stage.ToolResults:
		noted(content.CompactedNote)
	case stage.Clearing:
		noted(content.ClearedPlaceholder)
	}
	return texts
}

// foreign removes the texts that the client's own content contains.
func (r *request) foreign(texts []string) []string {
	for i := range r.View.Blocks {
		b := &r.View.Blocks[i]
		if len(texts) == 0 {
			return nil
		}
		var quotes bool
		if b.Section != wire.SectionMessages || b.Role == wire.RoleSystem { // may be new in a known conversation
			quotes = content.QuotesMarks(r.View.Bytes(b.Span))
		} else {
			quotes = r.States[i-r.View.System].Quotes
		}
		if !quotes {
			continue
		}
		// The client may work on files with such texts. The model's earlier output does not count
		// as the client's own.
		text := intercept.Plain(string(r.View.Bytes(b.Span)))
		texts = slices.DeleteFunc(texts, func(t string) bool { return strings.Contains(text, t) })
	}
	return texts
}
