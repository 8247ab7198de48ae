// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"mime"
	"reflect"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// Reply is a response as it went over the wire.
type Reply struct {
	Status int
	Type   string // content type
	Body   []byte
	// Cut reports that the connection broke before the end.
	Cut bool
}

// Answer returns the faults of a response.
func Answer(api API, r Reply) []Finding {
	f := new(findings)
	if r.Status >= 400 {
		f.failure(api, r)
		return f.found
	}
	media, _, _ := mime.ParseMediaType(r.Type)
	if media != "text/event-stream" {
		if r.Cut {
			return nil
		}
		f.document(api, r)
		return f.found
	}
	body := bytes.ReplaceAll(r.Body, []byte("\r\n"), []byte("\n"))
	if r.Cut { // the last event is incomplete
		body = body[:bytes.LastIndex(body, []byte("\n\n"))+1]
	}
	events := eventsOf(body)
	switch api {
	case Anthropic:
		f.anthropicStream(events, r.Cut)
	case Chat:
		f.chatStream(events, r.Cut)
	case Responses:
		f.responsesStream(events, r.Cut)
	case Gemini:
		f.geminiStream(events, r.Cut)
	case Interactions:
		f.interactionsStream(events, r.Cut)
	}
	return f.found
}

// document checks a response of one JSON text.
func (f *findings) document(api API, r Reply) {
	v, err := Parse(r.Body)
	if err != nil {
		f.add("", "is no JSON: %v", err)
		return
	}
	switch api {
	case Anthropic:
		f.shape("", v, reflect.TypeFor[anthropic.Message]())
		f.anthropicMessage(v)
	case Chat:
		f.shape("", v, reflect.TypeFor[openai.ChatCompletion]())
		for _, choice := range v.List("choices") {
			f.chatAnswer(choice.Get("message"), choice.String("finish_reason"))
		}
	case Responses:
		f.shape("", v, reflect.TypeFor[responses.Response]())
		f.responsesAnswer("", v)
	case Gemini:
		if v.Kind == Array { // a stream without alt=sse
			f.geminiChunks(v.Elements, false)
			return
		}
		f.geminiChunks([]*Value{v}, false)
	case Interactions:
		f.interactionsDocument(r.Body, v)
	}
}

// failure checks that an error has the form of its API.
func (f *findings) failure(api API, r Reply) {
	v, err := Parse(r.Body)
	if err != nil {
		f.add("", "is an error that is no JSON")
		return
	}
	if v.Kind == Array && len(v.Elements) == 1 { // Gemini's streams
		v = v.Elements[0]
	}
	if v.String("error", "message") == "" {
		f.add("error.message", "is missing")
	}
	switch api {
	case Anthropic:
		if v.String("type") != "error" || v.String("error", "type") == "" {
			f.add("", "is no error of the Messages API")
		}
	case Gemini:
		if code := v.Get("error", "code"); code == nil || code.Text != strconv.Itoa(r.Status) ||
			v.String("error", "status") == "" {
			f.add("", "is no error of the Gemini API")
		}
	case Interactions:
		if v.String("error", "code") == "" {
			f.add("error.code", "is missing")
		}
	case Chat, Responses:
		if v.Get("error", "type") == nil {
			f.add("error.type", "is missing")
		}
	}
}

// event is one event of a stream.
type event struct {
	name, data string
	value      *Value // nil if the data is not JSON
}

func eventsOf(body []byte) (list []event) {
	for text := range bytes.SplitSeq(body, []byte("\n\n")) {
		var e event
		var data []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if rest, ok := strings.CutPrefix(line, "event:"); ok {
				e.name = strings.TrimPrefix(rest, " ")
			} else if rest, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(rest, " "))
			}
		}
		if data == nil && strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
			data = []string{strings.TrimSpace(string(text))} // the form of errors in Gemini's streams
		}
		if data == nil {
			continue // a comment, or the end
		}
		e.data = strings.Join(data, "\n")
		e.value, _ = Parse([]byte(e.data))
		list = append(list, e)
	}
	return list
}

// number returns a value as a number, 0 if it is none.
func number(v *Value) float64 {
	if v == nil {
		return 0
	}
	n, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return 0
	}
	return n
}

var anthropicStops = " end_turn max_tokens stop_sequence tool_use pause_turn refusal model_context_window_exceeded " +
	"compaction "

