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

import "strings"

func (w *writer) responses() error {
	q := w.q
	w.string("model", w.model)
	for p := range paramCount {
		if p != Verbosity {
			w.param(p)
		}
	}
	w.stops(0)
	if effort := w.openAIEffort(); effort != "" || q.Reasoning.Show && w.o.Official && reasons(w.model) {
		w.key("reasoning")
		w.open('{')
		if effort != "" {
			w.string("effort", effort)
		}
		if q.Reasoning.Show {
			w.string("summary", "auto")
		}
		w.close('}')
	}
	w.responsesText()
	w.bool("store", false)
	w.member("include", raw(`["reasoning.encrypted_content"]`))
	if q.Stream {
		w.bool("stream", true)
	}
	system := w.system()
	if len(system) > 0 && len(w.messages) > 0 {
		w.text("instructions", joined(system))
		for _, p := range system {
			w.dropCache(p.Cache, inSystem)
		}
	}
	w.responsesTools()
	w.key("input")
	w.open('[')
	if len(w.messages) == 0 { // an input of nothing would be refused
		if err := w.responsesSaid("developer", system); err != nil {
			return err
		}
	}
	for _, m := range w.messages {
		if err := w.responsesMessage(m); err != nil {
			return err
		}
	}
	w.close(']')
	return nil
}

func (w *writer) responsesText() {
	o, verbosity := w.q.Output, w.value(Verbosity)
	if o.Kind == "" && verbosity == nil {
		return
	}
	w.key("text")
	w.open('{')
	switch o.Kind {
	case "json":
		w.member("format", raw(`{"type":"json_object"}`))
	case "schema":
		w.key("format")
		w.open('{')
		w.string("type", "json_schema")
		w.schemaNames(o)
		w.close('}')
	}
	if verbosity != nil {
		w.member("verbosity", verbosity)
	}
	w.close('}')
}

func (w *writer) responsesTools() {
	c := w.q.Choice
	if len(w.tools) == 0 {
		return
	}
	w.key("tools")
	w.open('[')
	for _, t := range w.tools {
		w.open('{')
		if t.Custom {
			w.string("type", "custom")
			w.string("name", w.names.upstream(t.ToolName))
			w.text("description", t.Description)
			w.customFormat(t.Format)
		} else {
			w.string("type", "function")
			w.string("name", w.names.upstream(t.ToolName))
			if !t.Description.empty() {
				w.text("description", t.Description)
			}
			w.member("parameters", objectSchema(t.Schema))
			w.bool("strict", t.Strict.isTrue()) // unset would mean true here
		}
		w.dropCache(t.Cache, inTools)
		w.close('}')
	}
	w.close(']')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.key("tool_choice")
		w.responsesTool(c.Tools[0])
	case len(c.Tools) > 0 && w.o.Official && c.Mode != "none":
		w.key("tool_choice")
		w.open('{')
		w.string("type", "allowed_tools")
		w.string("mode", openAIMode(c.Mode))
		w.key("tools")
		w.open('[')
		for _, t := range c.Tools {
			w.responsesTool(t)
		}
		w.close(']')
		w.close('}')
	case c.Mode != "":
		w.string("tool_choice", openAIMode(c.Mode))
	}
	w.parallel()
}

func (w *writer) responsesTool(t ToolName) {
	w.open('{')
	kind := "function"
	if t.Custom {
		kind = "custom"
	}
	w.string("type", kind)
	w.string("name", w.names.upstream(t))
	w.close('}')
}

// customFormat writes the grammar of a custom tool, which chat nests.
func (w *writer) customFormat(format raw) {
	if format == nil {
		return
	}
	grammar := format.member("grammar")
	if !grammar.isObject() {
		w.member("format", format)
		return
	}
	w.key("format")
	w.open('{')
	w.string("type", "grammar")
	for key, v := range grammar.members() {
		if key == "definition" || key == "syntax" {
			w.member(key, v)
		}
	}
	w.close('}')
}

