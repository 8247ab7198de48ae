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
	"path"
	"strings"
)

func (w *writer) gemini() error {
	q := w.q
	if system := w.system(); len(system) > 0 {
		w.key("systemInstruction")
		w.open('{')
		w.key("parts")
		w.open('[')
		for _, p := range system {
			w.dropCache(p.Cache, inSystem)
			w.geminiText(p, false)
		}
		w.close(']')
		w.close('}')
	}
	w.geminiTools()
	w.key("generationConfig")
	w.open('{')
	for p := range paramCount {
		w.param(p)
	}
	if len(q.Stop) > 0 {
		w.texts("stopSequences", w.stops(5))
	}
	w.geminiFormat()
	w.geminiThinking()
	w.close('}')
	w.key("contents")
	w.open('[')
	var calls []Part // of the last turn of the model
	for _, m := range w.messages {
		if err := w.geminiMessage(m, calls); err != nil {
			return err
		}
		calls = nil
		for _, p := range m.Parts {
			if p.Kind == CallPart {
				calls = append(calls, p)
			}
		}
	}
	w.close(']')
	return nil
}

func (w *writer) geminiFormat() {
	switch o := w.q.Output; o.Kind {
	case "json":
		w.string("responseMimeType", "application/json")
	case "schema":
		w.string("responseMimeType", "application/json")
		if o.Schema != nil {
			w.member("responseJsonSchema", o.Schema)
		}
	}
}

func (w *writer) geminiThinking() {
	g := w.q.Reasoning
	if g.Mode == "" && g.Effort == "" && !g.Show {
		return
	}
	w.key("thinkingConfig")
	w.open('{')
	switch {
	case g.Mode == "off":
		if signs(w.model) {
			w.string("thinkingLevel", w.geminiLevel("minimal")) // it always thinks
		} else {
			w.int("thinkingBudget", 0)
		}
	case signs(w.model) && g.effort() != "":
		w.string("thinkingLevel", w.geminiLevel(g.effort()))
	case g.budget() > 0:
		w.int("thinkingBudget", min(g.budget(), budgetHigh)) // the most that all models take
	}
	if g.Show {
		w.bool("includeThoughts", true)
	}
	w.close('}')
}

// geminiLevel returns a level of thinking that the model knows.
func (w *writer) geminiLevel(effort string) string {
	if strings.Contains(w.model, "flash") {
		return named(effort, "minimal", "low", "medium", "high")
	}
	return named(effort, "low", "medium", "high")
}

func (w *writer) geminiTools() {
	c := w.q.Choice
	if len(w.tools) == 0 {
		return
	}
	w.key("tools")
	w.open('[')
	w.open('{')
	w.key("functionDeclarations")
	w.open('[')
	for _, t := range w.tools {
		description, schema := w.function(t)
		w.open('{')
		w.string("name", w.names.upstream(t.ToolName))
		if !description.empty() {
			w.text("description", description)
		}
		if schema != nil {
			w.member("parametersJsonSchema", schema)
		}
		w.close('}')
		w.dropCache(t.Cache, inTools)
		if t.Strict.isTrue() {
			w.drop(w.client.strict)
		}
	}
	w.close(']')
	w.close('}')
	w.close(']')
	if c.Single {
		w.drop(w.client.parallel)
	}
	if c.Mode == "" && len(c.Tools) == 0 {
		return
	}
	w.key("toolConfig")
	w.open('{')
	w.key("functionCallingConfig")
	w.open('{')
	mode := strings.ToUpper(c.Mode)
	switch {
	case mode == "":
		mode = "AUTO"
	case mode == "AUTO" && len(c.Tools) > 0:
		mode = "VALIDATED" // AUTO takes no names
	}
	w.string("mode", mode)
	if len(c.Tools) > 0 && mode != "NONE" {
		w.key("allowedFunctionNames")
		w.open('[')
		for _, t := range c.Tools {
			w.comma()
			w.b = append(appendEscaped(append(w.b, '"'), w.names.upstream(t)), '"')
		}
		w.close(']')
	}
	w.close('}')
	w.close('}')
}

// geminiMessage writes one turn. Results stand first, in the order of the
// calls, one for each.
func (w *writer) geminiMessage(m Message, calls []Part) error {
	w.open('{')
	role := "user"
	if m.Role == Assistant {
		role = "model"
	}
	w.string("role", role)
	w.key("parts")
	w.open('[')
	var beside []Part
	if role == "user" {
		var err error
		if beside, err = w.geminiResults(m.Parts, calls); err != nil {
			return err
		}
	}
	for _, p := range beside {
		if err := w.geminiMedia(p); err != nil {
			return err
		}
	}
	first := true
	for _, p := range m.Parts {
		w.dropCache(p.Cache, inMessages)
		switch p.Kind {
		case TextPart:
			w.geminiText(p, false)
		case ThinkingPart:
			w.geminiText(p, true)
		case CallPart:
			w.geminiCall(p, first)
			first = false
		case MediaPart:
			if err := w.geminiMedia(p); err != nil {
				return err
			}
		}
	}
	w.close(']')
	w.close('}')
	return nil
}

