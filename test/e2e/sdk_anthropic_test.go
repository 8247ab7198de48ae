// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropicAgent uses the SDK for API version 2023-06-01.
type anthropicAgent struct {
	client   anthropic.Client
	params   anthropic.MessageNewParams
	pending  []string                           // ids of calls without a result
	incoming []anthropic.ContentBlockParamUnion // of the next message
}

func newAnthropicAgent(url string) agent {
	a := &anthropicAgent{
		client: anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(url),
			option.WithAPIKey("sk-test"), option.WithMaxRetries(0)),
		params: anthropic.MessageNewParams{
			Model:     "claude-sonnet-4-5",
			MaxTokens: 4096,
			System:    []anthropic.TextBlockParam{{Text: sdkSystem}},
		},
	}
	for _, tool := range sdkTools {
		a.params.Tools = append(a.params.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name:        tool[0],
			Description: anthropic.String(tool[1]),
			InputSchema: anthropic.ToolInputSchemaParam{Properties: sdkParameters},
		}})
	}
	return a
}

func (a *anthropicAgent) prompt(text string) {
	a.incoming = append(a.incoming, anthropic.NewTextBlock(text))
}

func (a *anthropicAgent) results(texts []string) {
	for i, text := range texts {
		a.incoming = append(a.incoming, anthropic.NewToolResultBlock(a.pending[i], text, false))
	}
}

func (a *anthropicAgent) answer(ctx context.Context) (r reply, err error) {
	a.params.Messages = append(a.params.Messages, anthropic.NewUserMessage(a.incoming...))
	a.incoming, a.pending = nil, nil
	stream := a.client.Messages.NewStreaming(ctx, a.params)
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return r, fmt.Errorf("accumulate: %w", err)
		}
	}
	if err := stream.Err(); err != nil {
		return r, fmt.Errorf("stream: %w", err)
	}
	a.params.Messages = append(a.params.Messages, m.ToParam())
	for _, block := range m.Content {
		switch b := block.AsAny().(type) {
		case anthropic.TextBlock:
			r.text += b.Text
		case anthropic.ToolUseBlock:
			a.pending = append(a.pending, b.ID)
			r.calls = append(r.calls, sdkCall{b.ID, b.Name, string(b.Input)})
		}
	}
	r.finish = string(m.StopReason)
	r.cached, r.output = m.Usage.CacheReadInputTokens, m.Usage.OutputTokens
	r.prompt = m.Usage.InputTokens + m.Usage.CacheCreationInputTokens + r.cached
	return r, nil
}
