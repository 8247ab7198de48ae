// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// shape returns the messages in the structure that the format requires. The result for a message depends only on
// preceding messages, so that a longer conversation begins with the same messages. Empty messages and system
// messages in place are the exceptions.
func (w *Writer) shape() []Message {
	in := w.Request.Messages
	out := make([]answeredMessage, 0, len(in))
	pairs := pairs{of: make(map[string]pair)}
	w.Called = make(map[string]ToolName)
	for i, m := range in {
		w.place = m.origin.at
		parts := w.carried(m)
		if w.Rules.RefusesBlank && blank(parts) {
			parts = nil
		}
		empty := len(parts) == 0
		switch m.Role {
		case Assistant:
			// An answer ends the round of results.
			pairs.over(out)
			at := len(out)
			// A turn of the model is one message.
			if joins(out, Assistant) {
				at--
			}
			pairs.turn = at
			parts = pairs.calls(parts, at)
			for _, p := range parts {
				if p.Kind == CallPart {
					w.Called[p.ID] = p.Tool
				}
			}
		case User:
			out = w.finished(out)
			// There must be a user message between two answers.
			if empty && w.silent(in, i, out) {
				parts = []Part{nudge}
			}
			parts = pairs.results(out, parts)
		case System:
			out = w.finished(out)
			if !empty && w.inPlace(in, i, out) {
				out = append(out, answeredMessage{Message: Message{System, parts, m.origin}})
				continue
			}
			// The message is folded into a user message.
			parts = reminders(parts)
		}
		if len(parts) == 0 {
			continue
		}
		role := m.Role
		if role == System {
			role = User
		}
		// A turn of the model is one message. User messages are only merged in alternating formats.
		if joins(out, role) && (role == Assistant || m.Role == System || w.turns()) {
			out[len(out)-1].add(parts)
			continue
		}
		out = append(out, answeredMessage{Message: Message{role, parts, m.origin}})
	}
	pairs.over(out)
	if pairs.irregular {
		w.DependsOnAll()
	}
	w.place = 0
	return w.ended(behind(w.finished(out)))
}

// joins reports whether the last message has the role and can be extended.
func joins(out []answeredMessage, role Role) bool {
	n := len(out)
	return n > 0 && out[n-1].Role == role && out[n-1].results == nil
}

// nudge is the text of an inserted user message. It is needed before a conversation that begins
// with the model or has only a system prompt, in place of an empty message, and after a final
// answer that the model would not continue.
var nudge = Part{Text: rawjson.Text("Go on.")}

// silent reports whether the user message between two answers is empty.
func (w *Writer) silent(in []Message, i int, out []answeredMessage) bool {
	return (len(out) == 0 || joins(out, Assistant)) && (i+1 == len(in) || in[i+1].Role == Assistant)
}

// finished removes trailing thinking from a turn of the model.
func (w *Writer) finished(out []answeredMessage) []answeredMessage {
	// The Messages and the Responses API reject a message that ends with thinking.
	if !w.Rules.EndsThinking || !joins(out, Assistant) {
		return out
	}
	last := &out[len(out)-1]
	for len(last.Parts) > 0 && last.Parts[len(last.Parts)-1].Kind == ThinkingPart {
		last.Parts = last.Parts[:len(last.Parts)-1]
		w.dropThinking()
	}
	if len(last.Parts) == 0 || w.Rules.RefusesBlank && blank(last.Parts) {
		return out[:len(out)-1]
	}
	return out
}

// ended inserts user messages at the beginning and the end where they are required.
func (w *Writer) ended(out []Message) []Message {
	begins := len(out) > 0 && out[0].Role == User
	if w.turns() && !begins || len(out) == 0 && len(w.System()) == 0 {
		out = slices.Insert(out, 0, Message{Role: User, Parts: []Part{nudge}})
	}
	// Some models do not continue an answer.
	if len(out) > 0 && out[len(out)-1].Role == Assistant && w.dialect.EndsWithUser(w) {
		out = append(out, Message{Role: User, Parts: []Part{nudge}})
	}
	return out
}

// turns reports whether user and assistant messages must alternate.
func (w *Writer) turns() bool { return w.To.Traits().Alternates }

// inPlace reports whether a system message can keep its position.
func (w *Writer) inPlace(in []Message, i int, out []answeredMessage) bool {
	switch w.Options.SystemMessages {
	case Folded:
		return false
	case InPlace:
	default:
		if !w.dialect.KeepsSystem(w) {
			return false
		}
	}
	switch {
	case w.Rules.FoldsSystem:
		return false
	case w.Rules.SystemBehindUser:
		// Anthropic accepts it after a user message, unless another user message follows.
		return len(out) > 0 && !joins(out, Assistant) && out[len(out)-1].Role != System &&
			(i+1 == len(in) || in[i+1].Role == Assistant)
	}
	return true
}

const reminderTag = "<system-reminder>"

// reminders converts the texts of a system message to user texts in reminder tags.
func reminders(parts []Part) []Part {
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		if p.Kind != TextPart || p.Text.Empty() {
			continue
		}
		if !IsReminder(p) {
			t := append(rawjson.Text(reminderTag+`\n`), p.Text...)
			p.Text = append(t, `\n</system-reminder>`...)
		}
		out = append(out, p)
	}
	return out
}

// IsReminder reports whether a part is a reminder inserted by a client or by this package.
func IsReminder(p Part) bool {
	return p.Kind == TextPart && strings.HasPrefix(string(p.Text), reminderTag)
}

// carried returns the parts of a message that the upstream accepts.
func (w *Writer) carried(m Message) []Part {
	parts := m.Parts
	copied := false
	for i, p := range m.Parts {
		keep := true
		switch p.Kind {
		case TextPart:
			keep = !p.Text.Empty() || p.Signature != "" && w.To.Traits().SignedParts
		case ThinkingPart:
			// Foreign reasoning is only sent as text, and only to upstreams that do not verify it.
			keep = w.Native(p) || !w.proves() && !p.Text.Empty()
			if !keep {
				w.dropThinking()
			}
		case MediaPart:
			if keep = m.Role == User; !keep {
				w.Drop(p.Media.Field)
			}
		}
		if t, ok := Textual(p); ok || !keep {
			if !copied {
				parts = append(make([]Part, 0, len(m.Parts)), m.Parts[:i]...)
				copied = true
			}
			if ok && keep {
				parts = append(parts, t)
			}
			continue
		}
		if copied {
			parts = append(parts, p)
		}
	}
	return parts
}

// blank reports whether the parts are only texts of white space, which the Messages API rejects.
func blank(parts []Part) bool {
	for _, p := range parts {
		if p.Kind != TextPart || strings.TrimSpace(p.Text.Decoded()) != "" {
			return false
		}
	}
	return true
}

// Textual converts a base64 document of plain text to a text part.
func Textual(p Part) (Part, bool) {
	if p.Kind != MediaPart || p.Media.Data.Empty() || !strings.HasPrefix(p.Media.Type, "text/") {
		return p, false
	}
	b, err := base64.StdEncoding.DecodeString(p.Media.Data.Decoded())
	if err != nil {
		return p, false
	}
	return Part{Text: rawjson.Escaped(strings.ToValidUTF8(string(b), "\uFFFD")), Cache: p.Cache}, true
}
