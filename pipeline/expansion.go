// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Expansion is one block that the model has asked for again.
type Expansion struct {
	// Class is the kind of call whose text it was.
	Class sessioncache.Class
	// Part reports whether only a part was asked for.
	Part bool
	// Unknown reports whether there is no such block in this conversation.
	Unknown bool
	// Refused reports whether the call was no expansion, but one whose arguments
	// held a stub or a note.
	Refused bool
}

// Block is a text that was folded, under the name in its stub.
type Block struct {
	// Name is the name, Text the text.
	Name, Text string
}

// Answer answers a call that is kept from the client: of the expand tool, or of
// another one whose arguments hold a stub. The originals come from the request
// itself; recall may know those of blocks that the client has dropped.
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
	r := c.req
	id, part, parted := strings.Cut(name, ".")
	var text, output string // output is the text without what it is wrapped in
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

// tool is the name of the tool that the model knows.
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

// back says how the model gets the text of a stub.
func (r *request) back(i int) string {
	switch {
	case r.offer.expand != expandNone:
		return ExpandTool + " returns it."
	case r.Call(i) >= 0:
		return "Run the call again to see it."
	}
	return "It is gone."
}

// foldedAs finds the folded block of a name, -1 if there is none in the request.
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

// original is the text that a stub of the request stands for.
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

// stubName is how a block is named in its stub.
func (r *request) stubName(i int) string { return content.StubName(r.session, r.View, &r.Blocks[i]) }

// stub stands in for a tool result, with so many of its first lines.
func (r *request) stub(i, preview int) string {
	return content.StubResult(r.View, i, r.stubName(i), r.Text(i), r.back(i), preview)
}