func (f *findings) anthropicMessage(v *Value) {
	ids := map[string]bool{}
	for _, b := range v.List("content") {
		if b.String("type") == "tool_use" {
			f.id("content[].id", b.String("id"), ids)
			if input := b.Get("input"); input == nil || input.Kind != Object {
				f.add("content[].input", "is no object")
			}
		}
	}
	f.anthropicStop("stop_reason", v.String("stop_reason"), len(ids) > 0)
	if v.String("id") == "" {
		f.add("id", "is empty")
	}
}

func (f *findings) anthropicStop(path, reason string, calls bool) {
	if !strings.Contains(anthropicStops, " "+reason+" ") {
		f.add(path, "is none: %q", reason)
	}
	if reason == "tool_use" && !calls {
		f.add(path, "is tool_use without a call")
	}
	if reason == "end_turn" && calls {
		f.add(path, "is end_turn in spite of a call")
	}
}

// id checks that a call has a unique id.
func (f *findings) id(path, id string, ids map[string]bool) {
	if id == "" {
		f.add(path, "is empty")
	}
	if ids[id] {
		f.add(path, "stands twice")
	}
	ids[id] = true
}

func (f *findings) chatAnswer(m *Value, finish string) {
	ids := map[string]bool{}
	for _, c := range m.List("tool_calls") {
		f.id("tool_calls[].id", c.String("id"), ids)
		f.arguments("tool_calls[].function.arguments", c.Get("function", "arguments"))
	}
	f.chatFinish(finish, len(ids) > 0)
}

func (f *findings) chatFinish(finish string, calls bool) {
	if !strings.Contains(" stop length tool_calls content_filter function_call ", " "+finish+" ") {
		f.add("choices[].finish_reason", "is none: %q", finish)
	}
	if finish == "tool_calls" && !calls {
		f.add("choices[].finish_reason", "is tool_calls without a call")
	}
	if finish == "stop" && calls {
		f.add("choices[].finish_reason", "is stop in spite of a call")
	}
}

func (f *findings) responsesAnswer(path string, v *Value) {
	ids, calls := map[string]bool{}, map[string]bool{}
	for _, item := range v.List("output") {
		f.id(path+"output[].id", item.String("id"), ids)
		if t := item.String("type"); t == "function_call" || t == "custom_tool_call" {
			f.id(path+"output[].call_id", item.String("call_id"), calls)
			f.arguments(path+"output[].arguments", item.Get("arguments"))
		}
	}
	if status := v.String("status"); !strings.Contains(" completed failed incomplete ", " "+status+" ") {
		f.add(path+"status", "is none of an end: %q", status)
	}
}

// geminiChunks checks the chunks of a response. A response without a stream is one chunk.
func (f *findings) geminiChunks(chunks []*Value, cut bool) {
	finish := ""
	ids := map[string]bool{}
	for _, v := range chunks {
		f.shape("", v, reflect.TypeFor[genai.GenerateContentResponse]())
		for _, c := range v.List("candidates") {
			if finish != "" {
				f.add("candidates[]", "goes on behind its end")
			}
			if finish = c.String("finishReason"); c.String("content", "role") != "model" && finish == "" {
				f.add("candidates[].content.role", "is not model")
			}
			for _, p := range c.List("content", "parts") {
				f.part("candidates[].content.parts[]", p)
				if call := p.Get("functionCall"); call != nil && call.String("id") != "" {
					f.id("candidates[].content.parts[].functionCall.id", call.String("id"), ids)
				}
			}
		}
	}
	if len(chunks) == 0 {
		if !cut {
			f.add("", "is empty")
		}
		return
	}
	if finish == "" && !cut && chunks[len(chunks)-1].Get("promptFeedback") == nil {
		f.add("candidates[].finishReason", "is missing")
	}
	usage := chunks[len(chunks)-1].Get("usageMetadata")
	if sum := number(usage.Get("promptTokenCount")) + number(usage.Get("candidatesTokenCount")) +
		number(usage.Get("thoughtsTokenCount")) +
		number(usage.Get("toolUsePromptTokenCount")); usage != nil && sum != number(usage.Get("totalTokenCount")) {
		f.add("usageMetadata.totalTokenCount", "is not the sum")
	}
}
