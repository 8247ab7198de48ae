// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Writer writes a [Request] as a body. The messages are the last member.
type Writer struct {
	// Body is the output so far, without the known turns.
	Body []byte
	// To is the upstream's format.
	To wire.Format
	// Rules are the rules of the upstream's format.
	Rules *Rules
	// Client are the rules of the client's format.
	Client *Rules
	// Request is the source.
	Request *Request
	// Options describe the upstream.
	Options Options
	// Names are the upstream's names of the tools.
	Names *Names
	// Model is the upstream's name of the model.
	Model string
	// Tools are the tools available to the model.
	Tools []Tool
	// Messages are the messages in the format's structure.
	Messages []Message
	// Called maps call ids to tools, for results without a tool name.
	Called map[string]ToolName

	dialect *spoken
	added   bool
	stop    []string
	dropped dropped
	place   int32 // the message being written, by its [origin]
	// known are the turns to insert before Messages[tail], nil for none. starts are the beginnings of the
	// messages.
	known  *Turns
	tail   int
	starts []start
	// The tools begin and end here in the body, both 0 if they are not remembered.
	toolsStart, toolsEnd int
}

func newWriter(to wire.Format, q *Request, o Options, room int) *Writer {
	w := &Writer{
		To: to, dialect: dialectOf(to), Rules: &dialectOf(to).rules, Client: &dialectOf(q.Format).rules,
		Request: q, Options: o, Names: newNames(to, o.NameLimit, len(q.Tools)), Model: q.Model, dropped: maps.Clone(q.dropped),
	}
	if w.dropped == nil {
		w.dropped = dropped{}
	}
	if o.Model != nil {
		w.Model = o.Model(q.Model)
	}
	w.Body = reuse.Buffer(room + room/8 + 1024)
	w.Tools = w.allowed()
	// The tools are named before the messages, so that names do not depend on the messages.
	for _, t := range w.Tools {
		w.Names.Upstream(t.ToolName)
	}
	return w
}

func (w *Writer) write() error {
	// The name may become part of the upstream's path.
	if strings.Contains(w.Model, "..") || strings.ContainsFunc(w.Model, func(r rune) bool { return r < ' ' }) {
		return &Unsupported{Field: "model", Reason: "not the name of a model"}
	}
	w.Messages = w.shape()
	if w.known != nil && !w.follows() {
		return errWhole
	}
	w.Body = append(w.Body, '{')
	err := w.dialect.WriteRequest(w)
	w.Body = append(w.Body, '}')
	return err
}

// Adds reports whether the body may have additions that the client did not request. The caller must
// then make one.
func (w *Writer) Adds() bool {
	w.added = w.added || !w.Options.Plain
	return !w.Options.Plain
}

// Drop lists a dropped field of the client.
func (w *Writer) Drop(field string) { w.dropped.add(field, w.place) }

// DependsOnAll is [Reader.DependsOnAll].
func (w *Writer) DependsOnAll() { w.Request.whole = true }

// allowed returns the tools that the model may call.
func (w *Writer) allowed() []Tool {
	c := w.Request.Choice
	// Every format can force a single tool.
	if len(c.Tools) == 0 || c.Mode == "any" && len(c.Tools) == 1 || w.Rules.Narrows || w.Options.Official &&
		w.Rules.NarrowsOfficial {
		return w.Request.Tools
	}
	// The format cannot restrict calls, so the list has the chosen tools only.
	chosen := make(map[ToolName]struct{}, len(c.Tools))
	for _, n := range c.Tools {
		chosen[ToolName{Namespace: n.Namespace, Name: n.Name}] = struct{}{}
	}
	var tools []Tool
	for _, t := range w.Request.Tools {
		if _, ok := chosen[ToolName{Namespace: t.Namespace, Name: t.Name}]; ok {
			tools = append(tools, t)
		}
	}
	return tools
}

// joint separates joined texts with an empty line.
const joint = `\n\n`

// Joined returns several texts as one.
func Joined(parts []Part) rawjson.Text {
	var first rawjson.Text
	n, size := 0, 0
	for i := range parts {
		if p := &parts[i]; p.Kind == TextPart && !p.Text.Empty() {
			if n++; n == 1 {
				first = p.Text
			}
			size += len(p.Text) + len(joint)
		}
	}
	if n < 2 {
		return first
	}
	return appendJoined(make([]byte, 0, size), parts)
}

func appendJoined(b []byte, parts []Part) []byte {
	begun := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != TextPart || p.Text.Empty() {
			continue
		}
		if begun {
			b = append(b, joint...)
		}
		begun = true
		b = append(b, p.Text...)
	}
	return b
}

// Joined writes a member with several texts joined to one.
func (w *Writer) Joined(name string, parts []Part) {
	w.Key(name)
	w.Body = append(appendJoined(append(w.Body, '"'), parts), '"')
}

// System returns the system prompt.
func (w *Writer) System() []Part {
	parts := make([]Part, 0, len(w.Request.System))
	for i, p := range w.Request.System {
		// Only Anthropic removes Claude Code's attribution. Elsewhere its changing text would
		// invalidate the cached prefix.
		billing := i == 0 && !w.To.Traits().Attribution && strings.HasPrefix(string(p.Text), wire.AttributionLine)
		if !billing && p.Kind == TextPart && !p.Text.Empty() {
			parts = append(parts, p)
		}
	}
	return parts
}

// customSchema is the input schema of a custom tool in formats with functions only.
var customSchema = rawjson.Value(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],` +
	`"additionalProperties":false}`)

// Function returns the description and schema of a tool as a function.
func (w *Writer) Function(t Tool) (description rawjson.Text, schema rawjson.Value) {
	if !t.Custom {
		return t.Description, t.Schema
	}
	description = t.Description
	format := t.Format
	if g := format.Member("grammar"); g.IsObject() {
		format = g
	}
	// A function has no member for a grammar.
	if d := format.Member("definition").Text(); !d.Empty() {
		description = append(append(description[:len(description):len(description)],
			`\n\nThe input must match this grammar:\n`...), d...)
	}
	return description, customSchema
}

// Arguments returns the input of a call as a JSON object.
func (w *Writer) Arguments(p Part) rawjson.Value {
	if p.Input != nil {
		return p.Input
	}
	return append(append(rawjson.Value(`{"input":"`), p.Text...), `"}`...)
}

// Native reports whether reasoning has a signature of the upstream's format.
func (w *Writer) Native(p Part) bool {
	return p.Sealed != nil && p.Sealed.Format == w.To && p.Sealed.Data != "" && !p.Sealed.Call
}

// proves reports whether the upstream only accepts reasoning with its own signature.
func (w *Writer) proves() bool {
	// For some models every host checks signatures, not only the provider's own API.
	return w.Options.Official || w.Rules.Proves != "" && strings.Contains(w.Model, w.Rules.Proves)
}

// dropThinking lists reasoning that the upstream cannot read.
func (w *Writer) dropThinking() {
	w.Drop(w.Client.Thinking)
}

// DropCache lists a cache marker that the format does not support.
func (w *Writer) DropCache(marker rawjson.Value, place string) {
	if marker != nil {
		w.Drop(w.Client.MarkerField(place))
	}
}

// DropFailed lists the failure of a tool, which the format cannot express.
func (w *Writer) DropFailed(p Part) {
	if p.Failed {
		w.Drop(w.Client.Failed)
	}
}
