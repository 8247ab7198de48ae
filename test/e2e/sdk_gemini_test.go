// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/genai"
)

// geminiAgent uses the SDK's generateContent, with or without streams.
type geminiAgent struct {
	client   *genai.Client
	config   *genai.GenerateContentConfig
	contents []*genai.Content
	pending  []*genai.FunctionCall // calls without a response
	whole    bool                  // no streams
	late     bool                  // the last chunk alone has usage, as a translated stream's
}

func newGeminiAgent(url string) agent { return geminiAgentFor(url) }

func newGeminiWholeAgent(url string) agent {
	a := geminiAgentFor(url)
	a.whole = true
	return a
}

func geminiAgentFor(url string) *geminiAgent {
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: "sk-test", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
	if err != nil {
		panic(err) // all values are literals
	}
	a := &geminiAgent{client: client, config: &genai.GenerateContentConfig{
		// Twice, because Gemini's shortest cached prefix is longer than that of others.
		SystemInstruction: genai.NewContentFromText(sdkSystem+sdkSystem, genai.RoleUser),
		ThinkingConfig:    &genai.ThinkingConfig{IncludeThoughts: true},
	}}
	tool := &genai.Tool{}
	for _, t := range sdkTools {
		tool.FunctionDeclarations = append(tool.FunctionDeclarations, &genai.FunctionDeclaration{
			Name: t[0], Description: t[1], ParametersJsonSchema: map[string]any{"type": "object", "properties": sdkParameters},
		})
	}
	a.config.Tools = []*genai.Tool{tool}
	return a
}

func (a *geminiAgent) prompt(text string) {
	a.contents = append(a.contents, genai.NewContentFromText(text, genai.RoleUser))
}

func (a *geminiAgent) results(texts []string) {
	if len(texts) == 0 {
		return
	}
	c := &genai.Content{Role: genai.RoleUser}
	for i, text := range texts {
		call := a.pending[i]
		c.Parts = append(c.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: call.ID, Name: call.Name, Response: map[string]any{"output": text},
		}})
	}
	a.contents = append(a.contents, c)
}

func (a *geminiAgent) answer(ctx context.Context) (r reply, err error) {
	const model = "gemini-3.1-pro-preview"
	a.pending = nil
	answer := &genai.Content{Role: genai.RoleModel}
	take := func(chunk *genai.GenerateContentResponse) error {
		if len(chunk.Candidates) != 1 || chunk.UsageMetadata == nil && !a.late {
			return errors.New("not one candidate, or no usage")
		}
		c := chunk.Candidates[0]
		r.finish += string(c.FinishReason)
		answer.Parts = append(answer.Parts, c.Content.Parts...)
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				arguments, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					return fmt.Errorf("arguments: %w", err)
				}
				a.pending = append(a.pending, p.FunctionCall)
				r.calls = append(r.calls, sdkCall{p.FunctionCall.ID, p.FunctionCall.Name, string(arguments)})
			case !p.Thought:
				r.text += p.Text
			}
		}
		if u := chunk.UsageMetadata; u != nil {
			r.prompt, r.cached, r.output = int64(u.PromptTokenCount), int64(u.CachedContentTokenCount),
				int64(u.CandidatesTokenCount)
		}
		return nil
	}
	if a.whole {
		chunk, err := a.client.Models.GenerateContent(ctx, model, a.contents, a.config)
		if err == nil {
			err = take(chunk)
		}
		if err != nil {
			return r, fmt.Errorf("generate: %w", err)
		}
	} else {
		for chunk, err := range a.client.Models.GenerateContentStream(ctx, model, a.contents, a.config) {
			if err == nil {
				err = take(chunk)
			}
			if err != nil {
				return r, fmt.Errorf("stream: %w", err)
			}
		}
	}
	a.contents = append(a.contents, answer)
	return r, nil
}
