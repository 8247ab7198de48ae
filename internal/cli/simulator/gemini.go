// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"
)

// gemini speaks generateContent and streamGenerateContent. With array set, a stream is one JSON
// array, the format without alt=sse.
type gemini struct{ array bool }

type geminiResponse struct {
	Candidates []geminiCandidate `json:"candidates,omitempty"`
	Usage      geminiUsage       `json:"usageMetadata"`
	Model      string            `json:"modelVersion"`
	ID         string            `json:"responseId"`
}

type geminiCandidate struct {
	Content geminiContent `json:"content"`
	Finish  string        `json:"finishReason,omitempty"`
	Index   int           `json:"index"`
}

type geminiContent struct {
	Parts []geminiPart `json:"parts"`
	Role  string       `json:"role"`
}

type geminiPart struct {
	Text      *string     `json:"text,omitempty"`
	Thought   bool        `json:"thought,omitempty"`
	Call      *geminiCall `json:"functionCall,omitempty"`
	Signature string      `json:"thoughtSignature,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiUsage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount,omitempty"`
	Candidates int64 `json:"candidatesTokenCount,omitempty"`
	Thoughts   int64 `json:"thoughtsTokenCount,omitempty"`
	Total      int64 `json:"totalTokenCount"`
}

// usage counts cached tokens within the prompt, and thoughts beside the candidates.
func (gemini) usage(c *query) geminiUsage {
	thoughts := int64(0)
	for i := range c.answer.Blocks {
		if b := &c.answer.Blocks[i]; b.Type == Thinking {
			thoughts += int64(len(b.Text)) / 4
		}
	}
	u, thoughts := c.usage, min(thoughts, c.usage.Output)
	return geminiUsage{
		Prompt: u.Prompt(), Cached: u.Read, Candidates: u.Output - thoughts, Thoughts: thoughts,
		Total: u.Prompt() + u.Output,
	}
}

// parts returns the parts of an answer, with texts in pieces of about n bytes.
func (gemini) parts(a *Answer, n int) (parts []geminiPart) {
	signed := false
	for i := range a.Blocks {
		b := &a.Blocks[i]
		if b.Type != ToolUse {
			for _, s := range chunks(b.Text, n) {
				parts = append(parts, geminiPart{Text: &s, Thought: b.Type == Thinking})
			}
			continue
		}
		p := geminiPart{Call: &geminiCall{b.ID, b.Name, b.Input}}
		// Newer models sign the first call.
		if !signed {
			signed = true
			p.Signature = Sign(b.Name + " " + string(b.Input))
		}
		parts = append(parts, p)
	}
	return parts
}

// finish returns the reason for the end of an answer: calls have none of their own.
func (gemini) finish(a *Answer) string {
	switch a.StopReason {
	case "":
		return "STOP"
	case "max_tokens":
		return "MAX_TOKENS"
	}
	return a.StopReason
}

func (g gemini) response(c *query, parts []geminiPart, finish string) geminiResponse {
	if parts == nil {
		parts = []geminiPart{}
	}
	return geminiResponse{
		Candidates: []geminiCandidate{{Content: geminiContent{Parts: parts, Role: "model"}, Finish: finish}},
		Usage:      g.usage(c), Model: c.view.Model, ID: c.id,
	}
}

// JSON encodes a response without a stream.
func (g gemini) JSON(c *query) []byte {
	return encode(g.response(c, g.parts(c.answer, maxBody), g.finish(c.answer)))
}

// events encodes a stream, one chunk an element, the last with the reason for the end.
func (g gemini) events(c *query) [][]byte {
	parts := g.parts(c.answer, chunkSize)
	out := make([][]byte, 0, len(parts)+1)
	before, after := "data: ", "\n\n"
	if g.array {
		before, after = "[", ""
	}
	for i := range max(len(parts), 1) {
		part, finish := parts[min(i, len(parts)):min(i+1, len(parts))], ""
		if i+1 >= len(parts) {
			finish = g.finish(c.answer)
		}
		out = append(out, []byte(before+string(encode(g.response(c, part, finish)))+after))
		if g.array {
			before = ",\r\n"
		}
	}
	if g.array {
		out = append(out, []byte("]"))
	}
	return out
}

func (g gemini) streamType() string {
	if g.array {
		return "application/json; charset=UTF-8"
	}
	return eventStream
}

// geminiStatus are the API's names for errors, by HTTP status.
var geminiStatus = map[int]string{
	http.StatusBadRequest:            "INVALID_ARGUMENT",
	http.StatusUnauthorized:          "UNAUTHENTICATED",
	http.StatusForbidden:             "PERMISSION_DENIED",
	http.StatusNotFound:              "NOT_FOUND",
	http.StatusRequestEntityTooLarge: "INVALID_ARGUMENT",
	http.StatusTooManyRequests:       "RESOURCE_EXHAUSTED",
	http.StatusServiceUnavailable:    "UNAVAILABLE",
	http.StatusGatewayTimeout:        "DEADLINE_EXCEEDED",
}

// failure encodes an error.
func (g gemini) failure(f Failure, _ string) []byte {
	type body struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
	}
	status := geminiStatus[f.Status]
	if status == "" {
		status = "INTERNAL"
	}
	b := encode(struct {
		Error body `json:"error"`
	}{body{f.Status, f.Message, status}})
	// The error comes in an array if the stream would be one.
	if g.array {
		return append(append([]byte{'['}, b...), ']')
	}
	return b
}

func (gemini) requestID() string { return "x-request-id" }

func (gemini) schema(output gjson.Result) gjson.Result { return output }
