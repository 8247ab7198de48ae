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

package translate

import (
	"maps"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// writer makes a body out of a Request. Members come first, the messages last.
type writer struct {
	b       []byte
	to      wire.Format
	dialect *spoken
	rules   *rules
	client  *rules // of the format that the request came in
	q       *Request
	o       Options
	names   *Names
	model   string
	stop    []string
	dropped map[string]bool
	// tools are the tools that the model may call, messages the messages in the
	// shape that the format wants.
	tools    []Tool
	messages []Message
	// surplus counts the markers to leave out, short tells that one of the short
	// lifetime was written (anthropic).
	surplus int
	short   bool
	// called tells which tool each call was of, for results that do not say.
	called map[string]ToolName
}

func newWriter(to wire.Format, q *Request, o Options, room int) *writer {
	w := &writer{to: to, dialect: dialects[to], rules: &dialects[to].rules, client: &dialects[q.Format].rules, q: q, o: o, names: newNames(to, o.NameLimit), model: q.Model, dropped: maps.Clone(q.dropped)}
	if w.dropped == nil {
		w.dropped = map[string]bool{}
	}
	if o.Model != nil {
		w.model = o.Model(q.Model)
	}
	w.b = wire.Buffer(room + room/8 + 1024)
	w.tools = w.allowed()
	for _, t := range w.tools {
		w.names.upstream(t.ToolName)
	}
	return w
}

func (w *writer) write() error {
	if strings.Contains(w.model, "..") || strings.ContainsFunc(w.model, func(r rune) bool { return r < ' ' }) {
		return &Unsupported{Field: "model", Reason: "not the name of a model"}
	}
	w.messages = w.shape()
	w.b = append(w.b, '{')
	err := w.dialect.write(w)
	w.b = append(w.b, '}')
	return err
}

// drop lists a field of the client that is left out.
func (w *writer) drop(field string) {
	if len(w.dropped) < maxDropped && !w.dropped[field] {
		w.dropped[field] = true
	}
}

// allowed returns the tools. Where the format cannot say that only some of
// them may be called, the others are left out.
func (w *writer) allowed() []Tool {
	c := w.q.Choice
	if len(c.Tools) == 0 || c.Mode == "any" && len(c.Tools) == 1 || w.rules.narrows || w.o.Official && w.rules.narrowsOfficial {
		return w.q.Tools
	}
	chosen := make(map[ToolName]struct{}, len(c.Tools))
	for _, n := range c.Tools {
		chosen[ToolName{Namespace: n.Namespace, Name: n.Name}] = struct{}{}
	}
	var tools []Tool
	for _, t := range w.q.Tools {
		if _, ok := chosen[ToolName{Namespace: t.Namespace, Name: t.Name}]; ok {
			tools = append(tools, t)
		}
	}
	return tools
}

// comma puts a comma between members or elements.
func (w *writer) comma() {
	if c := w.b[len(w.b)-1]; c != '{' && c != '[' && c != ':' {
		w.b = append(w.b, ',')
	}
}

// key writes a member's name. Names are ours and need no escapes.
func (w *writer) key(name string) {
	w.comma()
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

// open and close write a bracket.
func (w *writer) open(c byte) {
	w.comma()
	w.b = append(w.b, c)
}

func (w *writer) close(c byte) { w.b = append(w.b, c) }

// member writes a member with a value that is JSON.
func (w *writer) member(name string, v raw) {
	w.key(name)
	w.b = append(w.b, v...)
}

// text writes a member with a text that is already escaped.
func (w *writer) text(name string, t text) {
	w.key(name)
	w.b = append(append(append(w.b, '"'), t...), '"')
}

// string writes a member with a text.
func (w *writer) string(name, s string) {
	w.key(name)
	w.b = append(appendEscaped(append(w.b, '"'), s), '"')
}

// bool writes a member.
func (w *writer) bool(name string, v bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, v)
}

// int writes a member.
func (w *writer) int(name string, n int) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

// quoted writes a member whose value is the text of some JSON.
func (w *writer) quoted(name string, v raw) {
	w.key(name)
	w.b = append(appendEscaped(append(w.b, '"'), v), '"')
}

// param writes a parameter under the format's name.
func (w *writer) param(p Param) {
	v := w.value(p)
	if v == nil {
		return
	}
	name := w.paramName(p)
	name = name[strings.LastIndexByte(name, '.')+1:]
	w.member(name, v)
}

func (w *writer) paramName(p Param) string {
	if w.to.Traits().ServersVary && !w.o.Official {
		switch p {
		case MaxTokens:
			return "max_tokens" // the name that every local engine knows
		case TopK:
			return "top_k"
		}
	}
	return w.rules.params[p]
}

// dropParam lists a parameter by the client's name.
func (w *writer) dropParam(p Param) {
	if name := w.client.params[p]; name != "" {
		w.drop(name)
	} else {
		w.drop("top_k")
	}
}

// value returns a parameter as the upstream takes it, nil if it takes none.
func (w *writer) value(p Param) raw {
	v := w.q.Params[p]
	if v == nil {
		if p == CacheKey && w.o.CacheKey != "" && w.rules.params[p] != "" {
			return append(appendEscaped(raw(`"`), w.o.CacheKey), '"')
		}
		return nil
	}
	ok := w.paramName(p) != ""
	switch p {
	case MaxTokens:
		n, number := v.int()
		if least := w.leastTokens(); ok && number && n < least && (n > 0 || w.q.FillsCache) {
			w.dropParam(p)
			return strconv.AppendInt(nil, int64(least), 10)
		}
		ok = ok && number && n > 0
	case Temperature, TopP, TopK, PresencePenalty, FrequencyPenalty:
		ok = ok && v.isNumber() && w.dialect.samples(w, p)
		if n, _ := v.int(); ok && p == Temperature && w.rules.warmest > 0 && n >= w.rules.warmest && string(v) != "1" && string(v) != "1.0" {
			w.dropParam(p)
			return strconv.AppendInt(nil, int64(w.rules.warmest), 10)
		}
	case UserID:
		ok = ok && v.isString() && (w.rules.longestUser == 0 || len(v) <= w.rules.longestUser+2)
	case ServiceTier:
		v = w.dialect.tier(w, v.string())
		ok = ok && v != nil
	}
	if !ok {
		w.dropParam(p)
		return nil
	}
	return v
}

// leastTokens is the lowest bound on an answer that the upstream takes.
func (w *writer) leastTokens() int {
	if w.rules.leastTokens > 0 && w.o.Official {
		return w.rules.leastTokens
	}
	return 1
}

// stops returns the stop sequences to send, at most limit. If there are more,
// or the format has none, the answer is to be cut by us.
func (w *writer) stops(limit int) []text {
	stop := w.q.Stop
	if len(stop) <= limit {
		return stop
	}
	for _, s := range stop {
		w.stop = append(w.stop, s.decoded())
	}
	return stop[:limit]
}

func (w *writer) texts(name string, list []text) {
	w.key(name)
	w.b = append(w.b, '[')
	for _, t := range list {
		w.comma()
		w.b = append(append(append(w.b, '"'), t...), '"')
	}
	w.b = append(w.b, ']')
}

// joined returns several texts as one, an empty line between them.
func joined(parts []Part) text {
	var t text
	for _, p := range parts {
		switch {
		case p.Kind != TextPart || p.Text.empty():
		case t == nil:
			t = p.Text[:len(p.Text):len(p.Text)]
		default:
			t = append(append(t, `\n\n`...), p.Text...)
		}
	}
	return t
}

// system returns the system prompt. The line in which Claude Code names its
// version and the conversation is for Anthropic only.
func (w *writer) system() []Part {
	parts := make([]Part, 0, len(w.q.System))
	for i, p := range w.q.System {
		billing := i == 0 && !w.to.Traits().Attribution && strings.HasPrefix(string(p.Text), wire.AttributionLine)
		if !billing && p.Kind == TextPart && !p.Text.empty() {
			parts = append(parts, p)
		}
	}
	return parts
}

// customSchema is the input of a custom tool where the format has functions only.
var customSchema = raw(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// function returns a tool as a function: its description and schema.
func (w *writer) function(t Tool) (description text, schema raw) {
	if !t.Custom {
		return t.Description, t.Schema
	}
	description = t.Description
	format := t.Format
	if g := format.member("grammar"); g.isObject() {
		format = g
	}
	if d := format.member("definition").text(); !d.empty() {
		description = append(append(description[:len(description):len(description)], `\n\nThe input must match this grammar:\n`...), d...)
	}
	return description, customSchema
}

// arguments returns the input of a call as a JSON object.
func (w *writer) arguments(p Part) raw {
	if p.Input != nil {
		return p.Input
	}
	return append(append(raw(`{"input":"`), p.Text...), `"}`...)
}

// own reports whether sealed reasoning is of the upstream's own format.
func (w *writer) own(p Part) bool { return p.Sealed.Format == w.to && p.Sealed.Data != "" }

// dropThinking lists reasoning that the upstream could not read.
func (w *writer) dropThinking() {
	w.drop(w.client.thinking)
}

// dropCache lists a marker that the format does not have.
func (w *writer) dropCache(marker raw, place string) {
	if marker != nil {
		w.drop(w.client.markerField(place))
	}
}

// dropFailed lists that a tool failed, which the format cannot say.
func (w *writer) dropFailed(p Part) {
	if p.Failed {
		w.drop(w.client.failed)
	}
}

// refuseMedia says that the format has no place for a medium.
func (w *writer) refuseMedia(p Part) error {
	return &Unsupported{Field: p.Field, Reason: "the upstream's format cannot hold this kind of content"}
}
