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
	"encoding/base64"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// shape returns the messages as the format wants them: system messages in the
// middle where it takes them, reasoning that it cannot read left out, and, in
// formats where the two sides take turns, one message a turn. It looks at
// what came before a message only, so that a longer conversation begins with
// the same messages; a system message in place is the exception, see below.
func (w *writer) shape() []Message {
	in := w.q.Messages
	out := make([]Message, 0, len(in))
	w.called = make(map[string]ToolName)
	for i, m := range in {
		role := m.Role
		parts := w.carried(m)
		if role == System {
			if w.inPlace(in, i, out) {
				out = append(out, Message{Role: System, Parts: parts})
				continue
			}
			role, parts = User, reminders(parts)
			if n := len(out); n > 0 && out[n-1].Role == User {
				out[n-1].Parts = append(out[n-1].Parts[:len(out[n-1].Parts):len(out[n-1].Parts)], parts...)
				continue
			}
		}
		if len(parts) == 0 {
			continue
		}
		if n := len(out); w.turns() && n > 0 && out[n-1].Role == role {
			out[n-1].Parts = append(out[n-1].Parts[:len(out[n-1].Parts):len(out[n-1].Parts)], parts...)
			continue
		}
		out = append(out, Message{Role: role, Parts: parts})
	}
	return out
}

// turns tells whether messages of the two sides must alternate.
func (w *writer) turns() bool { return w.to == wire.Anthropic || w.to == wire.Gemini }

// inPlace tells whether a system message can stay where it is. Anthropic takes
// it behind a user's message if no other one of the user follows.
func (w *writer) inPlace(in []Message, i int, out []Message) bool {
	switch w.o.SystemMessages {
	case Folded:
		return false
	case InPlace:
	default:
		if openAI(w.to) && !w.o.Official || w.to == wire.Anthropic && !claudeOf(w.model).systemMessages() {
			return false
		}
	}
	switch w.to {
	case wire.Gemini:
		return false
	case wire.Anthropic:
		n := len(out)
		return n > 0 && out[n-1].Role == User && (i+1 == len(in) || in[i+1].Role == Assistant)
	}
	return true
}

const reminderTag = "<system-reminder>"

// reminders returns a system message's texts as text of the user that says
// whose it is.
func reminders(parts []Part) []Part {
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		if p.Kind != TextPart || p.Text.empty() {
			continue
		}
		if !isReminder(p) {
			t := append(text(reminderTag+`\n`), p.Text...)
			p.Text = append(t, `\n</system-reminder>`...)
		}
		out = append(out, p)
	}
	return out
}

func isReminder(p Part) bool {
	return p.Kind == TextPart && strings.HasPrefix(string(p.Text), reminderTag)
}

// carried returns the parts of a message that the upstream takes, and notes
// which tools it called.
func (w *writer) carried(m Message) []Part {
	parts := m.Parts
	copied := false
	for i, p := range m.Parts {
		keep := true
		switch p.Kind {
		case TextPart:
			keep = !p.Text.empty() || p.Signature != "" && w.to == wire.Gemini
		case ThinkingPart:
			keep = w.own(p) || !w.o.Official && !p.Text.empty()
			if !keep {
				w.dropThinking()
			}
		case CallPart:
			w.called[p.ID] = p.Tool
		case MediaPart:
			if keep = m.Role != Assistant; !keep {
				w.drop(p.Field)
			}
		}
		if t, ok := textual(p); ok || !keep {
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

// textual returns a document that is plain text in base64 as text.
func textual(p Part) (Part, bool) {
	if p.Kind != MediaPart || p.Media.Data.empty() || !strings.HasPrefix(p.Media.Type, "text/") {
		return p, false
	}
	b, err := base64.StdEncoding.DecodeString(p.Media.Data.decoded())
	if err != nil {
		return p, false
	}
	return Part{Text: escaped(strings.ToValidUTF8(string(b), "\uFFFD")), Cache: p.Cache}, true
}
