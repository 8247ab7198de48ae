// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract finds faults in requests to models' APIs and in their responses. It shares no
// code with the module under test. Members and their types come from the official SDKs. The
// relations between them (calls and results, ids, the order of roles, the events of a stream) are
// written down from the APIs' documentation.
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

// API is the API of a model.
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

// Of returns the API of a request, "" if the request is for no model.
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

// Finding is one fault.
type Finding struct {
	// Path is the path of the fault without indices: messages[].content.
	Path string
	// The fault. It contains no ids, so that equal faults are equal findings.
	What string
}

func (f Finding) String() string { return f.Path + " " + f.What }

// findings are the faults of one request or response.
type findings struct {
	request bool
	found   []Finding
}

// Request returns the faults of a request's body.
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

// answered adds the members to a request's answers that the SDK requires and the API does not.
func answered(v *Value) {
	for i, item := range v.List("input") {
		if item.String("role") != "assistant" || item.String("type") == "" && item.Has("content") &&
			item.Get("content").Kind == String {
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

// The SDKs' types of requests, with the members that the SDKs add by other means.
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
	// geminiRequest is the SDK's wire form of its configuration.
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
