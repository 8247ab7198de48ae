// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"path"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// writer writes requests.
type writer struct{ *translate.Writer }

func (w writer) request() error {
	q := w.Request
	if system := w.System(); len(system) > 0 {
		w.Key("systemInstruction")
		w.Open('{')
		w.Key("parts")
		w.Open('[')
		for _, p := range system {
			w.DropCache(p.Cache, translate.InSystem)
			w.text(p, false)
		}
		w.Close(']')
		w.Close('}')
	}
	w.tools()
	w.Key("generationConfig")
	w.Open('{')
	for p := range translate.ParamCount {
		w.Param(p)
	}
	if len(q.Stop) > 0 {
		w.Texts("stopSequences", w.Stops(5))
	}
	w.format()
	w.thinking()
	w.Close('}')
	w.Key("contents")
	w.Open('[')
	var calls []translate.Part // calls in the model's last message
	err := w.EachMessage(func(m translate.Message) error {
		if err := w.message(m, calls); err != nil {
			return err
		}
		calls = nil
		for _, p := range m.Parts {
			if p.Kind == translate.CallPart {
				calls = append(calls, p)
			}
		}
		return nil
	})
	w.Close(']')
	return err
}

func (w writer) format() {
	switch o := w.Request.Output; o.Kind {
	case "json":
		w.Str("responseMimeType", "application/json")
	case "schema":
		w.Str("responseMimeType", "application/json")
		if o.Schema != nil {
			w.Member("responseJsonSchema", o.Schema)
		}
	}
}

func (w writer) thinking() {
	g := w.Request.Reasoning
	if g.Mode == "" && g.Effort == "" && !g.Show {
		return
	}
	w.Key("thinkingConfig")
	w.Open('{')
	switch {
	case g.Mode == "off":
		if Signs(w.Model) {
			w.Str("thinkingLevel", Level(w.Model, "minimal")) // these models always think
		} else {
			w.Int("thinkingBudget", 0)
		}
	case Signs(w.Model) && g.AsEffort() != "":
		w.Str("thinkingLevel", Level(w.Model, g.AsEffort()))
	case g.AsBudget() > 0:
		w.Int("thinkingBudget", min(g.AsBudget(), translate.BudgetHigh)) // the maximum that all models accept
	}
	if g.Show {
		w.Bool("includeThoughts", true)
	}
	w.Close('}')
}

func (w writer) tools() {
	c := w.Request.Choice
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	w.Open('{')
	w.Key("functionDeclarations")
	w.Open('[')
	w.EachTool(func(t translate.Tool) {
		description, schema := w.Function(t)
		w.Open('{')
		w.Str("name", w.Names.Upstream(t.ToolName))
		if !description.Empty() {
			w.Text("description", description)
		}
		if schema != nil {
			w.Member("parametersJsonSchema", schema)
		}
		w.Close('}')
		w.DropCache(t.Cache, translate.InTools)
		if t.Strict.IsTrue() {
			w.Drop(w.Client.Strict)
		}
	})
	w.Close(']')
	w.Close('}')
	w.Close(']')
	if c.Single {
		w.Drop(w.Client.Parallel)
	}
	if c.Mode == "" && len(c.Tools) == 0 {
		return
	}
	w.Key("toolConfig")
	w.Open('{')
	w.Key("functionCallingConfig")
	w.Open('{')
	mode := strings.ToUpper(c.Mode)
	switch {
	case mode == "":
		mode = "AUTO"
	case mode == "AUTO" && len(c.Tools) > 0:
		mode = "VALIDATED" // AUTO takes no allowed names
	}
	w.Str("mode", mode)
	if len(c.Tools) > 0 && mode != "NONE" {
		w.Key("allowedFunctionNames")
		w.Open('[')
		for _, t := range c.Tools {
			w.Comma()
			w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), w.Names.Upstream(t)), '"')
		}
		w.Close(']')
	}
	w.Close('}')
	w.Close('}')
}

// message writes one message. Results stand first, one for each call, in the order of the calls.
func (w writer) message(m translate.Message, calls []translate.Part) error {
	w.Open('{')
	role := "user"
	if m.Role == translate.Assistant {
		role = "model"
	}
	w.Str("role", role)
	w.Key("parts")
	w.Open('[')
	var beside []translate.Part
	if role == "user" {
		var err error
		if beside, err = w.results(m.Parts, calls); err != nil {
			return err
		}
	}
	for _, p := range beside {
		if err := w.media(p); err != nil {
			return err
		}
	}
	first := true
	for _, p := range m.Parts {
		w.DropCache(p.Cache, translate.InMessages)
		switch p.Kind {
		case translate.TextPart:
			w.text(p, false)
		case translate.ThinkingPart:
			w.text(p, true)
		case translate.CallPart:
			w.call(p, first)
			first = false
		case translate.MediaPart:
			if err := w.media(p); err != nil {
				return err
			}
		}
	}
	w.Close(']')
	w.Close('}')
	return nil
}

