// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func (w writer) message(m translate.Message) error {
	switch m.Role {
	case translate.System:
		w.Open('{')
		role := "system"
		if w.Options.Official {
			role = "developer"
		}
		w.Str("role", role)
		err := w.content(m.Parts, translate.InMessages)
		w.Close('}')
		return err
	case translate.Assistant:
		return w.assistant(m.Parts)
	}
	rest, err := w.results(m.Parts)
	if err != nil || len(rest) == 0 {
		return err
	}
	w.Open('{')
	w.Str("role", "user")
	err = w.content(rest, translate.InMessages)
	w.Close('}')
	return err
}

// results writes the tool results of a user message. It returns the parts for the user message after them.
func (w writer) results(parts []translate.Part) (rest []translate.Part, err error) {
	last := -1
	for i, p := range parts {
		if p.Kind == translate.ResultPart {
			last = i
		}
	}
	if last < 0 {
		return parts, nil
	}
	// Reminders go into the last result. A user message between results makes chat templates drop
	// the thinking.
	var reminders []translate.Part
	for _, p := range parts {
		switch {
		case p.Kind == translate.ResultPart:
		case translate.IsReminder(p) && !w.Options.Official &&
			(p.Cache == nil || !w.Options.CacheControl && !w.Options.Breakpoints):
			reminders = append(reminders, p)
		default:
			rest = append(rest, p)
		}
	}
	// A result cannot contain media, so they follow in the user message.
	var media []translate.Part
	for i, p := range parts {
		if p.Kind != translate.ResultPart {
			continue
		}
		w.Open('{')
		w.Str("role", "tool")
		w.Str("tool_call_id", w.CallID(p.ID))
		content, before := make([]translate.Part, 0, len(p.Content)+len(reminders)), len(media)
		for _, c := range p.Content {
			if c, _ = translate.Textual(c); c.Kind == translate.MediaPart {
				media = append(media, c)
				continue
			}
			content = append(content, c)
		}
		if len(content) == 0 && len(media) > before {
			content = append(content, translate.Part{Text: rawjson.Text("The content of this result follows.")})
		}
		if i == last {
			content = append(content, reminders...)
		}
		if p.Cache != nil && len(content) > 0 && content[len(content)-1].Cache == nil {
			content[len(content)-1].Cache = p.Cache
		}
		w.DropFailed(p)
		if len(content) == 0 {
			w.Str("content", "")
		} else if err := w.content(content, translate.InMessages); err != nil {
			return nil, err
		}
		w.Close('}')
	}
	return append(media, rest...), nil
}

// content writes the content of a message: one string if possible, else a list of parts.
func (w writer) content(parts []translate.Part, place string) error {
	plain, marked := true, false
	for _, p := range parts {
		plain = plain && p.Kind == translate.TextPart
		marked = marked || p.Cache != nil
	}
	keep := marked && (w.Options.CacheControl || w.Options.Breakpoints)
	if marked && !keep {
		w.Drop(w.Client.MarkerField(place))
	}
	if plain && !keep && (len(parts) == 1 || !w.Options.Official) {
		w.Joined("content", parts)
		return nil
	}
	w.Key("content")
	w.Open('[')
	for _, p := range parts {
		if p.Kind == translate.TextPart {
			if p.Text.Empty() {
				continue
			}
			w.Open('{')
			w.Str("type", "text")
			w.Text("text", p.Text)
		} else if err := w.media(p); err != nil {
			return err
		}
		w.Marker(p)
		w.Close('}')
	}
	w.Close(']')
	return nil
}

