// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

var agents = map[wire.Format]struct {
	build   func(p pricing.Profile, s setting) Agent
	address func(header http.Header, model, session string) (path string)
}{
	wire.Anthropic: {
		func(p pricing.Profile, s setting) Agent {
			return newClaudeCode(s, claudeShape{model: p.Model, long: p.LongTTL, adaptive: p.Adaptive})
		},
		func(header http.Header, _, session string) string {
			header.Set("X-Api-Key", session)
			header.Set("Anthropic-Version", "2023-06-01")
			header.Set("X-Claude-Code-Session-Id", sessionID(session))
			return "/v1/messages?beta=true"
		},
	},
	wire.OpenAIChat: {
		func(p pricing.Profile, s setting) Agent {
			kv := p.Rules().Regime == pricing.KV
			return newChat(s, chatShape{model: p.Model, reasoning: kv, cacheKey: !kv})
		},
		func(header http.Header, _, session string) string {
			header.Set("Authorization", "Bearer "+session)
			header.Set("X-Session-Affinity", sessionID(session))
			return "/v1/chat/completions"
		},
	},
	wire.OpenAIResponses: {
		func(p pricing.Profile, s setting) Agent { return newCodex(s, p.Model) },
		func(header http.Header, _, session string) string {
			header.Set("Authorization", "Bearer "+session)
			header.Set("Session-Id", sessionID(session))
			return "/v1/responses"
		},
	},
	wire.Gemini: {
		func(_ pricing.Profile, s setting) Agent { return newGeminiCLI(s) },
		func(header http.Header, model, session string) string { // no session header
			header.Set("X-Goog-Api-Key", session)
			return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
		},
	},
	wire.Interactions: {
		func(p pricing.Profile, s setting) Agent { return newInteractions(s, p.Model) },
		func(header http.Header, _, session string) string {
			header.Set("X-Goog-Api-Key", session)
			return "/v1beta/interactions"
		},
	},
}

// New returns the agent of the profile's format, at the beginning of one part of a conversation.
func New(p pricing.Profile, c *recording.Conversation, head *recording.Header, first *recording.Call) Agent {
	return agents[p.Format].build(p, newSetting(c, head, first))
}

// Address returns the path and headers of an agent's requests.
func Address(p pricing.Profile, session string) (path string, header http.Header) {
	header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	return agents[p.Format].address(header, p.Model, session), header
}

// Requests calls each with the requests of a conversation in order, as its client sends them. Each
// part is a session of the client.
func Requests(c *recording.Conversation, p pricing.Profile, each func(part int, body []byte) error) error {
	part := 0
	return c.Traces(func(t *recording.Trace) error {
		part++
		var a Agent
		for {
			call, err := t.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if a == nil {
				a = New(p, c, &t.Header, call)
			}
			Sign(call.Messages)
			a.Add(call.Messages)
			if err := each(part, a.Body()); err != nil {
				return err
			}
		}
	})
}
