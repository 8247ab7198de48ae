// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"bytes"
	"crypto/sha256"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// said is a parsed request, in the terms of an agent.
type said struct {
	format wire.Format
	body   []byte
	model  string
	stream bool
	// instructions are the texts of the system prompt, JSON strings.
	instructions []string
	// turns are the turns of the conversation. Consecutive messages of one role form one turn.
	turns []message
}

type message struct {
	user  bool
	parts []part
}

// part is a text, as a JSON string, or an image, as its object.
type part struct {
	raw   string
	image bool
}

// refused is a sentence for the client.
type refused string

func (r refused) Error() string { return string(r) }

const (
	errTools refused = "tools: an agent of Letta runs tools of its own, on its server, and takes none from clients: it " +
		"would answer without them. " +
		"Attach tools to the agent, or send the request without tools"
	errResults refused = "calls and results of tools: an agent of Letta takes texts and images, and would answer as if " +
		"they were not there"
	errMedia refused = "an agent of Letta takes texts and images, and would answer as if the rest were not there: "
)

// lists are the names of the list of messages, by format.
var lists = map[wire.Format]string{wire.OpenAIResponses: "input", wire.OpenAIChat: "messages"}

// read parses a request. It returns nil for an invalid request. An error names the content that would be lost.
func read(f wire.Format, body []byte) (*said, error) {
	if !rawjson.ValidBytes(body) {
		return nil, nil //nolint:nilnil // there is nothing to say of it
	}
	s := &said{format: f, body: body}
	var list gjson.Result
	choice, tools := "", false
	for m := rawjson.Walk(body, 0); m.Next(); {
		key := string(m.Key)
		v := gjson.ParseBytes(m.Skip().Of(body))
		switch key {
		case "model":
			s.model = v.Str
		case "stream":
			s.stream = v.Bool()
		case lists[f]:
			list = v
		case "instructions":
			if v.Str != "" {
				// Instructions come before system messages, in any order of the members.
				s.instructions = append([]string{v.Raw}, s.instructions...)
			}
		case "tools", "functions":
			tools = tools || v.Get("0").Exists()
		case "tool_choice":
			choice = v.Str
		case "previous_response_id", "conversation":
			if v.Type != gjson.Null {
				return nil, nil //nolint:nilnil // the client keeps its own account
			}
		}
	}
	if tools && choice != "none" {
		return nil, errTools
	}
	var err error
	if list.Type == gjson.String {
		s.add(true, []part{{raw: list.Raw}})
	} else {
		list.ForEach(func(_, item gjson.Result) bool {
			err = s.take(item)
			return err == nil
		})
	}
	if err != nil || len(s.turns) == 0 {
		return nil, err
	}
	return s, nil
}

func (s *said) take(item gjson.Result) error {
	if kind := item.Get("type").Str; kind == "reasoning" {
		return nil
	} else if kind != "" && kind != "message" || item.Get("tool_calls.0").Exists() {
		return errResults
	}
	parts, err := read1(item.Get("content"))
	if err != nil {
		return err
	}
	switch item.Get("role").Str {
	case "user":
		s.add(true, parts)
	case "assistant":
		s.add(false, parts)
	case "system", "developer":
		for _, p := range parts {
			if !p.image && p.raw != `""` {
				s.instructions = append(s.instructions, p.raw)
			}
		}
	default:
		return errResults
	}
	return nil
}

func read1(content gjson.Result) (parts []part, err error) {
	if content.Type == gjson.String {
		return []part{{raw: content.Raw}}, nil
	}
	content.ForEach(func(_, p gjson.Result) bool {
		switch kind := p.Get("type").Str; kind {
		case "text", "input_text", "output_text":
			parts = append(parts, part{raw: p.Get("text").Raw})
		case "refusal":
			parts = append(parts, part{raw: p.Get("refusal").Raw})
		case "image_url", "input_image":
			parts = append(parts, part{raw: p.Raw, image: true})
		default:
			err = errMedia + refused(kind)
		}
		return err == nil
	})
	return parts, err
}