func (w *writer) responsesMessage(m Message) error {
	switch m.Role {
	case System:
		return w.responsesSaid("developer", m.Parts)
	case Assistant:
		w.responsesAssistant(m.Parts)
		return nil
	}
	var rest, notes []Part
	last := -1
	for i, p := range m.Parts {
		if p.Kind == ResultPart {
			last = i
		}
	}
	for _, p := range m.Parts {
		switch {
		case p.Kind == ResultPart:
		case last >= 0 && isReminder(p) && !w.o.Official:
			notes = append(notes, p)
		default:
			rest = append(rest, p)
		}
	}
	for i, p := range m.Parts {
		if p.Kind != ResultPart {
			continue
		}
		content := p.Content
		if i == last {
			content = append(content[:len(content):len(content)], notes...)
		}
		if err := w.responsesResult(p, content); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return w.responsesSaid("user", rest)
}

func (w *writer) responsesResult(p Part, content []Part) error {
	w.open('{')
	kind := "function_call_output"
	if w.called[p.ID].Custom {
		kind = "custom_tool_call_output"
	}
	w.string("type", kind)
	w.string("call_id", w.callID(p.ID))
	w.dropFailed(p)
	w.dropCache(p.Cache, inMessages)
	plain := true
	for _, c := range content {
		plain = plain && c.Kind == TextPart
	}
	if plain && (len(content) <= 1 || !w.o.Official) {
		w.text("output", joined(content))
		w.close('}')
		return nil
	}
	err := w.responsesContent("output", content)
	w.close('}')
	return err
}

func (w *writer) responsesSaid(role string, parts []Part) error {
	w.open('{')
	w.string("type", "message")
	w.string("role", role)
	err := w.responsesContent("content", parts)
	w.close('}')
	return err
}

func (w *writer) responsesContent(name string, parts []Part) error {
	w.key(name)
	w.open('[')
	for _, p := range parts {
		if p, _ = textual(p); p.Kind == TextPart {
			if p.Text.empty() {
				continue
			}
			w.open('{')
			w.string("type", "input_text")
			w.text("text", p.Text)
		} else if err := w.responsesMedia(p); err != nil {
			return err
		}
		if p.Cache != nil && !w.o.Breakpoints {
			w.drop(w.client.markerField(inMessages))
		}
		w.openAIMarker(p)
		w.close('}')
	}
	w.close(']')
	return nil
}

// responsesMedia writes a medium, its brace left open.
func (w *writer) responsesMedia(p Part) error {
	m := p.Media
	switch {
	case m == nil:
		return w.refuseMedia(p)
	case strings.HasPrefix(m.Type, "image/"):
		w.open('{')
		w.string("type", "input_image")
		w.mediaURL("image_url", m)
		if m.Detail != nil {
			w.member("detail", m.Detail)
		}
	case m.Type == "application/pdf":
		w.open('{')
		w.string("type", "input_file")
		if m.Data.empty() {
			w.text("file_url", m.URL)
		} else {
			w.fileName(m)
			w.mediaURL("file_data", m)
		}
	default:
		return w.refuseMedia(p)
	}
	return nil
}

// responsesAssistant writes what the model said as items.
func (w *writer) responsesAssistant(parts []Part) {
	for _, p := range parts {
		switch p.Kind {
		case ThinkingPart:
			w.responsesReasoning(p)
		case TextPart:
			if p.Text.empty() {
				continue
			}
			w.dropCache(p.Cache, inMessages)
			w.open('{')
			w.string("type", "message")
			w.string("role", "assistant")
			w.key("content")
			w.open('[')
			w.open('{')
			w.string("type", "output_text")
			w.text("text", p.Text)
			w.close('}')
			w.close(']')
			w.close('}')
		case CallPart:
			w.dropCache(p.Cache, inMessages)
			w.open('{')
			if p.Tool.Custom {
				w.string("type", "custom_tool_call")
				w.string("call_id", w.callID(p.ID))
				w.string("name", w.names.upstream(p.Tool))
				w.text("input", p.Text)
			} else {
				w.string("type", "function_call")
				w.string("call_id", w.callID(p.ID))
				w.string("name", w.names.upstream(p.Tool))
				w.quoted("arguments", w.arguments(p))
			}
			w.close('}')
		}
	}
}

// responsesReasoning writes a reasoning item. Its id is left out: it would
// point at something that is not stored.
func (w *writer) responsesReasoning(p Part) {
	w.open('{')
	w.string("type", "reasoning")
	w.key("summary")
	w.open('[')
	own := w.own(p)
	if own && !p.Text.empty() {
		w.open('{')
		w.string("type", "summary_text")
		w.text("text", p.Text)
		w.close('}')
	}
	w.close(']')
	if own {
		w.string("encrypted_content", p.Sealed.Data)
	} else {
		w.key("content")
		w.open('[')
		w.open('{')
		w.string("type", "reasoning_text")
		w.text("text", p.Text)
		w.close('}')
		w.close(']')
	}
	w.close('}')
}
