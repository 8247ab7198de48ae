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
	r := c.req
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
