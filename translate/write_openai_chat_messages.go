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
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func (w *writer) chatMessage(m Message) error {
	switch m.Role {
	case System:
		w.open('{')
		role := "system"
		if w.o.Official {
			role = "developer"
		}
		w.string("role", role)
		err := w.chatContent(m.Parts, inMessages)
		w.close('}')
		return err
	case Assistant:
		return w.chatAssistant(m.Parts)
	}
	rest, err := w.chatResults(m.Parts)
	if err != nil || len(rest) == 0 {
		return err
	}
	w.open('{')
	w.string("role", "user")
	err = w.chatContent(rest, inMessages)
	w.close('}')
	return err
}

// chatResults writes the results of a user's message, each a message of its
// own, and returns what the user says besides. Images have no place in a
// result, they follow as the user's. Reminders go into the last result: a
// user's message between results makes chat templates drop the thinking.
func (w *writer) chatResults(parts []Part) (rest []Part, err error) {
	last := -1
	for i, p := range parts {
		if p.Kind == ResultPart {
			last = i
		}
	}
	if last < 0 {
		return parts, nil
	}
	var notes []Part
	for _, p := range parts {
		switch {
		case p.Kind == ResultPart:
		case isReminder(p) && !w.o.Official && (p.Cache == nil || !w.o.CacheControl && !w.o.Breakpoints):
			notes = append(notes, p)
		default:
			rest = append(rest, p)
		}
	}
	var media []Part
	for i, p := range parts {
		if p.Kind != ResultPart {
			continue
		}
		w.open('{')
		w.string("role", "tool")
		w.string("tool_call_id", w.callID(p.ID))
		content := make([]Part, 0, len(p.Content)+len(notes))
		for _, c := range p.Content {
			if c, _ = textual(c); c.Kind == MediaPart {
				media = append(media, c)
				continue
			}
			content = append(content, c)
		}
		if len(content) == 0 && len(media) > 0 {
			content = append(content, Part{Text: text("The content of this result follows.")})
		}
		if i == last {
			content = append(content, notes...)
		}
		if p.Cache != nil && len(content) > 0 && content[len(content)-1].Cache == nil {
			content[len(content)-1].Cache = p.Cache
		}
		w.dropFailed(p)
		if len(content) == 0 {
			w.string("content", "")
		} else if err := w.chatContent(content, inMessages); err != nil {
			return nil, err
		}
		w.close('}')
	}
	return append(media, rest...), nil
}

// chatContent writes the content of a message: one string where it is text,
// else parts.
func (w *writer) chatContent(parts []Part, place string) error {
	plain, marked := true, false
	for _, p := range parts {
		plain = plain && p.Kind == TextPart
		marked = marked || p.Cache != nil
	}
	keep := marked && (w.o.CacheControl || w.o.Breakpoints)
	if marked && !keep {
		w.drop(w.client.markerField(place))
	}
	if plain && !keep && (len(parts) == 1 || !w.o.Official) {
		w.text("content", joined(parts))
		return nil
	}
	w.key("content")
	w.open('[')
	for _, p := range parts {
		if p.Kind == TextPart {
			if p.Text.empty() {
				continue
			}
			w.open('{')
			w.string("type", "text")
			w.text("text", p.Text)
		} else if err := w.chatMedia(p); err != nil {
			return err
		}
		w.openAIMarker(p)
		w.close('}')
	}
	w.close(']')
	return nil
}

// openAIMarker writes a marker where the upstream takes one.
func (w *writer) openAIMarker(p Part) {
	switch {
	case p.Cache == nil:
	case w.o.Breakpoints:
		w.member("prompt_cache_breakpoint", raw(`{"mode":"explicit"}`))
	case w.o.CacheControl && w.to.Traits().ServersVary:
		w.member("cache_control", p.Cache)
	}
}