func (w *writer) geminiText(p Part, thought bool) {
	signature := p.Signature
	if thought {
		if signature = ""; w.own(p) {
			signature = p.Sealed.Data
		}
	}
	if p.Text.empty() && signature == "" {
		return
	}
	w.open('{')
	w.text("text", p.Text)
	if thought {
		w.bool("thought", true)
	}
	if signature != "" {
		w.string("thoughtSignature", signature)
	}
	w.close('}')
}

// geminiCall writes a call. The first one of a turn must be signed; what stands
// for the signature of a call made elsewhere is Google's own word.
func (w *writer) geminiCall(p Part, first bool) {
	w.open('{')
	w.key("functionCall")
	w.open('{')
	w.string("id", p.ID)
	w.string("name", w.names.upstream(p.Tool))
	w.member("args", w.arguments(p))
	w.close('}')
	switch {
	case p.Signature != "":
		w.string("thoughtSignature", p.Signature)
	case first && signs(w.model):
		w.string("thoughtSignature", skipValidator)
	}
	w.close('}')
}

// geminiResults writes the results of the calls before them and returns the
// media that stand beside them. A call without a result gets an empty one.
func (w *writer) geminiResults(parts, calls []Part) (beside []Part, err error) {
	var order []Part
	for _, c := range calls {
		result := Part{Kind: ResultPart, ID: c.ID}
		for _, p := range parts {
			if p.Kind == ResultPart && p.ID == c.ID {
				result = p
			}
		}
		order = append(order, result)
	}
	for _, p := range parts {
		if p.Kind != ResultPart {
			continue
		}
		known := false
		for _, c := range calls {
			known = known || c.ID == p.ID
		}
		if !known {
			order = append(order, p)
		}
	}
	inside := signs(w.model)
	for _, p := range order {
		tool, ok := w.called[p.ID]
		if !ok {
			tool = p.Tool
		}
		var media []Part
		for _, c := range p.Content {
			if c, _ = textual(c); c.Kind == MediaPart {
				media = append(media, c)
			}
		}
		w.open('{')
		w.key("functionResponse")
		w.open('{')
		w.string("id", p.ID)
		w.string("name", w.names.upstream(tool))
		w.geminiResponse(p)
		if inside && len(media) > 0 {
			w.key("parts")
			w.open('[')
			for _, c := range media {
				if err := w.geminiMedia(c); err != nil {
					return nil, err
				}
			}
			w.close(']')
		} else {
			beside = append(beside, media...)
		}
		w.close('}')
		w.close('}')
	}
	return beside, nil
}

// geminiResponse writes the object that holds a result: itself where the text
// is a JSON object, else the text as its only member.
func (w *writer) geminiResponse(p Part) {
	var texts []Part
	for _, c := range p.Content {
		if c, _ = textual(c); c.Kind == TextPart {
			texts = append(texts, c)
		}
	}
	t := joined(texts)
	if object := structured(t); object != nil && !p.Failed {
		w.member("response", object)
		return
	}
	w.key("response")
	w.open('{')
	if p.Failed {
		w.text("error", t)
	} else {
		w.text("output", t)
	}
	w.close('}')
}

// structured returns a text that is a JSON object, unless reading it back would
// take it for the wrapper of a text.
func structured(t text) raw {
	if len(t) < 2 || t[0] != '{' || t[len(t)-1] != '}' {
		return nil
	}
	b := raw(t.appendDecoded(make([]byte, 0, len(t))))
	if wellFormed(b) != nil {
		return nil
	}
	if _, only := soleText(b); only != nil || b.absent() {
		return nil
	}
	return b
}

func (w *writer) geminiMedia(p Part) error {
	if t, ok := textual(p); ok {
		w.geminiText(t, false)
		return nil
	}
	m := p.Media
	if m == nil {
		return w.refuseMedia(p)
	}
	w.open('{')
	if m.Data.empty() {
		w.key("fileData")
		w.open('{')
		w.string("mimeType", guessType(m))
		w.text("fileUri", m.URL)
		w.close('}')
	} else {
		w.key("inlineData")
		w.open('{')
		w.string("mimeType", m.Type)
		w.text("data", m.Data)
		w.close('}')
	}
	w.close('}')
	return nil
}

// guessType returns the media type of what lies at a URL, by its name.
func guessType(m *Media) string {
	if !strings.HasSuffix(m.Type, "/*") {
		return m.Type
	}
	name, _, _ := strings.Cut(m.URL.decoded(), "?")
	switch strings.ToLower(path.Ext(name)) {
	case ".png":
		return "image/png"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	}
	return "image/jpeg"
}
