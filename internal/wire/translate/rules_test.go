// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// providers are the providers with the rules of each format.
var providers = map[wire.Format]string{
	wire.Anthropic: "anthropic", wire.OpenAIChat: "openai",
	wire.OpenAIResponses: "openai", wire.Gemini: "gemini", wire.Interactions: "gemini",
}

// judged are models for judging the output: for each format those that refuse inputs that others
// accept.
var judged = map[wire.Format][]string{
	wire.Anthropic:       {"claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5-5"},
	wire.OpenAIChat:      {"gpt-5.2"},
	wire.OpenAIResponses: {"gpt-5.2"},
	wire.Gemini:          {"gemini-3.1-pro", "gemini-2.5-pro"},
	wire.Interactions:    {"gemini-3.1-pro"},
}

// judge checks a request against the API's rules in package pricing, nil if it is valid.
func judge(f wire.Format, model string, body []byte) error {
	v, err := wire.Parse(f, body, nil)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	rules := pricing.Lookup(providers[f], model, pricing.Collected())
	rules.ContextWindow = 0
	s := pricing.NewSimulator(pricing.SimulatorConfig{Rules: func(string, time.Time) pricing.Rules { return rules }})
	if _, refused := s.Begin(pricing.Call{View: v, At: pricing.Collected()}); refused != nil {
		return refused
	}
	return nil
}

// upstreams are the option sets for writing a format.
func upstreams(to wire.Format) (all []translate.Options) {
	for _, model := range judged[to] {
		for _, o := range []translate.Options{
			{},
			{Official: true},
			{Official: true, SystemMessages: translate.InPlace},
			{CacheControl: true},
			{Breakpoints: true},
		} {
			if o.SystemMessages == translate.InPlace && to == wire.Anthropic &&
				!(anthropic.Codec{}).KeepsSystem(&translate.Writer{Model: model}) {
				continue
			}
			o.Model = func(string) string { return model }
			all = append(all, o)
		}
	}
	return all
}

// obey checks that a request valid for some model of its own format is valid in the other formats,
// or refused by name.
func obey(t *testing.T, from wire.Format, body []byte) {
	t.Helper()
	valid := false
	for _, model := range judged[from] {
		valid = valid || judge(from, model, body) == nil
	}
	if !valid {
		return
	}
	path, query := pathOf(from)
	for _, to := range translate.Formats() {
		if to == from {
			continue
		}
		for _, o := range upstreams(to) {
			out, err := translate.Convert(from, to, translate.Incoming{Body: body, Path: path, Query: query}, o)
			if err != nil {
				if _, named := errors.AsType[*translate.Unsupported](err); !named && !errors.Is(err, translate.ErrBody) {
					t.Fatalf("%s to %s: refused by no name: %v", from, to, err)
				}
				continue
			}
			if err := judge(to, o.Model(""), out.Body.Bytes()); err != nil {
				t.Fatalf("%s to %s, %s, official %t: %v\nof %s\nin %s", from, to, o.Model(""), o.Official, err, body, out.Body.Bytes())
			}
		}
	}
}

// FuzzRules plays scripted conversations, valid or not, with all features of the formats. A request
// that one API accepts is accepted by the others or refused by name.
func FuzzRules(f *testing.F) {
	for format := range translate.Formats() {
		f.Add(byte(format), []byte("\x00u\x01c\x02r\x03u"))
		f.Add(byte(format), []byte("a\x10\x11\x12\x20\x21\x22\x30\x31\x32\x40\x41\x50\x51\x60\x61\x70\x71"))
		f.Add(byte(format), []byte("\x50\x60\x5a\x50\x50\x50\x50\x50"))
		f.Add(byte(format), []byte("\x32\x21\x21\x40\x48\x10\x32\x22\x41\x40\x05\x55\x65\x75"))
	}
	f.Fuzz(func(t *testing.T, format byte, script []byte) {
		from := translate.Formats()[int(format)%len(translate.Formats())]
		if len(script) > 200 {
			return
		}
		obey(t, from, play(from, script))
	})
}

// TestRules plays scripts of pairs of steps before and after a call.
func TestRules(t *testing.T) {
	for _, from := range translate.Formats() {
		for a := 0; a < 256; a += 13 {
			for b := 1; b < 256; b += 29 {
				obey(t, from, play(from, []byte{byte(b), 0x01, byte(a), 0x31, byte(b), 0x41, byte(a)}))
			}
		}
	}
}

// The clients' and the recorded requests obey, too.
func TestRulesOfClients(t *testing.T) {
	for _, seed := range clientBodies(t) {
		obey(t, translate.Formats()[seed.format], []byte(seed.body))
	}
	for _, feature := range features {
		for client, body := range feature.bodies(t) {
			obey(t, client, []byte(body))
		}
	}
	if testing.Short() {
		return
	}
	for i, file := range testkit.RecordingFiles(t) {
		if i%24 > 0 {
			continue
		}
		traceBodies(t, file, func(call int, body []byte) bool {
			if call%5 > 0 {
				return true
			}
			for _, from := range translate.Formats() {
				if from == wire.Anthropic {
					obey(t, from, body)
				} else {
					obey(t, from, bytesAs(t, wire.Anthropic, from, body, translate.Options{}))
				}
			}
			return call < 12
		})
	}
}

