// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

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

	req    *request
	prompt *Prompt
	said   []hidden.Iteration // the responses that make up the client's message
	first  wire.Usage         // usage of the first of them
	calls  []wire.Usage       // usage of each call of the model, if there were several
	asked  []int              // the blocks requested by the model
	whole  bool
	copied bool
}

// LastUsage reports whether the client receives only the usage of the last of several responses in
// one message.
func (c *Interceptor) LastUsage() bool { return c.req.o.Expand.Usage == Last }

// CallsExpand reports whether calls of a tool are intercepted in this conversation.
func (c *Interceptor) CallsExpand(name string) bool {
	switch {
	case !c.prompt.Edited || c.req.offer.expand == expandNone:
		return false
	case name == ExpandTool:
		return c.req.offer.expand == expandDeclared
	}
	return slices.Contains(c.req.o.Expand.Known(), name)
}

// Intercepts reports whether the response may contain calls to intercept.
func (c *Interceptor) Intercepts() bool {
	return c.prompt.Edited && (c.req.offer.expand != expandNone || c.prompt.marked && hidden.Possible(c.req.View))
}

// Continue returns the body of the next request within the turn: the sent request, with all
// responses and the results of their intercepted calls at its end.
func (c *Interceptor) Continue(its []hidden.Iteration) ([]byte, error) {
	edits := slices.Clone(c.prompt.edits)
	var more []byte
	for i := range its {
		if i > 0 {
			more = append(more, ',')
		}
		more = append(more, hidden.Continuation(c.req.View.Format, &its[i])...)
	}
	edits = append(edits, wire.Edit{Block: len(c.req.View.Blocks) - 1, Op: wire.OpAfterMessage, Value: more})
	return c.req.View.Splice(edits)
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
func (c *Interceptor) Marked() bool { return c.prompt.Edited && c.prompt.marked }

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
	for i := range c.req.States {
		if e := c.req.States[i].Edit; marks(e) {
			texts = marksIn(texts, e, hidden.Plain(string(e.Value)))
		}
	}
	return hidden.NewMarks(c.req.foreign(texts))
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
		if id, _, _ := strings.Cut(name, "."); c.req.foldedAs(id) >= 0 {
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
	case c.req.offer.expand == expandNone:
		p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. Call again with the text:", strings.Join(names, " and "))
		for _, name := range names {
			p.Result += "\n" + c.req.original(name)
		}
		return
	}
	p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. Get the text by %s, ids %q, and call again with it.",
		strings.Join(names, " and "), c.req.tool(), names)
}

// Folded returns the texts folded in this request, for a store that outlives the client's history.
func (c *Interceptor) Folded() (out []Block) {
	r := c.req
	if !c.prompt.Edited || r == nil || r.offer.expand == expandNone {
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
		s := &c.req.States[i]
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