func (s *said) add(user bool, parts []part) {
	n := len(s.turns)
	switch {
	case len(parts) == 0:
	case n > 0 && s.turns[n-1].user == user:
		s.turns[n-1].parts = append(s.turns[n-1].parts, parts...)
	default:
		s.turns = append(s.turns, message{user, parts})
	}
}

func (t *message) text() string {
	var b strings.Builder
	for _, p := range t.parts {
		if !p.image {
			b.WriteString(gjson.Parse(p.raw).Str)
		}
	}
	return b.String()
}

func (t *message) hash() (out wire.Hash) {
	h := sha256.New()
	if t.user {
		h.Write([]byte{1})
	}
	// Clients rewrite answers: ignore the division into parts and surrounding white space.
	h.Write([]byte(strings.TrimSpace(t.text())))
	for _, p := range t.parts {
		if p.image {
			h.Write([]byte{0})
			h.Write([]byte(p.raw))
		}
	}
	copy(out[:], h.Sum(nil))
	return out
}

// begins identifies a conversation by its model and its first turn.
func (s *said) begins() (out wire.Hash) {
	h := sha256.New()
	h.Write([]byte(s.model))
	h.Write([]byte{0})
	first := s.turns[0].hash()
	h.Write(first[:])
	copy(out[:], h.Sum(nil))
	return out
}

func (s *said) history() []wire.Hash {
	out := make([]wire.Hash, len(s.turns))
	for i := range s.turns {
		out[i] = s.turns[i].hash()
	}
	return out
}

// system returns the whole system prompt as a JSON string.
func (s *said) system() []byte {
	switch len(s.instructions) {
	case 0:
		return nil
	case 1:
		// The usual single text keeps the client's bytes.
		return []byte(s.instructions[0])
	}
	texts := make([]string, len(s.instructions))
	for i, raw := range s.instructions {
		texts[i] = gjson.Parse(raw).Str
	}
	return rawjson.Quote(strings.Join(texts, "\n\n"))
}

// whole returns the conversation as one user message.
func (s *said) whole() []message {
	n := len(s.turns)
	if n == 1 && s.turns[0].user {
		return s.turns
	}
	// Servers read no other message: even the App Server takes in earlier user messages, but drops the agent's.
	last := message{user: true}
	if s.turns[n-1].user {
		// The last user message follows the transcript.
		last, n = s.turns[n-1], n-1
	}
	var b strings.Builder
	b.WriteString("<conversation>\n")
	var parts []part
	for i := range n {
		t := &s.turns[i]
		who := "assistant"
		if t.user {
			who = "user"
		}
		b.WriteString("<" + who + ">\n" + t.text() + "\n</" + who + ">\n")
		for _, p := range t.parts {
			if p.image {
				parts = append(parts, p)
			}
		}
	}
	b.WriteString("</conversation>\n\n")
	parts = append(parts, part{raw: string(rawjson.Quote(b.String()))})
	return []message{{user: true, parts: append(parts, last.parts...)}}
}

func (s *said) list(turns []message) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range turns {
		if i > 0 {
			b.WriteByte(',')
		}
		s.message(&b, &turns[i])
	}
	b.WriteByte(']')
	return b.Bytes()
}

func (s *said) items() bool { return s.format.Traits().FlatItems }

func (s *said) message(b *bytes.Buffer, t *message) {
	role, kind := `"assistant"`, `"output_text"`
	if t.user {
		role, kind = `"user"`, `"input_text"`
	}
	b.WriteByte('{')
	// The App Server ignores items without a type.
	if s.items() {
		b.WriteString(`"type":"message",`)
	} else {
		kind = `"text"`
	}
	b.WriteString(`"role":` + role + `,"content":[`)
	for i, p := range t.parts {
		if i > 0 {
			b.WriteByte(',')
		}
		if p.image {
			b.WriteString(p.raw)
			continue
		}
		b.WriteString(`{"type":` + kind + `,"text":` + p.raw + `}`)
	}
	b.WriteString(`]}`)
}
