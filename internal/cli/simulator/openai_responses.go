// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// responses speaks the Responses API.
type responses struct{ openai }

type responsesUsage struct {
	Input   int64         `json:"input_tokens"`
	Details openaiDetails `json:"input_tokens_details"`
	Output  int64         `json:"output_tokens"`
	Thought struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

// responsesItem is an item of the output. Its members depend on its type.
type responsesItem struct {
	ID        string           `json:"id"`
	Type      string           `json:"type"`
	Status    string           `json:"status,omitempty"`
	Role      string           `json:"role,omitempty"`
	Content   *[]responsesPart `json:"content,omitempty"`
	Summary   *[]responsesPart `json:"summary,omitempty"`
	Encrypted string           `json:"encrypted_content,omitempty"`
	CallID    string           `json:"call_id,omitempty"`
	Name      string           `json:"name,omitempty"`
	Arguments *string          `json:"arguments,omitempty"`
	Input     *string          `json:"input,omitempty"`

	whole json.RawMessage // replaces the item, if set
}

// MarshalJSON implements json.Marshaler.
func (i responsesItem) MarshalJSON() ([]byte, error) {
	if i.whole != nil {
		return i.whole, nil
	}
	type made responsesItem
	return encode(made(i)), nil
}

type responsesPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations *[]int `json:"annotations,omitempty"`
}

type responsesIncomplete struct {
	Reason string `json:"reason"`
}

type responsesObject struct {
	ID         string               `json:"id"`
	Object     string               `json:"object"`
	CreatedAt  int64                `json:"created_at"`
	Status     string               `json:"status"`
	Model      string               `json:"model"`
	Output     []responsesItem      `json:"output"`
	Usage      *responsesUsage      `json:"usage"`
	Error      *struct{}            `json:"error"`
	Incomplete *responsesIncomplete `json:"incomplete_details"`
	Parallel   bool                 `json:"parallel_tool_calls"`
	ToolChoice string               `json:"tool_choice"`
	Tools      []struct{}           `json:"tools"`
}

// usage counts cached tokens within the prompt.
func (responses) usage(u wire.Usage) *responsesUsage {
	return &responsesUsage{
		Input: u.Prompt(), Output: u.Output, Total: u.Prompt() + u.Output,
		Details: openaiInput(u),
	}
}

func (responses) items(c *query) []responsesItem {
	// The answer to a compaction_trigger is one compaction item.
	if last := c.view.Blocks[len(c.view.Blocks)-1]; gjson.GetBytes(c.view.Bytes(last.Span),
		"type").Str == "compaction_trigger" {
		return []responsesItem{{ID: "cmp_" + c.id, Type: "compaction", Encrypted: Sign(c.id)}}
	}
	// Reasoning is encrypted if the request includes reasoning.encrypted_content.
	encrypted := false
	gjson.GetBytes(c.view.Raw, "include").ForEach(func(_, v gjson.Result) bool {
		encrypted = encrypted || v.Str == "reasoning.encrypted_content"
		return true
	})
	items := make([]responsesItem, 0, len(c.answer.Blocks))
	for i := range c.answer.Blocks {
		b := &c.answer.Blocks[i]
		id := c.id + strconv.Itoa(i)
		from := len(items)
		switch b.Type {
		case Thinking:
			item := responsesItem{
				ID: "rs_" + id, Type: "reasoning",
				Summary: &[]responsesPart{{Type: "summary_text", Text: b.Text}},
			}
			if encrypted {
				item.Encrypted = b.Signature
			}
			items = append(items, item)
		case ToolUse:
			item := responsesItem{ID: "fc_" + id, Type: "function_call", Status: "completed", CallID: b.ID, Name: b.Name}
			text := string(b.Input)
			if b.Input[0] == '"' || takesText(c.view, b.Name) {
				item.ID, item.Type = "ctc_"+id, "custom_tool_call"
				text = freeText(b.Input)
				item.Input = &text
			} else {
				item.Arguments = &text
			}
			items = append(items, item)
		default:
			items = append(items, responsesItem{
				ID: "msg_" + id, Type: "message", Status: "completed", Role: "assistant",
				Content: &[]responsesPart{{Type: "output_text", Text: b.Text, Annotations: &[]int{}}},
			})
		}
		if b.Item != nil {
			items[from].ID, items[from].whole = gjson.GetBytes(b.Item, "id").Str, b.Item
		}
	}
	return items
}

// takesText reports whether a tool is a custom one, with free text as its input.
func takesText(v *wire.View, name string) bool {
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Kind == wire.KindToolDef && v.Text(b.Name) == name {
			// Groups of tools are not searched.
			return gjson.GetBytes(v.Bytes(b.Span), "type").Str == "custom"
		}
	}
	return false
}

