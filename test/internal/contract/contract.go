// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract says what is wrong with a request to a model's API or with an
// answer of one. It shares nothing with the module under test: members and their
// types are those of the official SDKs, what holds between them (calls and
// results, ids, the order of roles, the events of a stream) is written down here
// from the APIs' documentation.
package contract

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// API is one of the ways to ask a model.
type API string

// The APIs.
const (
	Anthropic API = "anthropic"
	Chat      API = "openai_chat"
	Responses API = "openai_responses"
	Gemini    API = "gemini"
	// Interactions is the Interactions API of Gemini.
	Interactions API = "interactions"
)

// Of returns the API that a request is made to, or nothing if it asks no model.
func Of(r *http.Request) API {
	if r.Method != http.MethodPost {
		return ""
	}
	for end, api := range map[string]API{
		"/v1/messages": Anthropic, "/chat/completions": Chat, "/responses": Responses,
		":generateContent": Gemini, ":streamGenerateContent": Gemini, "/interactions": Interactions,
	} {
		if strings.HasSuffix(r.URL.Path, end) {
			return api
		}
	}
	return ""
}

// Finding is something that is wrong.
type Finding struct {
	// Path leads to it, without indices: messages[].content.
	Path string
	// What is wrong. It names no ids, so that the same thing in two requests is
	// the same finding.
	What string
}

func (f Finding) String() string { return f.Path + " " + f.What }

// findings are what is found in one request or answer.
type findings struct {
	request bool
	found   []Finding
}

// Request returns what is wrong with the body of a request.
func Request(api API, body []byte) []Finding {
	f := &findings{request: true}
	v, err := Parse(body)
	if err != nil {
		f.add("", "is no JSON: %v", err)
		return f.found
	}
	switch api {
	case Anthropic:
		f.shape("", v, reflect.TypeFor[anthropicRequest]())
		f.anthropicRequest(v)
	case Chat:
		f.shape("", v, reflect.TypeFor[chatRequest]())
		f.chatRequest(v)
	case Responses:
		answered(v)
		f.shape("", v, reflect.TypeFor[responsesRequest]())
		f.responsesRequest(v)
	case Gemini:
		f.shape("", v, reflect.TypeFor[geminiRequest]())
		f.geminiRequest(v)
	case Interactions:
		f.interactionsRequest(body, v)
	}
	return f.found
}

// answered gives the answers in a request the members that the SDK wants there:
// the API takes them without.
func answered(v *Value) {
	for i, item := range v.List("input") {
		if item.String("role") != "assistant" || item.String("type") == "" && item.Has("content") && item.Get("content").Kind == String {
			continue
		}
		item.fill("type", "message")
		item.fill("id", fmt.Sprintf("msg_%d", i))
		item.fill("status", "completed")
		item.Get("content").AsBlocks("output_text")
		for _, part := range item.List("content") {
			if part.Get("annotations") == nil {
				part.Members = append(part.Members, Member{"annotations", &Value{Kind: Array}})
			}
		}
	}
}

// The SDKs' types of requests, and what they add or do in a way of their own.
type (
	anthropicRequest struct {
		anthropic.BetaMessageNewParams
		Stream bool `json:"stream"`
	}
	chatRequest struct {
		openai.ChatCompletionNewParams
		Stream bool `json:"stream"`
	}
	responsesRequest struct {
		responses.ResponseNewParams
		Stream bool `json:"stream"`
	}
	// geminiRequest is what the SDK makes of its configuration.
	geminiRequest struct {
		Contents          []*genai.Content        `json:"contents"`
		SystemInstruction *genai.Content          `json:"systemInstruction"`
		Tools             []*genai.Tool           `json:"tools"`
		ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
		SafetySettings    []*genai.SafetySetting  `json:"safetySettings"`
		GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
		CachedContent     string                  `json:"cachedContent"`
		Labels            map[string]string       `json:"labels"`
	}
)
