// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// interactions speaks the Interactions API of Gemini.
type interactions struct{ gemini }

type interactionsUsage struct {
	Total   int64 `json:"total_tokens"`
	Input   int64 `json:"total_input_tokens"`
	Cached  int64 `json:"total_cached_tokens"`
	Output  int64 `json:"total_output_tokens"`
	ToolUse int64 `json:"total_tool_use_tokens"`
	Thought int64 `json:"total_thought_tokens"`
}

// interactionsStep is a step of an answer. Its members depend on its type.
type interactionsStep struct {
	Type      string                `json:"type"`
	Content   []interactionsContent `json:"content,omitempty"`
	Signature string                `json:"signature,omitempty"`
	Summary   []interactionsContent `json:"summary,omitempty"`
	ID        string                `json:"id,omitempty"`
	Name      string                `json:"name,omitempty"`
	Arguments json.RawMessage       `json:"arguments,omitempty"`
}

type interactionsContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type interactionsObject struct {
	ID      string             `json:"id"`
	Status  string             `json:"status"`
	Usage   *interactionsUsage `json:"usage,omitempty"`
	Created string             `json:"created,omitempty"`
	Updated string             `json:"updated,omitempty"`
	Steps   []interactionsStep `json:"steps,omitempty"`
	Object  string             `json:"object"`
	Model   string             `json:"model"`
}

func (interactions) steps(a *Answer) []interactionsStep {
	steps := make([]interactionsStep, 0, len(a.Blocks)+1)
	signed := false
	for i := range a.Blocks {
		switch b := &a.Blocks[i]; b.Type {
		case Thinking:
			signed = true
			steps = append(steps, interactionsStep{
				Type: "thought", Signature: Sign(b.Text),
				Summary: []interactionsContent{{"text", b.Text}},
			})
		case ToolUse:
			// Thoughts are signed. A first call without a thought gets a signed one before it.
			if !signed {
				signed = true
				steps = append(steps, interactionsStep{Type: "thought", Signature: Sign(b.Name + " " + string(b.Input))})
			}
			steps = append(steps, interactionsStep{Type: "function_call", ID: b.ID, Name: b.Name, Arguments: b.Input})
		default:
			steps = append(steps, interactionsStep{Type: "model_output", Content: []interactionsContent{{"text", b.Text}}})
		}
	}
	return steps
}

func (n interactions) object(c *query, done bool) interactionsObject {
	o := interactionsObject{ID: "v1_" + c.id, Status: "in_progress", Object: "interaction", Model: c.view.Model}
	if !done {
		return o
	}
	o.Created = c.at.UTC().Format(time.RFC3339)
	o.Updated = o.Created
	u := n.usage(c)
	o.Usage = &interactionsUsage{
		Total: u.Total, Input: u.Prompt, Cached: u.Cached, Output: u.Candidates,
		Thought: u.Thoughts,
	}
	switch o.Status = "completed"; {
	case c.answer.StopReason == "max_tokens":
		o.Status = "incomplete"
	case c.answer.StopReason != "":
		o.Status = c.answer.StopReason
	case c.answer.calls():
		o.Status = "requires_action"
	}
	return o
}

// JSON encodes a response without a stream.
func (n interactions) JSON(c *query) []byte {
	o := n.object(c, true)
	o.Steps = n.steps(c.answer)
	return encode(o)
}

type interactionsDelta struct {
	Type      string               `json:"type"`
	Text      string               `json:"text,omitempty"`
	Content   *interactionsContent `json:"content,omitempty"`
	Signature string               `json:"signature,omitempty"`
	Arguments string               `json:"arguments,omitempty"`
}

// interactionsEvent is one event of a stream. Its members depend on its type.
type interactionsEvent struct {
	Interaction *interactionsObject `json:"interaction,omitempty"`
	Index       *int                `json:"index,omitempty"`
	Step        *interactionsStep   `json:"step,omitempty"`
	Delta       *interactionsDelta  `json:"delta,omitempty"`
	Type        string              `json:"event_type"`
}

func (n interactions) events(c *query) [][]byte {
	var out [][]byte
	send := func(e interactionsEvent) {
		out = append(out, []byte("event: "+e.Type+"\ndata: "+string(encode(e))+"\n\n"))
	}
	begun, done := n.object(c, false), n.object(c, true)
	send(interactionsEvent{Type: "interaction.created", Interaction: &begun})
	for i, s := range n.steps(c.answer) {
		open := interactionsStep{Type: s.Type, ID: s.ID, Name: s.Name}
		if s.Arguments != nil {
			open.Arguments = json.RawMessage("{}")
		}
		send(interactionsEvent{Type: "step.start", Index: &i, Step: &open})
		delta := func(d interactionsDelta) {
			send(interactionsEvent{Type: "step.delta", Index: &i, Delta: &d})
		}
		for _, content := range s.Content {
			for _, text := range chunks(content.Text, chunkSize) {
				delta(interactionsDelta{Type: "text", Text: text})
			}
		}
		for _, content := range s.Summary {
			for _, text := range chunks(content.Text, chunkSize) {
				delta(interactionsDelta{Type: "thought_summary", Content: &interactionsContent{"text", text}})
			}
		}
		if s.Signature != "" {
			delta(interactionsDelta{Type: "thought_signature", Signature: s.Signature})
		}
		if s.Arguments != nil {
			for _, text := range chunks(string(s.Arguments), chunkSize) {
				delta(interactionsDelta{Type: "arguments_delta", Arguments: text})
			}
		}
		send(interactionsEvent{Type: "step.stop", Index: &i})
	}
	send(interactionsEvent{Type: "interaction.completed", Interaction: &done})
	return append(out, []byte("event: done\ndata: [DONE]\n\n"))
}

func (interactions) streamType() string { return eventStream }

// interactionsCodes are the API's names for errors, by HTTP status.
var interactionsCodes = map[int]string{
	http.StatusBadRequest:            "invalid_request",
	http.StatusUnauthorized:          "unauthenticated",
	http.StatusForbidden:             "permission_denied",
	http.StatusNotFound:              "not_found",
	http.StatusRequestEntityTooLarge: "invalid_request",
	http.StatusTooManyRequests:       "too_many_requests",
	http.StatusServiceUnavailable:    "unavailable",
	http.StatusGatewayTimeout:        "deadline_exceeded",
}

func (interactions) failure(f Failure, _ string) []byte {
	type body struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	code := interactionsCodes[f.Status]
	if code == "" {
		code = "internal"
	}
	return encode(struct {
		Error body `json:"error"`
	}{body{f.Message, code}})
}

// schema returns the schema of the text format, in one response format or a list of them.
func (interactions) schema(output gjson.Result) gjson.Result {
	if output.IsArray() {
		output = output.Get(`#(type=="text")`)
	}
	if output.Get("type").Str != "text" {
		return gjson.Result{}
	}
	return output.Get("schema")
}