func (w writer) text(p translate.Part, thought bool) {
	signature := p.Signature
	if thought {
		if signature = ""; w.Native(p) {
			signature, thought = p.Sealed.Data, !p.Sealed.Said
		}
	}
	if p.Text.Empty() && signature == "" {
		return
	}
	w.Open('{')
	w.Text("text", p.Text)
	if thought {
		w.Bool("thought", true)
	}
	if signature != "" {
		w.Str("thoughtSignature", signature)
	}
	w.Close('}')
}

// call writes a call.
func (w writer) call(p translate.Part, first bool) {
	w.Open('{')
	w.Key("functionCall")
	w.Open('{')
	w.Str("id", p.ID)
	w.Str("name", w.Names.Upstream(p.Tool))
	w.Member("args", w.Arguments(p))
	w.Close('}')
	switch {
	case p.Signature != "":
		w.Str("thoughtSignature", p.Signature)
	case first && Signs(w.Model):
		// The first call of a turn must be signed.
		w.Str("thoughtSignature", SkipValidator)
	}
	w.Close('}')
}

// results writes the results of the given calls. It returns the media to write next to the results.
func (w writer) results(parts, calls []translate.Part) (beside []translate.Part, err error) {
	results, called := map[string]int{}, map[string]struct{}{}
	for i, p := range parts {
		if p.Kind == translate.ResultPart {
			results[p.ID] = i
		}
	}
	order := make([]translate.Part, 0, max(len(calls), len(parts)))
	for _, c := range calls {
		called[c.ID] = struct{}{}
		// The API refuses a call without a result.
		result := translate.Part{Kind: translate.ResultPart, ID: c.ID}
		if i, ok := results[c.ID]; ok {
			result = parts[i]
		}
		order = append(order, result)
	}
	for _, p := range parts {
		if _, known := called[p.ID]; p.Kind == translate.ResultPart && !known {
			order = append(order, p)
		}
	}
	inside := Signs(w.Model) // only newer models take media inside a result
	for _, p := range order {
		tool, ok := w.Called[p.ID]
		if !ok {
			tool = p.Tool
		}
		var media []translate.Part
		for _, c := range p.Content {
			if c, _ = translate.Textual(c); c.Kind == translate.MediaPart {
				media = append(media, c)
			}
		}
		w.Open('{')
		w.Key("functionResponse")
		w.Open('{')
		w.Str("id", p.ID)
		w.Str("name", w.Names.Upstream(tool))
		w.response(p)
		if inside && len(media) > 0 {
			w.Key("parts")
			w.Open('[')
			for _, c := range media {
				if err := w.media(c); err != nil {
					return nil, err
				}
			}
			w.Close(']')
		} else {
			beside = append(beside, media...)
		}
		w.Close('}')
		w.Close('}')
	}
	return beside, nil
}

func (w writer) response(p translate.Part) {
	var texts []translate.Part
	for _, c := range p.Content {
		if c, _ = translate.Textual(c); c.Kind == translate.TextPart {
			texts = append(texts, c)
		}
	}
	t := translate.Joined(texts)
	if object := structured(t); object != nil && !p.Failed {
		// Tools that answer in JSON need no wrapper.
		w.Member("response", object)
		return
	}
	w.Key("response")
	w.Open('{')
	if p.Failed {
		w.Text("error", t)
	} else {
		w.Text("output", t)
	}
	w.Close('}')
}

// structured returns a text that is a JSON object, nil for other texts.
func structured(t rawjson.Text) rawjson.Value {
	if len(t) < 2 || t[0] != '{' || t[len(t)-1] != '}' {
		return nil
	}
	b := rawjson.Value(t.AppendDecoded(make([]byte, 0, len(t))))
	if translate.WellFormed(b) != nil {
		return nil
	}
	// The reader would take an object with a sole text for a wrapper of this text, and the API would
	// round long numbers.
	if _, only := soleText(b); only != nil || b.Absent() || rounds(b) {
		return nil
	}
	return b
}

// rounds reports whether the JSON may contain a number that the API would round.
func rounds(b rawjson.Value) bool {
	// The API stores all numbers as 64-bit floats.
	const exact = 15 // decimal digits that every 64-bit float can represent
	for i, digits := 0, 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			i = rawjson.SkipString(b, i) - 1
		case c >= '0' && c <= '9':
			if digits++; digits > exact {
				return true
			}
			continue
		case c == '.':
			continue
		case c == 'e' && digits > 0, c == 'E':
			return true
		}
		digits = 0
	}
	return false
}

func (w writer) media(p translate.Part) error {
	if t, ok := translate.Textual(p); ok {
		w.text(t, false)
		return nil
	}
	m := p.Media
	w.Open('{')
	if m.Data.Empty() {
		w.Key("fileData")
		w.Open('{')
		w.Str("mimeType", guessType(m))
		w.Text("fileUri", m.URL)
		w.Close('}')
	} else {
		w.Key("inlineData")
		w.Open('{')
		w.Str("mimeType", m.Type)
		w.Text("data", m.Data)
		w.Close('}')
	}
	w.Close('}')
	return nil
}

// guessType returns the media type of a medium, for an image at a URL by the extension of its name.
func guessType(m *translate.Media) string {
	if !strings.HasSuffix(m.Type, "/*") {
		return m.Type
	}
	name, _, _ := strings.Cut(m.URL.Decoded(), "?")
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
