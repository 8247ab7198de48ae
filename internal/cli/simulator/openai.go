// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// openai speaks chat completions.
type openai struct{}

type openaiUsage struct {
	Prompt     int64         `json:"prompt_tokens"`
	Completion int64         `json:"completion_tokens"`
	Total      int64         `json:"total_tokens"`
	Details    openaiDetails `json:"prompt_tokens_details"`
}

type openaiDetails struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	// ByLifetime is set if anything was written.
	ByLifetime *openaiLifetime `json:"cache_write_tokens_details,omitempty"`
}

type openaiLifetime struct {
	Short int64 `json:"ttl_30m_tokens"`
	Long  int64 `json:"ttl_12h_tokens"`
}

func openaiInput(u wire.Usage) openaiDetails {
	d := openaiDetails{Cached: u.Read, CacheWrite: u.Write5m + u.Write1h}
	if d.CacheWrite > 0 {
		d.ByLifetime = &openaiLifetime{u.Write5m, u.Write1h}
	}
	return d
}

type openaiMessage struct {
	Role      string       `json:"role,omitempty"`
	Content   *string      `json:"content,omitempty"`
	Reasoning *string      `json:"reasoning_content,omitempty"`
	Calls     []openaiCall `json:"tool_calls,omitempty"`
}

type openaiCall struct {
	Index    *int           `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function openaiFunction `json:"function"`
}

type openaiFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type openaiChoice struct {
	Index   int            `json:"index"`
	Message *openaiMessage `json:"message,omitempty"`
	Delta   *openaiMessage `json:"delta,omitempty"`
	Finish  *string        `json:"finish_reason"`
}

type openaiCompletion struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []openaiChoice `json:"choices"`
	Usage   *openaiUsage   `json:"usage,omitempty"`
}

// usage counts cached tokens within the prompt.
func (openai) usage(u wire.Usage) *openaiUsage {
	return &openaiUsage{
		Prompt: u.Prompt(), Completion: u.Output, Total: u.Prompt() + u.Output,
		Details: openaiInput(u),
	}
}

func (openai) stopReason(a *Answer) string {
	switch {
	case a.StopReason != "":
		return a.StopReason
	case a.calls():
		return "tool_calls"
	}
	return "stop"
}

func (openai) completion(c *query, object string) openaiCompletion {
	return openaiCompletion{
		ID: "chatcmpl-" + c.id, Object: object, Created: c.at.Unix(), Model: c.view.Model,
		Choices: []openaiChoice{},
	}
}

// JSON encodes a response without a stream.
func (o openai) JSON(c *query) []byte {
	m := openaiMessage{Role: "assistant"}
	for i := range c.answer.Blocks {
		b := &c.answer.Blocks[i]
		switch b.Type {
		case Thinking:
			m.Reasoning = join(m.Reasoning, b.Text)
		case ToolUse:
			m.Calls = append(m.Calls, openaiCall{ID: b.ID, Type: "function", Function: openaiFunction{b.Name, string(b.Input)}})
		default:
			m.Content = join(m.Content, b.Text)
		}
	}
	reason := o.stopReason(c.answer)
	r := o.completion(c, "chat.completion")
	r.Choices = append(r.Choices, openaiChoice{Message: &m, Finish: &reason})
	r.Usage = o.usage(c.usage)
	return encode(r)
}

func join(have *string, more string) *string {
	if have != nil {
		more = *have + more
	}
	return &more
}

func (o openai) events(c *query) [][]byte {
	var out [][]byte
	send := func(r openaiCompletion) {
		out = append(out, []byte("data: "+string(encode(r))+"\n\n"))
	}
	delta := func(m openaiMessage) {
		r := o.completion(c, "chat.completion.chunk")
		r.Choices = append(r.Choices, openaiChoice{Delta: &m})
		send(r)
	}
	empty, call := "", 0
	delta(openaiMessage{Role: "assistant", Content: &empty})
	for i := range c.answer.Blocks {
		b := &c.answer.Blocks[i]
		switch b.Type {
		case Thinking:
			for _, s := range chunks(b.Text, chunkSize) {
				delta(openaiMessage{Reasoning: &s})
			}
		case ToolUse:
			at := call
			call++
			delta(openaiMessage{Calls: []openaiCall{{
				Index: &at, ID: b.ID, Type: "function",
				Function: openaiFunction{Name: b.Name},
			}}})
			for _, s := range chunks(string(b.Input), chunkSize) {
				delta(openaiMessage{Calls: []openaiCall{{Index: &at, Function: openaiFunction{Arguments: s}}}})
			}
		default:
			for _, s := range chunks(b.Text, chunkSize) {
				delta(openaiMessage{Content: &s})
			}
		}
	}
	reason := o.stopReason(c.answer)
	last := o.completion(c, "chat.completion.chunk")
	last.Choices = append(last.Choices, openaiChoice{Delta: &openaiMessage{}, Finish: &reason})
	send(last)
	if gjson.GetBytes(c.view.Raw, "stream_options.include_usage").Bool() {
		tail := o.completion(c, "chat.completion.chunk")
		tail.Usage = o.usage(c.usage)
		send(tail)
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

func (openai) failure(f Failure, _ string) []byte {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	e := body{Message: f.Message, Type: f.Type}
	if f.Code != "" {
		e.Code = &f.Code
	}
	if f.Param != "" {
		e.Param = &f.Param
	}
	return encode(struct {
		Error body `json:"error"`
	}{e})
}

func (openai) streamType() string { return eventStream }

func (openai) requestID() string { return "x-request-id" }

func (openai) schema(output gjson.Result) gjson.Result { return formatSchema(output) }
