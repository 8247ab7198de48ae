// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// APIError is an error as the provider's API words it.
type APIError struct {
	// Status is the HTTP status.
	Status int
	// Type is the API's name of the error, such as invalid_request_error.
	Type string
	// Message is the API's text.
	Message string
}

// Error returns type and text.
func (e *APIError) Error() string { return e.Type + ": " + e.Message }

func invalid(message string) *APIError {
	return &APIError{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: message}
}

func invalidf(format string, args ...any) *APIError { return invalid(fmt.Sprintf(format, args...)) }

func path(v *wire.View, block int) string {
	b := &v.Blocks[block]
	switch b.Section {
	case wire.SectionTools:
		return fmt.Sprintf("tools.%d", block)
	case wire.SectionSystem:
		return fmt.Sprintf("system.%d", block-v.Tools)
	default:
		return fmt.Sprintf("messages.%d.content.%d", b.Message, block-int(v.Messages[b.Message].First))
	}
}

// validate checks a request by itself and returns its cache markers.
func validate(v *wire.View, r Rules) ([]marker, *APIError) {
	for m := range v.Messages {
		if v.Messages[m].Role == wire.RoleNone {
			return nil, invalidf("messages.%d.role: unknown role", m)
		}
	}
	if check := validators[v.Format]; check != nil {
		return check(v, r)
	}
	return validateMessages(v, r)
}

// validators are the checks of APIs unlike the Messages API.
var validators = map[wire.Format]func(v *wire.View, r Rules) ([]marker, *APIError){
	wire.OpenAIChat:      func(v *wire.View, r Rules) ([]marker, *APIError) { return chatMarkers(v, r), validateChat(v) },
	wire.OpenAIResponses: func(v *wire.View, _ Rules) ([]marker, *APIError) { return nil, validateResponses(v) },
	wire.Gemini:          func(v *wire.View, r Rules) ([]marker, *APIError) { return nil, validateGemini(v, r) },
	wire.Interactions:    func(v *wire.View, _ Rules) ([]marker, *APIError) { return nil, validateInteractions(v) },
}

func validateMessages(v *wire.View, r Rules) ([]marker, *APIError) {
	var marks []marker
	if r.Regime == Markers {
		var err *APIError
		if marks, err = markers(v, r); err != nil {
			return nil, err
		}
	}
	for _, check := range []func(*wire.View, Rules) *APIError{validateContent, validatePairs, validateThinking} {
		if err := check(v, r); err != nil {
			return nil, err
		}
	}
	return marks, nil
}

func validateContent(v *wire.View, r Rules) *APIError {
	if len(v.Messages) == 0 {
		return invalid("messages: at least one message is required")
	}
	if v.Messages[0].Role != wire.RoleUser {
		return invalid(`messages: first message must use the "user" role`)
	}
	final := len(v.Messages) - 1
	if r.RefusesPrefill && v.Messages[final].Role == wire.RoleAssistant {
		return invalid("This model does not support assistant message prefill. The conversation must end with a user " +
			"message.")
	}
	for m := range v.Messages {
		msg := &v.Messages[m]
		// An empty final answer is allowed.
		if msg.First == msg.End && (m < final || msg.Role != wire.RoleAssistant) {
			return invalidf("messages.%d: all messages must have non-empty content except for the optional final assistant "+
				"message", m)
		}
		texts, blank := 0, 0
		for i := msg.First; i < msg.End; i++ {
			b := &v.Blocks[i]
			if b.Kind != wire.KindText {
				continue
			}
			if b.Has(wire.FlagEmpty) {
				return invalid("messages: text content blocks must be non-empty")
			}
			texts++
			if isBlank(b.Body.Of(v.Raw)) {
				blank++
			}
		}
		if texts > 0 && texts == blank && texts == int(msg.End-msg.First) {
			return invalid("messages: text content blocks must contain non-whitespace text")
		}
	}
	for i := v.Tools; i < v.System; i++ {
		// An empty string in place of the list counts as no system prompt.
		if v.Blocks[i].Kind == wire.KindText && v.Blocks[i].Has(wire.FlagEmpty) && !v.Blocks[i].Has(wire.FlagString) {
			return invalid("system: text content blocks must be non-empty")
		}
	}
	return nil
}

// isBlank reports whether a JSON string has white space only.
func isBlank(s []byte) bool {
	for i := 1; i < len(s)-1; i++ {
		switch s[i] {
		case ' ':
		case '\\':
			// In JSON the other white space comes as an escape.
			if i++; s[i] != 'n' && s[i] != 't' && s[i] != 'r' {
				return false
			}
		default:
			return false
		}
	}
	return true
}
