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
	"slices"
	"strconv"
	"strings"
)

func (w *writer) anthropic() error {
	q := w.q
	if w.forced() && len(w.tools) > 0 && claudeOf(w.model).refusesForced() {
		return &Unsupported{Field: w.client.choice, Reason: "this model cannot be made to call a tool"}
	}
	w.string("model", w.model)
	limit, thinking := w.anthropicThinking()
	w.int("max_tokens", limit)
	if thinking == nil || thinking.off {
		w.param(Temperature)
		w.param(TopP)
		w.param(TopK)
	} else {
		for _, p := range []Param{Temperature, TopP, TopK} {
			if q.Params[p] != nil {
				w.dropParam(p) // not beside thinking
			}
		}
	}
	for p := range paramCount {
		if w.rules.params[p] == "" {
			w.value(p) // lists it
		}
	}
	if len(q.Stop) > 0 {
		w.texts("stop_sequences", w.stops(len(q.Stop)))
	}
	if user := w.value(UserID); user != nil {
		w.member("metadata", append(append(raw(`{"user_id":`), user...), '}'))
	}
	w.param(ServiceTier)
	w.anthropicOutput(thinking)
	if w.marksItself() {
		w.member("cache_control", raw(`{"type":"ephemeral"}`))
	}
	if q.Stream {
		w.bool("stream", true)
	}
	w.surplus = w.marks() - maxMarkers
	w.anthropicTools()
	if system := w.system(); len(system) > 0 {
		w.key("system")
		w.open('[')
		for _, p := range system {
			w.anthropicText(p)
		}
		w.close(']')
	}
	w.key("messages")
	w.open('[')
	for _, m := range w.messages {
		if err := w.anthropicMessage(m); err != nil {
			return err
		}
	}
	w.close(']')
	return nil
}

// claudeThinking is how a Claude model is asked to think.
type claudeThinking struct {
	off    bool
	budget int // 0 for adaptive
	effort string
}

// anthropicThinking returns the bound on the answer and how to think, nil for
// the model's default.
func (w *writer) anthropicThinking() (limit int, t *claudeThinking) {
	limit = w.o.maxTokens()
	given := false
	if v := w.value(MaxTokens); v != nil {
		limit, _ = v.int()
		given = true
	}
	g, model := w.q.Reasoning, claudeOf(w.model)
	field := w.client.reasoning
	switch {
	case g.Mode == "":
		return limit, nil
	case g.Mode == "off":
		if model.alwaysThinks() {
			w.drop(field)
			return limit, nil
		}
		return limit, &claudeThinking{off: true}
	case model.adaptive():
		if !given {
			limit += max(g.budget(), budgetHigh) // thinking counts
		}
		return limit, &claudeThinking{effort: named(g.effort(), "low", "medium", "high", "xhigh", "max")}
	}
	budget := g.budget()
	if budget == 0 {
		budget = budgetMedium
	}
	if !given {
		limit += budget
	}
	budget = min(budget, limit-1)
	if budget < 1024 || w.forced() || w.inLoopWithoutThinking() {
		w.drop(field)
		return limit, nil
	}
	return limit, &claudeThinking{budget: budget}
}

// forced reports whether a tool must be called: a budget of thinking does not go
// with that.
func (w *writer) forced() bool { return w.q.Choice.Mode == "any" }

// inLoopWithoutThinking reports whether results of tools come last and the
// client did not send back the thinking that led to the first or the latest of
// the calls. The API takes no budget of thinking then.
func (w *writer) inLoopWithoutThinking() bool {
	n := len(w.messages)
	for n > 0 && w.messages[n-1].Role == System {
		n--
	}
	if n == 0 || w.messages[n-1].Parts[0].Kind != ResultPart {
		return false
	}
	latest := true
	for _, m := range slices.Backward(w.messages[:n]) {
		switch {
		case m.Role == Assistant:
			if m.Parts[0].Kind != ThinkingPart {
				return true
			}
			latest = false
		case m.Role == User && !latest && m.Parts[0].Kind != ResultPart:
			return false
		}
	}
	return false
}

func (w *writer) anthropicOutput(t *claudeThinking) {
	o := w.q.Output
	if o.Kind == "json" || o.Kind == "schema" && o.Schema == nil {
		w.drop(w.client.output)
		o.Kind = ""
	}
	if t != nil {
		w.key("thinking")
		switch {
		case t.off:
			w.b = append(w.b, `{"type":"disabled"}`...)
		case t.budget > 0:
			w.b = append(strconv.AppendInt(append(w.b, `{"type":"enabled","budget_tokens":`...), int64(t.budget), 10), '}')
		case w.q.Reasoning.Show:
			w.b = append(w.b, `{"type":"adaptive","display":"summarized"}`...)
		default:
			w.b = append(w.b, `{"type":"adaptive"}`...)
		}
	}
	if t != nil && t.effort != "" || o.Kind != "" {
		w.key("output_config")
		w.open('{')
		if t != nil && t.effort != "" {
			w.string("effort", t.effort)
		}
		if o.Kind != "" {
			w.key("format")
			w.open('{')
			w.string("type", "json_schema")
			w.member("schema", o.Schema)
			w.close('}')
		}
		w.close('}')
	}
}