// media writes a medium without the closing brace.
func (w writer) media(p translate.Part) error {
	m := p.Media
	switch {
	case strings.HasPrefix(m.Type, "image/"):
		w.Open('{')
		w.Str("type", "image_url")
		w.Key("image_url")
		w.Open('{')
		w.MediaURL("url", m)
		if m.Detail != nil {
			w.Member("detail", m.Detail)
		}
		w.Close('}')
	case strings.HasPrefix(m.Type, "audio/") && !m.Data.Empty():
		w.Open('{')
		w.Str("type", "input_audio")
		w.Key("input_audio")
		w.Open('{')
		w.Text("data", m.Data)
		format := strings.TrimPrefix(m.Type, "audio/")
		if format == "mpeg" {
			format = "mp3"
		}
		w.Str("format", strings.TrimPrefix(format, "x-"))
		w.Close('}')
	case m.Type == "application/pdf" && !m.Data.Empty():
		w.Open('{')
		w.Str("type", "file")
		w.Key("file")
		w.Open('{')
		w.FileName(m)
		w.MediaURL("file_data", m)
		w.Close('}')
	default:
		w.Open('{')
		w.Str("type", "text")
		w.Text("text", w.Note(p))
	}
	return nil
}

func (w writer) assistant(parts []translate.Part) error {
	w.Open('{')
	w.Str("role", "assistant")
	var thinking, said []translate.Part
	calls := false
	for _, p := range parts {
		switch p.Kind {
		case translate.ThinkingPart:
			if !p.Text.Empty() {
				thinking = append(thinking, translate.Part{Text: p.Text})
			}
		case translate.TextPart:
			said = append(said, p)
		case translate.CallPart:
			calls = true
		}
	}
	if len(thinking) > 0 {
		w.Joined("reasoning_content", thinking)
	}
	w.details(parts)
	switch {
	case len(said) > 0:
		// OpenAI allows breakpoints only on text of the user.
		if !w.Options.CacheControl {
			said = unmarked(said)
		}
		if err := w.content(said, translate.InMessages); err != nil {
			return err
		}
	default: // chat templates of local models render null as "None", or fail
		w.Str("content", "")
	}
	if calls {
		w.calls(parts)
	}
	w.Close('}')
	return nil
}

// unmarked returns parts without their markers.
func unmarked(parts []translate.Part) []translate.Part {
	if !slices.ContainsFunc(parts, func(p translate.Part) bool { return p.Cache != nil }) {
		return parts
	}
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Cache = nil
	}
	return parts
}

// details writes encrypted reasoning and signatures.
func (w writer) details(parts []translate.Part) {
	begun := false
	for _, p := range parts {
		s := p.Proof()
		// Gateways to Claude take its signatures in this form.
		signed := w.Options.CacheControl && s.Format == wire.Anthropic && !s.Redacted && s.Data != ""
		if p.Kind != translate.ThinkingPart || !signed && (w.Options.Official || !w.Native(p)) {
			continue
		}
		if !begun {
			w.Key("reasoning_details")
			w.Open('[')
			begun = true
		}
		w.Open('{')
		if signed {
			w.Str("type", "reasoning.text")
			w.Text("text", p.Text)
			w.Str("signature", s.Data)
		} else {
			w.Str("type", "reasoning.encrypted")
			w.Str("data", s.Data)
			if s.ID != "" {
				w.Str("id", s.ID)
			}
		}
		w.Close('}')
	}
	if begun {
		w.Close(']')
	}
}

func (w writer) calls(parts []translate.Part) {
	w.Key("tool_calls")
	w.Open('[')
	first := true
	for _, p := range parts {
		if p.Kind != translate.CallPart {
			continue
		}
		w.Open('{')
		w.Str("id", w.CallID(p.ID))
		w.Str("type", "function")
		w.Key("function")
		w.Open('{')
		w.Str("name", w.Names.Upstream(p.Tool))
		w.Quoted("arguments", w.Arguments(p))
		w.Close('}')
		// Gemini's endpoint for chat completions has its signatures here.
		signature := p.Signature
		if signature == "" && first && gemini.Signs(w.Model) {
			signature = gemini.SkipValidator
		}
		if signature != "" && strings.Contains(w.Model, "gemini") {
			w.Key("extra_content")
			w.Open('{')
			w.Key("google")
			w.Open('{')
			w.Str("thought_signature", signature)
			w.Close('}')
			w.Close('}')
		}
		w.dropCallCache(p)
		w.Close('}')
		first = false
	}
	w.Close(']')
}

func (w writer) dropCallCache(p translate.Part) {
	w.DropCache(p.Cache, translate.InMessages)
}