// stage is a scripted conversation.
type stage struct {
	format          wire.Format
	messages, extra strings.Builder
	parts           []string // of the current message
	calls           []string // of the current chat message
	role            string
	open, closed    []string // ids of calls
	n               int
}

// play turns a script into a request of a format: the low half of each byte selects the step, the
// high half its variant.
func play(f wire.Format, script []byte) []byte {
	s := &stage{format: f}
	for _, c := range script {
		s.step(c>>4&7, c&15)
	}
	s.flush()
	if f == wire.Gemini {
		return []byte(`{"contents":[` + s.messages.String() + `]` + s.extra.String() + `}`)
	}
	name := "messages"
	if f.Traits().FlatItems {
		name = "input"
	}
	return []byte(`{"model":"m","max_tokens":4000,"` + name + `":[` + s.messages.String() + `]` + s.extra.String() + `}`)
}

func (s *stage) say(role, part string) {
	if s.role != role {
		s.flush()
		s.role = role
	}
	s.parts = append(s.parts, part)
}

func (s *stage) item(json string) {
	if s.messages.Len() > 0 {
		s.messages.WriteByte(',')
	}
	s.messages.WriteString(json)
}

// flush ends the current message.
func (s *stage) flush() {
	role := s.role
	s.role = ""
	if role == "" {
		return
	}
	content := "[" + strings.Join(s.parts, ",") + "]"
	s.parts = nil
	switch s.format {
	case wire.Gemini:
		s.item(`{"role":"` + strings.Replace(role, "assistant", "model", 1) + `","parts":` + content + `}`)
	case wire.OpenAIChat:
		calls := ""
		if len(s.calls) > 0 {
			calls = `,"tool_calls":[` + strings.Join(s.calls, ",") + `]`
			s.calls = nil
		}
		if content == "[]" {
			content = "null"
		}
		s.item(`{"role":"` + role + `","content":` + content + calls + `}`)
	case wire.Interactions:
		s.item(`{"type":"` + map[string]string{"user": "user_input", "assistant": "model_output"}[role] + `","content":` +
			content + `}`)
	default:
		s.item(`{"role":"` + role + `","content":` + content + `}`)
	}
}