// marksItself reports whether the provider is asked to mark the last block: a
// client whose format knows no markers could cache nothing otherwise. A single
// question is not worth the price of writing it.
func (w *writer) marksItself() bool {
	if !w.o.Official {
		return false
	}
	talks := len(w.tools) > 0
	for _, m := range w.messages {
		talks = talks || m.Role == Assistant
		for _, p := range m.Parts {
			if p.Cache != nil {
				return false
			}
		}
	}
	for _, p := range w.q.System {
		if p.Cache != nil {
			return false
		}
	}
	return talks
}

func (w *writer) anthropicTools() {
	c := w.q.Choice
	if len(w.tools) == 0 {
		return
	}
	w.key("tools")
	w.open('[')
	for _, t := range w.tools {
		description, schema := w.function(t)
		w.open('{')
		w.string("name", w.names.upstream(t.ToolName))
		if !description.empty() {
			w.text("description", description)
		}
		w.member("input_schema", objectSchema(schema))
		if t.Strict.isTrue() {
			w.bool("strict", true)
		}
		w.mark(t.Cache)
		w.close('}')
	}
	w.close(']')
	if c.Mode == "" && !c.Single {
		return
	}
	w.key("tool_choice")
	w.open('{')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.string("type", "tool")
		w.string("name", w.names.upstream(c.Tools[0]))
	case c.Mode == "":
		w.string("type", "auto")
	default:
		w.string("type", c.Mode)
	}
	if c.Single && c.Mode != "none" {
		w.bool("disable_parallel_tool_use", true)
	}
	w.close('}')
}

// objectSchema returns a schema that says that it is one of an object, as some
// formats demand.
func objectSchema(v raw) raw {
	switch {
	case !v.isObject():
		return raw(`{"type":"object","properties":{}}`)
	case v.member("type") != nil:
		return v
	}
	out := append(raw(`{"type":"object"`), ',')
	rest := v[1:].trim()
	if len(rest) == 1 {
		return raw(`{"type":"object","properties":{}}`)
	}
	return append(out, rest...)
}

func (w *writer) anthropicText(p Part) {
	if p.Text.empty() {
		return
	}
	w.open('{')
	w.string("type", "text")
	w.text("text", p.Text)
	w.mark(p.Cache)
	w.close('}')
}

func (w *writer) anthropicMessage(m Message) error {
	w.open('{')
	switch m.Role {
	case User:
		w.string("role", "user")
	case Assistant:
		w.string("role", "assistant")
	case System:
		w.string("role", "system")
	}
	w.key("content")
	w.open('[')
	// Results stand before everything else that the user says.
	if m.Role == User {
		for _, p := range m.Parts {
			if p.Kind == ResultPart {
				if err := w.anthropicPart(p); err != nil {
					return err
				}
			}
		}
	}
	for _, p := range m.Parts {
		if p.Kind == ResultPart {
			continue
		}
		if err := w.anthropicPart(p); err != nil {
			return err
		}
	}
	w.close(']')
	w.close('}')
	return nil
}

func (w *writer) anthropicPart(p Part) error {
	switch p.Kind {
	case TextPart:
		w.anthropicText(p)
	case ThinkingPart:
		w.open('{')
		if w.own(p) && p.Sealed.Redacted {
			w.string("type", "redacted_thinking")
			w.string("data", p.Sealed.Data)
		} else {
			w.string("type", "thinking")
			w.text("thinking", p.Text)
			signature := p.Sealed.Data
			if !w.own(p) {
				signature = ""
			}
			w.string("signature", signature)
		}
		w.close('}')
	case CallPart:
		w.open('{')
		w.string("type", "tool_use")
		w.string("id", w.callID(p.ID))
		w.string("name", w.names.upstream(p.Tool))
		w.member("input", w.arguments(p))
		w.mark(p.Cache)
		w.close('}')
	case ResultPart:
		w.open('{')
		w.string("type", "tool_result")
		w.string("tool_use_id", w.callID(p.ID))
		if err := w.anthropicResult(p); err != nil {
			return err
		}
		if p.Failed {
			w.bool("is_error", true)
		}
		w.mark(p.Cache)
		w.close('}')
	case MediaPart:
		return w.anthropicMedia(p)
	}
	return nil
}

func (w *writer) anthropicResult(p Part) error {
	if len(p.Content) == 0 {
		return nil
	}
	w.key("content")
	if len(p.Content) == 1 && p.Content[0].Kind == TextPart && p.Content[0].Cache == nil {
		w.b = append(append(append(w.b, '"'), p.Content[0].Text...), '"')
		return nil
	}
	w.open('[')
	for _, c := range p.Content {
		if err := w.anthropicPart(c); err != nil {
			return err
		}
	}
	w.close(']')
	return nil
}

func (w *writer) anthropicMedia(p Part) error {
	if t, ok := textual(p); ok {
		w.anthropicText(t)
		return nil
	}
	m := p.Media
	kind := "document"
	switch {
	case strings.HasPrefix(m.Type, "image/"):
		kind = "image"
	case m.Type != "application/pdf":
		return w.refuseMedia(p)
	}
	w.open('{')
	w.string("type", kind)
	w.key("source")
	w.open('{')
	if m.Data.empty() {
		w.string("type", "url")
		w.text("url", m.URL)
	} else {
		w.string("type", "base64")
		w.string("media_type", m.Type)
		w.text("data", m.Data)
	}
	w.close('}')
	if kind == "document" && !m.Name.empty() {
		w.text("title", m.Name)
	}
	w.mark(p.Cache)
	w.close('}')
	return nil
}
