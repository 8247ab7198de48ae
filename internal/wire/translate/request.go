// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Request is a request in no format's own form. What it holds points into the
// body it was read from.
type Request struct {
	// Format is the format it was read from.
	Format wire.Format
	// Model is the model by the client's name.
	Model string
	// Stream asks for a streamed answer, IncludeUsage for its usage chunk.
	Stream, IncludeUsage bool
	// FillsCache asks for no answer at all, only that the prompt be cached:
	// max_tokens of 0 in the Messages format.
	FillsCache bool
	// System is the system prompt: texts.
	System []Part
	// Messages are the messages in order.
	Messages []Message
	// Tools are the functions that the model may call.
	Tools []Tool
	// Choice says which of them it must or may call.
	Choice Choice
	// Params are the values that formats have under different names.
	Params [ParamCount]rawjson.Value
	// Stop are the stop sequences.
	Stop []rawjson.Text
	// Reasoning says how much the model is to think.
	Reasoning Reasoning
	// Output is the form that the answer must have.
	Output Output
	// dropped are the fields that no other format holds.
	dropped map[string]bool
}

// Choice says which tools the model may call.
type Choice struct {
	// Mode is "" for unset, "auto", "any" or "none".
	Mode string
	// Tools, if any, are the only ones allowed.
	Tools []ToolName
	// Single forbids several calls in one answer, Parallel allows them
	// expressly.
	Single, Parallel bool
}

// Tool is a function that the client runs.
type Tool struct {
	// ToolName is its name.
	ToolName
	// Description is its description.
	Description rawjson.Text
	// Schema is the JSON schema of its input, nil if it has none.
	Schema rawjson.Value
	// Strict is true or false where the client said so.
	Strict rawjson.Value
	// Format is the grammar of a custom tool.
	Format rawjson.Value
	// Cache is its cache_control.
	Cache rawjson.Value
}

// Reasoning says how much a model is to think.
type Reasoning struct {
	// Mode is "" for unset, "off", "on" or "adaptive".
	Mode string
	// Budget is the bound on thinking in tokens, 0 for none given.
	Budget int
	// Effort is minimal, low, medium, high, xhigh or max; empty for none given.
	Effort string
	// Show asks for the thinking's text or summary in the answer.
	Show bool
}

// Output is the form that an answer must have.
type Output struct {
	// Kind is "" for free text, "json" for any JSON or "schema".
	Kind string
	// Name and Description name the schema.
	Name, Description rawjson.Text
	// Schema is the JSON schema.
	Schema rawjson.Value
	// Strict is true or false where the client said so.
	Strict rawjson.Value
}