// step is one step of a conversation.
func (s *stage) step(how, what byte) {
	s.n++
	texts := [...]string{"Hello", "", " \\n", "{\\\"a\\\":1}", "<system-reminder>x</system-reminder>"}
	text := texts[int(how)%len(texts)]
	marker := ""
	if bare := s.format == wire.Gemini || s.format == wire.Interactions; how == 5 && !bare {
		marker = `,"cache_control":{"type":"ephemeral"}`
	} else if how == 6 && !bare {
		marker = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	switch what {
	case 0, 5:
		s.say("user", s.text("user", text, marker))
	case 1, 6, 7:
		s.call(how)
	case 2:
		s.say("assistant", s.text("assistant", text, marker))
	case 3, 8, 9:
		s.result(how, text)
	case 4:
		s.thinking(how)
	case 10:
		s.flush() // the next part of the same role starts another message
	case 11:
		if role := map[wire.Format]string{
			wire.Anthropic: "system", wire.OpenAIChat: "developer",
			wire.OpenAIResponses: "developer",
		}[s.format]; role != "" {
			s.say(role, s.text(role, text, marker))
			s.flush()
		}
	case 12:
		s.image()
	default:
		s.settings(how)
	}
}

func (s *stage) text(role, text, marker string) string {
	switch s.format {
	case wire.Gemini:
		return `{"text":"` + text + `"}`
	case wire.OpenAIResponses:
		if role == "assistant" {
			return `{"type":"output_text","text":"` + text + `"}`
		}
		return `{"type":"input_text","text":"` + text + `"}`
	}
	return `{"type":"text","text":"` + text + `"` + marker + `}`
}

func (s *stage) call(how byte) {
	id := fmt.Sprintf("c%d", s.n)
	if how == 7 && len(s.closed) > 0 && s.format != wire.Anthropic {
		id = s.closed[0] // a repeated result
	}
	s.open = append(s.open, id)
	input := `{"a":1.0}`
	switch s.format {
	case wire.Anthropic:
		s.say("assistant", `{"type":"tool_use","id":"`+id+`","name":"f","input":`+input+`}`)
	case wire.OpenAIChat:
		if s.role != "assistant" {
			s.flush()
			s.role = "assistant"
		}
		s.calls = append(s.calls, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}}`)
	case wire.OpenAIResponses:
		s.flush()
		s.item(`{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{\"a\":1.0}"}`)
	case wire.Interactions:
		s.flush()
		s.item(`{"type":"function_call","id":"` + id + `","name":"f","arguments":` + input + `}`)
	case wire.Gemini:
		named := `"id":"` + id + `",`
		if how == 3 {
			named = ""
		}
		s.say("model", `{"functionCall":{`+named+`"name":"f","args":`+input+`},"thoughtSignature":"`+gemini.SkipValidator+
			`"}`)
	}
}

func (s *stage) result(how byte, text string) {
	if len(s.open) == 0 {
		if how != 6 || s.format != wire.OpenAIResponses || len(s.closed) == 0 {
			return
		}
		s.open = append(s.open, s.closed[len(s.closed)-1]) // a second result
	}
	i := int(how) % len(s.open)
	id := s.open[i]
	s.open = append(s.open[:i:i], s.open[i+1:]...)
	s.closed = append(s.closed, id)
	switch s.format {
	case wire.Anthropic:
		content := `,"content":"` + text + `"`
		switch how {
		case 3:
			content = ""
		case 4:
			content = `,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},` +
				`{"type":"text","text":"x"}]`
		}
		s.say("user", `{"type":"tool_result","tool_use_id":"`+id+`"`+content+`}`)
	case wire.OpenAIChat:
		s.flush()
		s.item(`{"role":"tool","tool_call_id":"` + id + `","content":"` + text + `"}`)
	case wire.OpenAIResponses:
		s.flush()
		s.item(`{"type":"function_call_output","call_id":"` + id + `","output":"` + text + `"}`)
	case wire.Interactions:
		s.flush()
		s.item(`{"type":"function_result","call_id":"` + id + `","result":"` + text + `"}`)
	case wire.Gemini:
		s.say("user", `{"functionResponse":{"id":"`+id+`","name":"f","response":{"output":"`+text+`"}}}`)
	}
}

func (s *stage) thinking(how byte) {
	switch s.format {
	case wire.Anthropic:
		s.say("assistant", `{"type":"thinking","thinking":"Hm","signature":"c2ln"}`)
	case wire.OpenAIResponses:
		s.flush()
		sealed := "gAAA"
		if how > 3 {
			sealed = seal.Sealed{Format: wire.Anthropic, Data: fmt.Sprintf("c2ln%d", s.n), Text: "Hm"}.Seal()
		}
		s.item(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + sealed + `"}`)
	case wire.OpenAIChat:
		s.flush()
		s.item(`{"role":"assistant","content":"","reasoning_content":"Hm"}`)
	case wire.Interactions:
		s.flush()
		sealed := "c2ln"
		if how > 3 {
			sealed = seal.Sealed{Format: wire.Anthropic, Data: fmt.Sprintf("c2ln%d", s.n), Text: "Hm"}.Seal()
		}
		s.item(`{"type":"thought","signature":"` + sealed + `","summary":[{"type":"text","text":"Hm"}]}`)
	case wire.Gemini:
		s.say("model", `{"text":"Hm","thought":true}`)
	}
}

func (s *stage) image() {
	part := map[wire.Format]string{
		wire.Anthropic:       `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`,
		wire.OpenAIChat:      `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`,
		wire.OpenAIResponses: `{"type":"input_image","image_url":"data:image/png;base64,AA=="}`,
		wire.Gemini:          `{"inlineData":{"mimeType":"image/png","data":"AA=="}}`,
		wire.Interactions:    `{"type":"image","mime_type":"image/png","data":"AA=="}`,
	}
	s.say("user", part[s.format])
}

// settings sets members of the request, once.
func (s *stage) settings(how byte) {
	if s.extra.Len() > 0 {
		return
	}
	tools := map[wire.Format]string{
		wire.Anthropic: anthropicTool, wire.OpenAIChat: chatTool,
		wire.OpenAIResponses: responsesTool, wire.Gemini: geminiTool, wire.Interactions: stepsTool,
	}
	s.extra.WriteString(`,"tools":[` + tools[s.format] + `]`)
	choices := map[wire.Format]string{
		wire.Anthropic: `,"tool_choice":{"type":"any"}`, wire.OpenAIChat: `,"tool_choice":"required"`,
		wire.OpenAIResponses: `,"tool_choice":"required"`,
		wire.Gemini:          `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`,
		wire.Interactions:    `,"generation_config":{"tool_choice":"any"}`,
	}
	thinking := map[wire.Format]string{
		wire.Anthropic:  `,"thinking":{"type":"enabled","budget_tokens":2000}`,
		wire.OpenAIChat: `,"reasoning_effort":"medium"`, wire.OpenAIResponses: `,"reasoning":{"effort":"medium"}`,
		wire.Gemini:       `,"generationConfig":{"thinkingConfig":{"thinkingBudget":2000}}`,
		wire.Interactions: `,"generation_config":{"thinking_level":"medium"}`,
	}
	if how&1 > 0 {
		s.extra.WriteString(choices[s.format])
	}
	if how&2 > 0 {
		s.extra.WriteString(thinking[s.format])
	}
}
