// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Request is a request in a neutral form. Its values point into the source body.
type Request struct {
	// Format is the format of the source body.
	Format wire.Format
	// Model is the client's model name.
	Model string
	// Stream requests a streamed answer, IncludeUsage a separate usage chunk.
	Stream, IncludeUsage bool
	// FillsCache requests no answer, only a cached prompt: max_tokens of 0 in the Messages format.
	FillsCache bool
	// System are the texts of the system prompt.
	System []Part
	// Messages are the messages in order.
	Messages []Message
	// Tools are the functions available to the model.
	Tools []Tool
	// Choice restricts or forces tool calls.
	Choice Choice
	// Params are the parameters with different names in different formats.
	Params [ParamCount]rawjson.Value
	// Stop are the stop sequences.
	Stop []rawjson.Text
	// Reasoning configures thinking.
	Reasoning Reasoning
	// Output is the required form of the answer.
	Output Output

	dropped dropped
	// list is the index of the list of messages in the body. sum is a hash of the rest of the body
	// that the translation of a message depends on.
	list int
	sum  uint64
	// tools are the tools for the conversation's next request, nil for none.
	tools *toolList
	// whole: the translation of some message depends on all messages, see [Reader.DependsOnAll].
	whole bool
}

// Choice restricts or forces tool calls.
type Choice struct {
	// Mode is "" for unset, "auto", "any" or "none".
	Mode string
	// Tools are the only tools allowed; empty allows all.
	Tools []ToolName
	// Single forbids several calls in one answer, Parallel explicitly allows them.
	Single, Parallel bool
}

// Tool is a function run by the client.
type Tool struct {
	// ToolName is its name.
	ToolName
	// Description is its description.
	Description rawjson.Text
	// Schema is the JSON schema of the input, nil for none.
	Schema rawjson.Value
	// Strict is true or false, nil if unset.
	Strict rawjson.Value
	// Format is the grammar of a custom tool.
	Format rawjson.Value
	// Cache is its cache_control.
	Cache rawjson.Value
}

// Reasoning configures a model's thinking.
type Reasoning struct {
	// Mode is "" for unset, "off", "on" or "adaptive".
	Mode string
	// Budget is the limit on thinking in tokens, 0 if unset.
	Budget int
	// Effort is minimal, low, medium, high, xhigh or max; empty if unset.
	Effort string
	// Show requests the text or summary of the thinking.
	Show bool
}

// Output is the required form of an answer.
type Output struct {
	// Kind is "" for free text, "json" for any JSON or "schema".
	Kind string
	// Name and Description describe the schema.
	Name, Description rawjson.Text
	// Schema is the JSON schema.
	Schema rawjson.Value
	// Strict is true or false, nil if unset.
	Strict rawjson.Value
}
