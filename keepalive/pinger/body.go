// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// pingBody returns the body of a ping for a request that was sent, or false if no cheap ping
// exists. The body ends with the last message that carries a cache marker, byte for byte.
func pingBody(v *wire.View, sent []byte) ([]byte, bool) {
	// A request with a fixed thinking budget must allow more output tokens than the budget.
	if len(sent) == 0 || v.Conversation.Partial || gjson.GetBytes(v.Bytes(v.Reply.Thinking), "type").Str == "enabled" {
		return nil, false
	}
	if !markedEnd(v) {
		var ok bool
		if sent, ok = cutBehindMarker(sent, v.Format); !ok {
			return nil, false
		}
	}
	// A request without output tokens fills or refreshes the cache (Anthropic's documentation of
	// prompt caching).
	maxTokens := "0"
	choice := gjson.GetBytes(v.Bytes(v.Reply.ToolChoice), "type").Str
	if choice == "any" || choice == "tool" || gjson.GetBytes(v.Bytes(v.Reply.OutputConfig), "format").Exists() {
		// The API refuses max_tokens 0 beside a forced tool or an output format.
		maxTokens = "1"
	}
	members := []wire.Member{{Name: "max_tokens", Value: []byte(maxTokens)}, {Name: "thread"}}
	if v.Reply.Stream {
		members = append(members, wire.Member{Name: "stream", Value: []byte("false")})
	}
	body, err := wire.Patch(sent, members...)
	return body, err == nil
}

func markedEnd(v *wire.View) bool {
	if !v.Caching.AutoMarker.Empty() {
		return true
	}
	return len(v.Messages) > 0 && marked(v, len(v.Messages)-1)
}

func marked(v *wire.View, message int) bool {
	m := &v.Messages[message]
	for i := m.First; i < m.End; i++ {
		if !v.Blocks[i].Marker.Empty() {
			return true
		}
	}
	return false
}

// cutBehindMarker removes the messages after the last one with a marker.
func cutBehindMarker(body []byte, f wire.Format) ([]byte, bool) {
	v, err := wire.Parse(f, body, nil)
	if err != nil {
		return nil, false
	}
	last := len(v.Messages) - 1
	i := last
	for i >= 0 && !marked(v, i) {
		i--
	}
	// A valid request ends with a message of the user.
	if i < 0 || v.Messages[i].Role != wire.RoleUser {
		return nil, false
	}
	from, to := v.Messages[i].Span.End, v.Messages[last].Span.End
	return append(slices.Clone(body[:from]), body[to:]...), true
}
