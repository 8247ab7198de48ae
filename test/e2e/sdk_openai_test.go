// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// openAIAgent uses the SDK's chat completions.
type openAIAgent struct {
	client  openai.Client
	params  openai.ChatCompletionNewParams
	pending []string // ids of calls without a result
}

func newOpenAIAgent(url string) agent {
	a := &openAIAgent{
		client: openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0)),
		params: openai.ChatCompletionNewParams{
			Model:         "gpt-5.4",
			Messages:      []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(sdkSystem)},
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		},
	}
	for _, tool := range sdkTools {
		a.params.Tools = append(a.params.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name:        tool[0],
			Description: openai.String(tool[1]),
			Parameters:  openai.FunctionParameters{"type": "object", "properties": sdkParameters},
		}))
	}
	return a
}

func (a *openAIAgent) prompt(text string) {
	a.params.Messages = append(a.params.Messages, openai.UserMessage(text))
}

func (a *openAIAgent) results(texts []string) {
	for i, text := range texts {
		a.params.Messages = append(a.params.Messages, openai.ToolMessage(text, a.pending[i]))
	}
}

func (a *openAIAgent) answer(ctx context.Context) (r reply, err error) {
	a.pending = nil
	stream := a.client.Chat.Completions.NewStreaming(ctx, a.params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return r, fmt.Errorf("accumulate: %s does not fit", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		return r, fmt.Errorf("stream: %w", err)
	}
	if len(acc.Choices) != 1 {
		return r, errors.New("not one choice")
	}
	m := acc.Choices[0].Message
	a.params.Messages = append(a.params.Messages, m.ToParam())
	r.text, r.finish = m.Content, acc.Choices[0].FinishReason
	for _, c := range m.ToolCalls {
		a.pending = append(a.pending, c.ID)
		r.calls = append(r.calls, sdkCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	r.prompt, r.output = acc.Usage.PromptTokens, acc.Usage.CompletionTokens
	r.cached = acc.Usage.PromptTokensDetails.CachedTokens
	return r, nil
}
