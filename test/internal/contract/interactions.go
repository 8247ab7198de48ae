// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai/interactions/models/interactions"
)

// reads decodes a value into a type of the SDK, which reports missing or invalid members itself.
// Its many kinds of unions are impractical to check by reflection.
func (f *findings) reads(path string, data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		f.add(path, "is nothing that the SDK reads: %v", err)
	}
}

// interactionsRequest checks that each call is followed by its result, by id.
func (f *findings) interactionsRequest(body []byte, v *Value) {
	f.reads("", body, new(interactions.CreateModelInteraction))
	var names []string
	for _, tool := range v.List("tools") {
		if tool.String("type") == "function" {
			names = append(names, tool.String("name"))
		}
	}
	f.names("tools", names, "")
	input := v.Get("input")
	if input == nil || input.Kind == Array && len(input.Elements) == 0 {
		f.add("input", "is empty")
	}
	t := &turns{findings: f, path: "input", ids: map[string]bool{}}
	for _, step := range v.List("input") {
		f.step("input[]", step)
		switch step.String("type") {
		case "function_call":
			t.call(step.String("id"))
		case "function_result":
			t.result(step.String("call_id"))
		case "user_input":
			t.closed()
		}
	}
	t.closed()
}

// step checks the rules that the SDK's types do not.
func (f *findings) step(path string, step *Value) {
	switch kind := step.String("type"); kind {
	case "function_call":
		if step.String("id") == "" || step.String("name") == "" || step.Get("arguments") == nil ||
			step.Get("arguments").Kind != Object {
			f.add(path, "is a call without an id, a name or arguments")
		}
	case "user_input", "model_output":
		for _, c := range step.List("content") {
			if c.String("type") == "text" && c.String("text") == "" {
				f.add(path+".content[]", "is an empty text")
			}
		}
	case "thought":
	default:
		if !strings.HasSuffix(kind, "_call") && !strings.HasSuffix(kind, "_result") {
			f.add(path, "is no step: %q", kind)
		}
	}
}

// interactionsStream checks the order: interaction.created, steps one after another,
// interaction.completed, [DONE].
func (f *findings) interactionsStream(events []event, cut bool) {
	last, open, next, calls, failed := "", -1, 0, false, false
	var arguments *strings.Builder
	for _, e := range events {
		if e.data == "[DONE]" {
			if last != "interaction.completed" {
				f.add("", "is done behind %q", last)
			}
			last = "done"
			continue
		}
		if e.value == nil {
			f.add("", "has an event that is no JSON")
			continue
		}
		kind, index := e.value.String("event_type"), int(number(e.value.Get("index")))
		if e.name != kind {
			f.add("", "has an event named %q of type %q", e.name, kind)
		}
		f.reads(kind, []byte(e.data), new(interactions.InteractionSSEEvent))
		if (kind == "interaction.created") != (last == "") && kind != "error" {
			f.add(kind, "comes behind %q", last)
		}
		if last == "interaction.completed" || last == "done" {
			f.add(kind, "comes behind the end")
		}
		switch kind {
		case "step.start":
			if open >= 0 || index != next {
				f.add(kind, "is out of order")
			}
			open, arguments = index, nil
			next++
			f.step("step", e.value.Get("step"))
			if e.value.String("step", "type") == "function_call" {
				calls, arguments = true, new(strings.Builder)
			}
		case "step.delta", "step.stop":
			if index != open {
				f.add(kind, "is out of order")
			}
			if arguments != nil {
				_, _ = arguments.WriteString(e.value.String("delta", "arguments"))
			}
			if kind == "step.delta" {
				break
			}
			if arguments != nil && arguments.Len() > 0 {
				f.arguments("step.arguments", &Value{Kind: String, Text: arguments.String()})
			}
			open, arguments = -1, nil
		case "interaction.completed":
			if open >= 0 {
				f.add(kind, "comes while a step is open")
			}
			f.interactionsEnd("interaction.", e.value.Get("interaction"), calls)
		case "error":
			failed = true
		}
		last = kind
	}
	if !cut && !failed && last != "done" {
		f.add("", "ends in %q", last)
	}
}

func (f *findings) interactionsEnd(path string, v *Value, calls bool) {
	switch status := v.String("status"); {
	case !strings.Contains(" completed requires_action incomplete failed ", " "+status+" "):
		f.add(path+"status", "is none of an end: %q", status)
	case calls && status == "completed", !calls && status == "requires_action":
		f.add(path+"status", "is %s, with calls %t", status, calls)
	}
	u := v.Get("usage")
	if sum := number(u.Get("total_input_tokens")) + number(u.Get("total_output_tokens")) +
		number(u.Get("total_thought_tokens")) + number(u.Get("total_tool_use_tokens")); u != nil &&
		sum != number(u.Get("total_tokens")) {
		f.add(path+"usage.total_tokens", "is not the sum")
	}
}

func (f *findings) interactionsDocument(body []byte, v *Value) {
	f.reads("", body, new(interactions.Interaction))
	calls := false
	for _, step := range v.List("steps") {
		f.step("steps[]", step)
		calls = calls || step.String("type") == "function_call"
	}
	f.interactionsEnd("", v, calls)
}
