// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// responsesAgent uses the SDK's Responses API like coding agents: nothing is stored, and the
// model's output goes back unchanged, reasoning included.
type responsesAgent struct {
	client  openai.Client
	params  responses.ResponseNewParams
	pending []string // ids of calls without an output
}

func newResponsesAgent(url string) agent {
	a := &responsesAgent{
		client: openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0)),
		params: responses.ResponseNewParams{
			Model:          "gpt-5.4",
			Instructions:   openai.String(sdkSystem),
			Store:          openai.Bool(false),
			Include:        []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
			Reasoning:      shared.ReasoningParam{Effort: shared.ReasoningEffortMedium},
			PromptCacheKey: openai.String("one-conversation"),
		},
	}
	for _, tool := range sdkTools {
		t := responses.ToolParamOfFunction(tool[0], map[string]any{"type": "object", "properties": sdkParameters}, false)
		t.OfFunction.Description = openai.String(tool[1])
		a.params.Tools = append(a.params.Tools, t)
	}
	return a
}

func (a *responsesAgent) add(items ...responses.ResponseInputItemUnionParam) {
	a.params.Input.OfInputItemList = append(a.params.Input.OfInputItemList, items...)
}

func (a *responsesAgent) prompt(text string) {
	a.add(responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
}

// results sends every other output as a list of parts, like Codex.
func (a *responsesAgent) results(texts []string) {
	for i, text := range texts {
		output := responses.ResponseInputItemParamOfFunctionCallOutput(text)
		if i%2 > 0 {
			part := responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: text}}
			output = responses.ResponseInputItemParamOfFunctionCallOutput(responses.ResponseFunctionCallOutputItemListParam{part})
		}
		output.OfFunctionCallOutput.CallID = openai.String(a.pending[i])
		a.add(output)
	}
}

func (a *responsesAgent) answer(ctx context.Context) (r reply, err error) {
	a.pending = nil
	stream := a.client.Responses.NewStreaming(ctx, a.params)
	defer stream.Close()
	var end *responses.Response
	text := ""
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.output_text.delta":
			text += e.Delta
		case "response.completed":
			end = &e.Response
		case "response.failed":
			return r, fmt.Errorf("failed: %s", e.Response.Error.Message)
		}
	}
	if err := stream.Err(); err != nil {
		return r, fmt.Errorf("stream: %w", err)
	}
	if end == nil {
		return r, errors.New("the stream ended without response.completed")
	}
	if text != end.OutputText() {
		return r, fmt.Errorf("the deltas say %q, the last event says %q", text, end.OutputText())
	}
	r.text, r.finish = text, string(end.Status)
	for i := range end.Output {
		item := &end.Output[i]
		a.add(param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		if item.Type == "function_call" {
			call := item.AsFunctionCall()
			a.pending = append(a.pending, call.CallID)
			r.calls = append(r.calls, sdkCall{call.CallID, call.Name, call.Arguments})
		}
	}
	r.prompt, r.output = end.Usage.InputTokens, end.Usage.OutputTokens
	r.cached = end.Usage.InputTokensDetails.CachedTokens
	return r, nil
}