// chatMedia writes a medium, its brace left open.
func (w *writer) chatMedia(p Part) error {
	m := p.Media
	if m == nil {
		return w.refuseMedia(p)
	}
	switch {
	case strings.HasPrefix(m.Type, "image/"):
		w.open('{')
		w.string("type", "image_url")
		w.key("image_url")
		w.open('{')
		w.mediaURL("url", m)
		if m.Detail != nil {
			w.member("detail", m.Detail)
		}
		w.close('}')
	case strings.HasPrefix(m.Type, "audio/") && !m.Data.empty():
		w.open('{')
		w.string("type", "input_audio")
		w.key("input_audio")
		w.open('{')
		w.text("data", m.Data)
		format := strings.TrimPrefix(m.Type, "audio/")
		if format == "mpeg" {
			format = "mp3"
		}
		w.string("format", strings.TrimPrefix(format, "x-"))
		w.close('}')
	case m.Type == "application/pdf" && !m.Data.empty():
		w.open('{')
		w.string("type", "file")
		w.key("file")
		w.open('{')
		w.fileName(m)
		w.mediaURL("file_data", m)
		w.close('}')
	default:
		return w.refuseMedia(p)
	}
	return nil
}

// fileName writes the name of a document, which OpenAI demands.
func (w *writer) fileName(m *Media) {
	if m.Name.empty() {
		w.string("filename", "document.pdf")
	} else {
		w.text("filename", m.Name)
	}
}

// mediaURL writes a medium as its URL, or a data URL.
func (w *writer) mediaURL(name string, m *Media) {
	if m.Data.empty() {
		w.text(name, m.URL)
		return
	}
	w.key(name)
	w.b = appendEscaped(append(w.b, `"data:`...), m.Type)
	w.b = append(append(append(w.b, ";base64,"...), m.Data...), '"')
}

func (w *writer) chatAssistant(parts []Part) error {
	w.open('{')
	w.string("role", "assistant")
	var thinking, said []Part
	calls := false
	for _, p := range parts {
		switch p.Kind {
		case ThinkingPart:
			if !p.Text.empty() {
				thinking = append(thinking, Part{Text: p.Text})
			}
		case TextPart:
			said = append(said, p)
		case CallPart:
			calls = true
		}
	}
	if len(thinking) > 0 {
		w.text("reasoning_content", joined(thinking))
		w.chatDetails(parts)
	}
	switch {
	case len(said) > 0:
		// Only text of the user can be a breakpoint.
		if !w.o.CacheControl {
			said = unmarked(said)
		}
		if err := w.chatContent(said, inMessages); err != nil {
			return err
		}
	case calls:
		w.member("content", raw("null"))
	default:
		w.string("content", "")
	}
	if calls {
		w.chatCalls(parts)
	}
	w.close('}')
	return nil
}

// unmarked returns parts without their markers.
func unmarked(parts []Part) []Part {
	if !slices.ContainsFunc(parts, func(p Part) bool { return p.Cache != nil }) {
		return parts
	}
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Cache = nil
	}
	return parts
}

// chatDetails writes Claude's signatures for gateways that lead to Claude.
func (w *writer) chatDetails(parts []Part) {
	if !w.o.CacheControl {
		return
	}
	w.key("reasoning_details")
	w.open('[')
	for _, p := range parts {
		if p.Kind == ThinkingPart && p.Sealed.Format == wire.Anthropic && !p.Sealed.Redacted && p.Sealed.Data != "" {
			w.open('{')
			w.string("type", "reasoning.text")
			w.text("text", p.Text)
			w.string("signature", p.Sealed.Data)
			w.close('}')
		}
	}
	w.close(']')
}

func (w *writer) chatCalls(parts []Part) {
	w.key("tool_calls")
	w.open('[')
	first := true
	for _, p := range parts {
		if p.Kind != CallPart {
			continue
		}
		w.open('{')
		w.string("id", w.callID(p.ID))
		w.string("type", "function")
		w.key("function")
		w.open('{')
		w.string("name", w.names.upstream(p.Tool))
		w.quoted("arguments", w.arguments(p))
		w.close('}')
		// Gemini's endpoint for chat completions keeps its signatures here.
		signature := p.Signature
		if signature == "" && first && signs(w.model) {
			signature = skipValidator
		}
		if signature != "" && strings.Contains(w.model, "gemini") {
			w.key("extra_content")
			w.open('{')
			w.key("google")
			w.open('{')
			w.string("thought_signature", signature)
			w.close('}')
			w.close('}')
		}
		w.dropCallCache(p)
		w.close('}')
		first = false
	}
	w.close(']')
}

func (w *writer) dropCallCache(p Part) {
	w.dropCache(p.Cache, inMessages)
}
