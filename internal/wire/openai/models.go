// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import "strings"

// Reasons reports whether a model of OpenAI is a reasoning model. Such models refuse sampling
// parameters.
func Reasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, prefix) {
			return !strings.Contains(model, "-chat")
		}
	}
	return false
}

// Plain reports whether a model is known not to reason. Such models refuse requests for encrypted
// reasoning. It reports false for unknown names.
func Plain(model string) bool {
	model = strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "ft:")
	for _, prefix := range []string{"gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat"} {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return false
}

// efforts returns the reasoning efforts that a model of OpenAI takes, in ascending order.
func efforts(model string) []string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	version, newer := strings.CutPrefix(model, "gpt-5.")
	latest, six := strings.CutPrefix(model, "gpt-6.")
	switch {
	// Since gpt-6.2 the API answers none and minimal with 400.
	case six && latest != "" && latest[0] > '1':
		return []string{"low", "medium", "high", "xhigh"}
	case strings.Contains(model, "codex-max"), strings.HasPrefix(model, "gpt-6"), newer && version != "" &&
		version[0] > '1':
		return []string{"none", "low", "medium", "high", "xhigh"}
	case newer:
		return []string{"none", "low", "medium", "high"}
	case strings.HasPrefix(model, "gpt-5"):
		return []string{"minimal", "low", "medium", "high"}
	}
	return []string{"low", "medium", "high"}
}