// freeText returns the text of an input: a string, the member "input" of an object, or the object itself.
func freeText(input json.RawMessage) string {
	v := gjson.ParseBytes(input)
	if v.Type == gjson.String {
		return v.Str
	}
	if text := v.Get("input"); text.Type == gjson.String {
		return text.Str
	}
	return string(input)
}

func (responses) object(c *query) responsesObject {
	return responsesObject{
		ID: "resp_" + c.id, Object: "response", CreatedAt: c.at.Unix(), Status: "in_progress", Model: c.view.Model,
		Output: []responsesItem{}, Parallel: true, ToolChoice: "auto", Tools: []struct{}{},
	}
}

func (r responses) done(c *query, items []responsesItem) responsesObject {
	o := r.object(c)
	o.Status, o.Output, o.Usage = "completed", items, r.usage(c.usage)
	if reason := c.answer.StopReason; reason != "" && reason != "completed" {
		if reason == "max_tokens" {
			reason = "max_output_tokens"
		}
		o.Status, o.Incomplete = "incomplete", &responsesIncomplete{reason}
	}
	return o
}

// JSON encodes a response without a stream.
func (r responses) JSON(c *query) []byte { return encode(r.done(c, r.items(c))) }

// responsesEvent is one event of a stream. Its members depend on its type.
type responsesEvent struct {
	Type     string           `json:"type"`
	Sequence int              `json:"sequence_number"`
	Response *responsesObject `json:"response,omitempty"`
	ItemID   string           `json:"item_id,omitempty"`
	Output   *int             `json:"output_index,omitempty"`
	Content  *int             `json:"content_index,omitempty"`
	Summary  *int             `json:"summary_index,omitempty"`
	Item     *responsesItem   `json:"item,omitempty"`
	Part     *responsesPart   `json:"part,omitempty"`
	Delta    *string          `json:"delta,omitempty"`
	Text     *string          `json:"text,omitempty"`
	Args     *string          `json:"arguments,omitempty"`
	Input    *string          `json:"input,omitempty"`
}

func (r responses) events(c *query) [][]byte {
	var out [][]byte
	send := func(e responsesEvent) {
		e.Sequence = len(out)
		out = append(out, []byte("event: "+e.Type+"\ndata: "+string(encode(e))+"\n\n"))
	}
	items, begun := r.items(c), r.object(c)
	send(responsesEvent{Type: "response.created", Response: &begun})
	send(responsesEvent{Type: "response.in_progress", Response: &begun})
	zero := 0
	for i := range items {
		item := &items[i]
		open := *item
		open.whole = nil
		if open.Status != "" {
			open.Status = "in_progress"
		}
		empty := ""
		var delta, text string
		whole, part := responsesEvent{ItemID: item.ID, Output: &i}, responsesPart{}
		switch item.Type {
		case "message":
			open.Content, part = &[]responsesPart{}, (*item.Content)[0]
			delta, text = "response.output_text", part.Text
			whole.Content, whole.Text = &zero, &text
		case "reasoning":
			open.Summary, part = &[]responsesPart{}, (*item.Summary)[0]
			delta, text = "response.reasoning_summary_text", part.Text
			whole.Summary, whole.Text = &zero, &text
		case "function_call":
			open.Arguments = &empty
			delta, text = "response.function_call_arguments", *item.Arguments
			whole.Args = &text
		case "custom_tool_call":
			open.Input = &empty
			delta, text = "response.custom_tool_call_input", *item.Input
			whole.Input = &text
		}
		send(responsesEvent{Type: "response.output_item.added", Output: &i, Item: &open})
		if delta != "" {
			bounds := responsesEvent{ItemID: item.ID, Output: &i, Content: whole.Content, Summary: whole.Summary}
			kind := "response.content_part"
			if item.Type == "reasoning" {
				kind = "response.reasoning_summary_part"
			}
			if part.Type != "" {
				e, blank := bounds, part
				blank.Text = ""
				e.Type, e.Part = kind+".added", &blank
				send(e)
			}
			for _, s := range chunks(text, chunkSize) {
				e := bounds
				e.Type, e.Delta = delta+".delta", &s
				send(e)
			}
			whole.Type = delta + ".done"
			send(whole)
			if part.Type != "" {
				e := bounds
				e.Type, e.Part = kind+".done", &part
				send(e)
			}
		}
		send(responsesEvent{Type: "response.output_item.done", Output: &i, Item: item})
	}
	end := r.done(c, items)
	send(responsesEvent{Type: "response." + end.Status, Response: &end})
	return out
}
